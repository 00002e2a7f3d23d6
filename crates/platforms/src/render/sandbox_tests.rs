//! What the sandbox shows of marked words is what was meant. Its readers were written by another hand.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};

use super::markup::{Dialect, Href, Html, Role, Run, Style, write};
use super::reader::Letter;
use crate::part::Markup;
use crate::telegram::markdown::MarkdownV2;

fn any_run() -> impl Strategy<Value = Run> {
    let style = (any::<[bool; 5]>(), prop::bool::weighted(0.1));
    let style = style.prop_map(|([bold, italic, underline, strike, spoiler], code)| Style {
        bold,
        italic,
        underline,
        strike,
        spoiler,
        code,
    });
    let href = prop::option::weighted(
        0.3,
        prop::sample::select(vec!["https://example.org/x_(y)?z=1&w=~", "https://vk.com/wall-1_2"]),
    );
    // No space: the server trims it at the ends of styles, which is its own business.
    let text = prop_oneof!["[а-яa-z_*\\[\\]()~`>#+=|{}.!<&\"\\\\-]{1,10}", "[👨🐕é]{1,4}"];
    (text, style, href).prop_map(|(text, style, href)| Run {
        text,
        style,
        href: href.and_then(Href::new),
        role: Role::Body,
    })
}

fn meant(run: &Run) -> Vec<Letter> {
    let code = Style { code: true, ..Style::default() };
    let style = if run.style.code { code } else { run.style };
    let href = run.href.as_ref().filter(|_| !run.style.code).map(|href| href.as_str().to_owned());
    run.text.chars().map(|c| Letter { c, style, href: href.clone() }).collect()
}

/// A message of the Bot API, letter by letter; what the server found by itself does not count.
fn shown(message: &Value) -> Vec<Letter> {
    let text = message["text"].as_str().unwrap_or_default();
    let mut letters: Vec<Letter> =
        text.chars().map(|c| Letter { c, style: Style::default(), href: None }).collect();
    let entities = message["entities"].as_array().cloned().unwrap_or_default();
    for entity in entities {
        let number = |key: &str| usize::try_from(entity[key].as_u64().unwrap_or_default()).unwrap();
        let (from, to) = (number("offset"), number("offset") + number("length"));
        let mut at = 0;
        for letter in &mut letters {
            if (from..to).contains(&at) {
                mark(letter, &entity);
            }
            at += letter.c.len_utf16();
        }
    }
    letters
}

fn mark(letter: &mut Letter, entity: &Value) {
    match entity["type"].as_str().unwrap_or_default() {
        "bold" => letter.style.bold = true,
        "italic" => letter.style.italic = true,
        "underline" => letter.style.underline = true,
        "strikethrough" => letter.style.strike = true,
        "spoiler" => letter.style.spoiler = true,
        "code" => letter.style.code = true,
        "text_link" => letter.href = entity["url"].as_str().map(str::to_owned),
        _ => {}
    }
}

#[test]
fn telegram_in_the_sandbox_reads_what_was_meant() {
    drop(rustls::crypto::ring::default_provider().install_default());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let options = sandbox::Options { any_token: true, ..sandbox::Options::default() };
    let sandbox = runtime.block_on(sandbox::Sandbox::start(options)).unwrap();
    let address = format!("{}/bot7:AAcanary/sendMessage", sandbox.base(sandbox::Name::Telegram));
    let client = reqwest::Client::new();
    let mut runner = TestRunner::new(Config { cases: 64, failure_persistence: None, ..Config::default() });
    let checked = runner.run(&prop::collection::vec(any_run(), 1..8), |mut runs| {
        runs.insert(0, Run::plain("А", Role::Frame));
        runs.push(Run::plain("Я", Role::Frame));
        let expected: Vec<Letter> = runs.iter().flat_map(meant).collect();
        for dialect in [&Html { spoiler: Some("tg-spoiler") } as &dyn Dialect, &MarkdownV2] {
            let text = write(dialect, &runs);
            let parse_mode = if text.markup() == Markup::Html { "HTML" } else { "MarkdownV2" };
            let body = json!({"chat_id": 5, "text": text.as_str(), "parse_mode": parse_mode});
            let answer: Value = runtime.block_on(async {
                client.post(&address).json(&body).send().await.unwrap().json().await.unwrap()
            });
            prop_assert_eq!(&answer["ok"], &json!(true), "{} {:?}", answer, text);
            prop_assert_eq!(shown(&answer["result"]), expected.clone(), "{:?}", text);
        }
        Ok(())
    });
    checked.unwrap();
}
