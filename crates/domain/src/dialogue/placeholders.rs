//! `{slot}` in a text: the only thing that a text can do besides standing there.

use super::rules::Rules;
use super::slots::shown;
use super::state::State;

/// Names between braces; braces around anything else are plain characters.
pub(super) fn names(text: &str) -> Vec<&str> {
    pieces(text).filter_map(|piece| piece.ok()).collect()
}

/// The text with what the slots hold; a slot that holds nothing leaves nothing.
pub(super) fn fill(text: &str, rules: &Rules, state: &State) -> String {
    if !text.contains('{') {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len());
    for piece in pieces(text) {
        match piece {
            Err(plain) => out.push_str(plain),
            Ok(name) => {
                let kind = rules.slots.get(name).map(|slot| &slot.kind);
                let value = state.slots.get(name).map_or("", String::as_str);
                out.push_str(&shown(kind, value, &rules.texts.yes, &rules.texts.no));
            }
        }
    }
    out
}

/// The same for logs: a masked slot shows that it holds something, never what.
pub(super) fn fill_masked(text: &str, rules: &Rules, state: &State) -> String {
    let mut out = String::new();
    for piece in pieces(text) {
        match piece {
            Err(plain) => out.push_str(plain),
            Ok(name) if rules.slots.get(name).is_none_or(|slot| slot.mask) => out.push_str("***"),
            Ok(name) => out.push_str(state.slots.get(name).map_or("", String::as_str)),
        }
    }
    // A masked value may have been copied into another slot.
    let masked = state.slots.iter().filter(|(name, _)| rules.slots.get(*name).is_some_and(|slot| slot.mask));
    for (_, value) in masked.filter(|(_, value)| !value.is_empty()) {
        out = out.replace(value.as_str(), "***");
    }
    out
}

/// Plain text as `Err`, names as `Ok`.
fn pieces(text: &str) -> impl Iterator<Item = Result<&str, &str>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let open = rest.find('{').unwrap_or(rest.len());
        if open > 0 {
            let (plain, after) = rest.split_at(open);
            rest = after;
            return Some(Err(plain));
        }
        let close = rest.find('}').unwrap_or(0);
        let name = rest.get(1..close).unwrap_or_default();
        let is_name =
            !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.'));
        if is_name {
            rest = &rest[close + 1..];
            return Some(Ok(name));
        }
        let (brace, after) = rest.split_at(1);
        rest = after;
        Some(Err(brace))
    })
}
