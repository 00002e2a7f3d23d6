//! Buttons of a rules file: rows as they are written, and what each press will mean.

use toml::de::DeValue;

use super::super::BUTTON_ID_BYTES_MAX;
use super::super::rules::{ButtonRule, PressAct, Pressed};
use super::super::words::fold;
use super::Reader;
use super::tree::Value;
use crate::content::similarity::stable_hash;
use crate::message::is_web_address;

/// A plain list is laid out two in a row, as long as the words are short.
const SHORT_TITLE: usize = 18;
const TITLE_CHARACTERS_MAX: usize = 60;
/// Bytes of an id that is made from a title.
const ID_BYTES_MAX: usize = 40;

impl Reader<'_> {
    /// Rows of buttons that work while the dialogue stands in `state`, or everywhere.
    pub(super) fn buttons(&mut self, value: Value<'_>, state: Option<&str>) -> Vec<Vec<ButtonRule>> {
        let items = self.faults.items(value, "buttons");
        if items.iter().any(|item| matches!(item.get_ref(), DeValue::Array(_))) {
            let mut rows = Vec::new();
            for item in items {
                let row = self.faults.items(item, "a row of buttons");
                rows.push(row.into_iter().filter_map(|button| self.button(button, state)).collect());
            }
            return rows.into_iter().filter(|row: &Vec<ButtonRule>| !row.is_empty()).collect();
        }
        let buttons: Vec<ButtonRule> =
            items.into_iter().filter_map(|item| self.button(item, state)).collect();
        laid_out(buttons)
    }

    fn button(&mut self, value: Value<'_>, state: Option<&str>) -> Option<ButtonRule> {
        if let DeValue::String(title) = value.get_ref() {
            return self.press(value.span().start, title, None, state, PressAct::Say);
        }
        let known = &["title", "text", "id", "goto", "url", "rule"];
        let table = self.faults.table(value, "a button", known)?;
        let at = value.span().start;
        let Some(title) = table
            .get("title")
            .or_else(|| table.get("text"))
            .and_then(|value| self.faults.string(value, "title"))
        else {
            self.faults.add(at, "a button needs its words, such as title = \"Доставка\"");
            return None;
        };
        if let Some(url) = table.get("url").and_then(|value| self.faults.string(value, "url")) {
            if !is_web_address(&url) {
                self.faults.add(at, format!("the button `{title}`: `{url}` is not an http or https address"));
            }
            return Some(ButtonRule { title, carries: String::new(), url: Some(url) });
        }
        let id = table.get("id").and_then(|value| self.faults.string(value, "id"));
        let act = if let Some(goto) = table.get("goto") {
            PressAct::Goto(self.goto(goto, "goto")?)
        } else if let Some(rule) = table.get("rule") {
            let name = self.faults.string(rule, "rule")?;
            self.used.rules.push((name.clone(), rule.span().start));
            PressAct::Rule(name)
        } else {
            PressAct::Say
        };
        self.press(at, &title, id.as_deref(), state, act)
    }

    /// Remembers what a press means and says what it has to carry.
    pub(super) fn press(
        &mut self,
        at: usize,
        title: &str,
        id: Option<&str>,
        state: Option<&str>,
        act: PressAct,
    ) -> Option<ButtonRule> {
        if title.trim().is_empty() || title.chars().count() > TITLE_CHARACTERS_MAX || title.contains('{') {
            let most = TITLE_CHARACTERS_MAX;
            let text =
                format!("the button `{title}` needs plain words, up to {most} characters, without `{{…}}`");
            self.faults.add(at, text);
            return None;
        }
        let id = id.map_or_else(|| id_of(title), str::to_owned);
        let carries = carries(&id, state);
        let pressed = Pressed { state: state.map(str::to_owned), id, title: title.to_owned(), act };
        let before = self.presses.insert(carries.clone(), pressed.clone());
        if before.is_some_and(|before| before.act != pressed.act) {
            let text = format!(
                "two buttons with the id `{}` in one place do different things; give one another id",
                pressed.id
            );
            self.faults.add(at, text);
        }
        Some(ButtonRule { title: title.to_owned(), carries, url: None })
    }
}

/// A plain list as rows.
pub(super) fn laid_out(buttons: Vec<ButtonRule>) -> Vec<Vec<ButtonRule>> {
    let short = buttons.iter().all(|button| button.title.chars().count() <= SHORT_TITLE);
    buttons.chunks(if short { 2 } else { 1 }).map(<[ButtonRule]>::to_vec).collect()
}

/// What a button carries: readable where that fits every platform, a hash where not.
pub(in crate::dialogue) fn carries(id: &str, state: Option<&str>) -> String {
    let plain = state.map_or_else(|| id.to_owned(), |state| format!("{id}@{state}"));
    if plain.len() <= BUTTON_ID_BYTES_MAX {
        plain
    } else {
        format!("#{:016x}", stable_hash(plain.as_bytes()))
    }
}

fn id_of(title: &str) -> String {
    let folded = fold(title).replace(' ', "_");
    if folded.is_empty() || folded.len() > ID_BYTES_MAX {
        return format!("{:016x}", stable_hash(title.as_bytes()));
    }
    folded
}
