//! The page itself: its files put together, with a policy that lets nothing else run.

use axum::http::{HeaderValue, header};
use axum::response::{Html, IntoResponse, Response};
use platforms::platform::Platform;
use platforms::registry;
use serde_json::{Map, Value, json};

use crate::language::{Language, as_json};

const PAGE: &str = include_str!("page/index.html");
const STYLE: &str = include_str!("page/board.css");
/// In the order in which they need each other.
const SCRIPT: &[&str] = &[
    include_str!("page/words.js"),
    include_str!("page/parts.js"),
    include_str!("page/pages.js"),
    include_str!("page/live.js"),
];
/// What the ids of the page begin with in the catalogue.
const PREFIX: &str = "board.";

/// Its script and style are named by a number that is new each time; nothing else runs.
pub(super) async fn page() -> Response {
    let nonce = uuid::Uuid::new_v4().simple().to_string();
    let policy = format!(
        "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; connect-src 'self'; img-src 'self' data:; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    );
    let mut answer = Html(whole().replace("{nonce}", &nonce)).into_response();
    if let Ok(policy) = HeaderValue::from_str(&policy) {
        answer.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    answer
}

fn whole() -> String {
    // JSON inside a script: no end of it can stand there.
    let words = words().to_string().replace("</", "<\\/");
    PAGE.replace("{style}", STYLE).replace("{script}", &SCRIPT.concat()).replace("{words}", &words)
}

/// Both languages, so that changing it asks nobody, and what people call the platforms.
fn words() -> Value {
    let of = |language| {
        let texts = as_json(language, PREFIX).as_object().cloned().unwrap_or_default();
        texts.into_iter().map(|(id, text)| (id[PREFIX.len()..].to_owned(), text)).collect::<Map<_, _>>()
    };
    let title = |platform: &dyn Platform| json!([platform.name(), platform.facts().title]);
    let platforms: Vec<Value> = registry::all().map(title).collect();
    json!({"en": of(Language::En), "ru": of(Language::Ru), "platforms": platforms})
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Ids that the script asks for, and ids that nobody asks for.
    #[test]
    fn the_page_and_its_words_know_each_other() {
        let script = SCRIPT.concat() + PAGE;
        let words = words();
        let known: BTreeSet<&str> = words["en"].as_object().unwrap().keys().map(String::as_str).collect();
        let asked: BTreeSet<&str> = ["say(\"", "data-t=\"", "data-t-label=\"", "data-t-hint=\""]
            .iter()
            .flat_map(|lead| script.split(lead).skip(1))
            .filter_map(|rest| rest.split('"').next())
            .collect();
        let unknown: Vec<&&str> = asked.iter().filter(|id| !known.contains(*id)).collect();
        assert!(unknown.is_empty(), "not in board.txt: {unknown:?}");
        // Families are asked for by their first word: kind.lost, state.open.
        let families: BTreeSet<&str> =
            script.split('`').filter_map(|text| text.split_once(".${")).map(|(family, _)| family).collect();
        let is_said = |id: &&&str| {
            script.contains(&format!("\"{id}\""))
                || id.split_once('.').is_some_and(|(family, _)| families.contains(family))
        };
        let unused: Vec<&&str> = known.iter().filter(|id| !is_said(id)).collect();
        assert!(unused.is_empty(), "nobody says {unused:?}");
    }

    /// The brightness of a colour, and how far two are apart, as WCAG 2 counts it.
    fn contrast(one: &str, other: &str) -> f64 {
        let light = |colour: &str| {
            let part = |at: usize| f64::from(u8::from_str_radix(&colour[at..at + 2], 16).unwrap()) / 255.0;
            let linear = |c: f64| if c <= 0.03928 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) };
            0.2126 * linear(part(1)) + 0.7152 * linear(part(3)) + 0.0722 * linear(part(5))
        };
        let (one, other) = (light(one), light(other));
        (one.max(other) + 0.05) / (one.min(other) + 0.05)
    }

    #[test]
    fn every_colour_of_words_can_be_read_on_its_ground() {
        let schemes: Vec<&str> = STYLE.split(":root {").skip(1).take(2).collect();
        assert_eq!(schemes.len(), 2, "light and dark");
        for scheme in schemes {
            let colour = |name: &str| {
                let (_, rest) = scheme.split_once(&format!("--{name}: ")).unwrap();
                rest.split(';').next().unwrap().to_owned()
            };
            let on_cards =
                ["ink", "soft", "faint", "accent", "good", "wait", "bad", "tint-0", "tint-1", "tint-2"];
            let pairs = on_cards.map(|words| (words, "card")).into_iter().chain([
                ("soft", "ground"),
                ("faint", "ground"),
                ("good", "good-soft"),
                ("wait", "wait-soft"),
                ("bad", "bad-soft"),
            ]);
            for (words, ground) in pairs {
                let apart = contrast(&colour(words), &colour(ground));
                assert!(apart >= 4.5, "{words} on {ground}: {apart:.2}");
            }
        }
    }

    #[test]
    fn the_page_is_whole_and_calls_nobody() {
        let page = whole();
        for left in ["{style}", "{script}", "{words}"] {
            assert!(!page.contains(left), "{left} was not filled in");
        }
        let outside = page.replace("http://www.w3.org/2000/svg", "").replace("https?:", "");
        assert!(
            !outside.contains("http://") && !outside.contains("https://"),
            "nothing comes from elsewhere"
        );
        for how in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("] {
            assert!(!page.contains(how), "{how} would make markup of what strangers wrote");
        }
    }
}
