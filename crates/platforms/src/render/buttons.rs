//! Buttons made to fit: rows no wider than the platform draws, and nothing in them that it would refuse.

use domain::message::{Button, Press, is_web_address};
use unicode_segmentation::UnicodeSegmentation;

use crate::part::{Keyboard, RenderError};
use crate::render::clean::{self, ELLIPSIS};

/// What a platform allows under one message.
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    pub platform: &'static str,
    pub buttons_max: usize,
    pub rows_max: usize,
    /// Buttons of a row.
    pub row_max: usize,
    /// Buttons of a row that has a link in it.
    pub link_row_max: usize,
    /// UTF-16 units of the words; longer ones are cut.
    pub text_max: usize,
    pub callback_bytes_max: usize,
    pub schemes: &'static [&'static str],
}

/// The rows as the platform takes them. Too wide a row goes on in the next one.
pub fn rows(buttons: &[Vec<Button>], rules: &Rules) -> Result<Keyboard, RenderError> {
    let mut keyboard = Keyboard::new();
    for row in buttons.iter().filter(|row| !row.is_empty()) {
        let row = row.iter().map(|button| checked(button, rules)).collect::<Result<Vec<_>, _>>()?;
        let has_link = row.iter().any(|button| matches!(button.press, Press::Url(_)));
        let width = if has_link { rules.link_row_max } else { rules.row_max };
        // A platform without buttons has rows of none; the count below refuses them.
        keyboard.extend(row.chunks(width.max(1)).map(<[Button]>::to_vec));
    }
    let count: usize = keyboard.iter().map(Vec::len).sum();
    if count > rules.buttons_max || keyboard.len() > rules.rows_max {
        let (platform, what) = (rules.platform, "the keyboard (buttons)");
        let max = rules.buttons_max.min(rules.rows_max * rules.row_max);
        return Err(RenderError::TooLong { platform, what, length: count, max });
    }
    Ok(keyboard)
}

fn checked(button: &Button, rules: &Rules) -> Result<Button, RenderError> {
    let bad = |reason: String| RenderError::BadButton {
        platform: rules.platform,
        button: clean::field(&button.text),
        reason,
    };
    let text = shortened(&clean::field(&button.text), rules.text_max);
    if clean::is_blank(&text) {
        return Err(bad("it has no words".to_owned()));
    }
    match &button.press {
        Press::Url(url) => {
            let is_own = rules
                .schemes
                .iter()
                .any(|scheme| url.starts_with(scheme) && !url.contains(char::is_whitespace));
            if !is_own && !is_web_address(url) {
                return Err(bad("its address is not http or https".to_owned()));
            }
        }
        Press::Callback(data) => {
            let max = rules.callback_bytes_max;
            if data.is_empty() || data.len() > max {
                return Err(bad(format!("its callback has {} bytes, 1 to {max} are allowed", data.len())));
            }
        }
    }
    Ok(Button { text, press: button.press.clone() })
}

fn shortened(text: &str, units_max: usize) -> String {
    if text.encode_utf16().count() <= units_max {
        return text.to_owned();
    }
    let mut out = String::new();
    let mut units = ELLIPSIS.encode_utf16().count();
    for grapheme in text.graphemes(true) {
        units += grapheme.encode_utf16().count();
        if units > units_max {
            break;
        }
        out.push_str(grapheme);
    }
    format!("{}{ELLIPSIS}", out.trim_end())
}
