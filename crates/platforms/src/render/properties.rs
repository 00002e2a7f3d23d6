//! What holds for any message on any platform.

use domain::chat::{ChatKind, Overflow};
use domain::message::{Button, Media, MediaKind, Message, Origin, Press};
use proptest::prelude::*;
use unicode_segmentation::UnicodeSegmentation;

use super::fit::Unit;
use super::markup::{Dialect, Href, Html, Role, Run, Style, write};
use super::mentions::WORD_JOINER;
use super::reader::{Letter, READERS, visible};
use super::{clean, template};
use crate::part::*;
use crate::{max, telegram, vk};

const LINK: &str = "https://vk.com/wall-990000101_77";

/// Pieces that break careless code: clusters, marks, directions, markup, mentions, long words.
const TRICKY: [&str; 28] = [
    "👨‍👩‍👧‍👦",
    "🇷🇺🇰🇿",
    "é\u{301}\u{323}",
    "й",
    "ё",
    "\u{202E}зад",
    "\u{2066}x\u{2069}",
    "<b>",
    "</a>",
    "&amp;",
    "&",
    "\"",
    "*_~`",
    "[id1|Анна]",
    "[club5|",
    "@all",
    "@все",
    "*id1 (x)",
    "\\",
    "\r\n",
    "\n\n\n",
    "\t",
    "\u{200B}",
    "https://a.org/?q=1&b=<2>",
    "+7 (999) 111-22-33",
    "\u{FDD0}",
    "||",
    "кот.",
];

fn any_text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => "[а-яА-Я]{1,12}",
        2 => Just(" ".to_owned()),
        1 => Just("\n".to_owned()),
        2 => prop::sample::select(&TRICKY[..]).prop_map(str::to_owned),
        1 => any::<char>().prop_map(String::from),
        1 => "[a-z<&*_]{20,60}",
    ];
    let short = prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat());
    // Repetition makes long texts without long shrinking.
    (short, prop_oneof![3 => 1usize..2, 2 => 2usize..12, 1 => 12usize..40])
        .prop_map(|(text, times)| vec![text; times].join(" "))
}

fn any_media() -> impl Strategy<Value = Vec<Media>> {
    let one = (0usize..5, prop::option::of(0u64..80_000_000), any::<bool>()).prop_map(
        |(kind, size_bytes, has_blob)| Media {
            kind: MediaKind::ALL[kind],
            blob: has_blob.then(|| "ab".repeat(32)),
            page: Some("https://example.org/v".into()),
            size_bytes,
            ..Media::default()
        },
    );
    prop::collection::vec(one, 0..14)
}

fn any_message() -> impl Strategy<Value = Message> {
    let kinds = vec!["lost", "found", "reunited", "news", ""];
    let buttons = prop_oneof![2 => Just(0usize), 1 => 1usize..6].prop_map(|count| {
        (0..count)
            .map(|i| vec![Button { text: format!("кнопка {i}"), press: Press::Url(LINK.into()) }])
            .collect()
    });
    let words = (any_text(), prop::option::of(any_text()), prop::option::of(any_text()));
    (words, any_media(), prop::sample::select(kinds), any::<bool>(), buttons).prop_map(
        |((text, title, place), media, kind, is_from_vk, buttons)| Message {
            kind: kind.into(),
            was: if kind == "reunited" { "found".into() } else { String::new() },
            title,
            text,
            media,
            phones: vec!["+79990001122".into()],
            place,
            buttons,
            origin: Some(Origin {
                source: if is_from_vk { "vk".into() } else { "feed".into() },
                owner_id: Some(-990_000_101),
                post_id: Some(77),
                url: Some(LINK.into()),
                ..Origin::default()
            }),
            ..Message::default()
        },
    )
}

fn lost() -> Message {
    super::samples::post("", Vec::new())
}

/// A platform with one of its modes, and how its words are counted.
#[derive(Debug, Clone)]
struct Voice {
    render: Render,
    parse_mode: Option<ParseMode>,
    chat_kind: ChatKind,
    text: (Unit, usize),
    caption: (Unit, usize),
    raw: (Unit, usize),
    group_max: usize,
}

fn voices() -> Vec<Voice> {
    let telegram = |parse_mode| Voice {
        render: telegram::render::render,
        parse_mode,
        chat_kind: ChatKind::Channel,
        text: (Unit::Chars, 4096),
        caption: (Unit::Chars, 1024),
        raw: (Unit::Bytes, 32_768),
        group_max: 10,
    };
    let other = |render, parse_mode, chat_kind, max, group_max| Voice {
        render,
        parse_mode,
        chat_kind,
        text: (Unit::Utf16, max),
        caption: (Unit::Utf16, max),
        raw: (Unit::Utf16, max),
        group_max,
    };
    vec![
        telegram(Some(ParseMode::Html)),
        telegram(Some(ParseMode::MarkdownV2)),
        telegram(Some(ParseMode::Plain)),
        other(vk::render::render, None, ChatKind::Channel, 16_384, 10),
        other(vk::render::render, None, ChatKind::Private, 4096, 10),
        other(max::render::render, Some(ParseMode::Html), ChatKind::Channel, 4000, 12),
        other(max::render::render, Some(ParseMode::Markdown), ChatKind::Channel, 4000, 12),
        other(max::render::render, Some(ParseMode::Plain), ChatKind::Private, 4000, 12),
    ]
}

fn settings(voice: &Voice, overflow: Overflow, body_max: usize) -> ChannelSettings {
    ChannelSettings {
        target: "-1000000000001".into(),
        parse_mode: voice.parse_mode,
        chat_kind: voice.chat_kind,
        overflow,
        body_max,
        max_media: 30,
        ..ChannelSettings::default()
    }
}

/// The words of each part that has some, as the reader sees them.
fn seen(parts: &[Part]) -> Vec<String> {
    parts
        .iter()
        .filter_map(|part| match part {
            Part::Text(part) => Some(&part.text),
            Part::Media(part) => part.caption.as_ref(),
            Part::Edit(part) => Some(&part.text),
            Part::Delete(_) | Part::Pin(_) => None,
        })
        .map(|text| visible(text.markup(), text.as_str()))
        .collect()
}

fn check_limits(voice: &Voice, part: &Part) {
    let check = |text: &Fitted, (unit, max): (Unit, usize)| {
        let words = visible(text.markup(), text.as_str());
        assert!(unit.count(&words) <= max, "{} {unit:?} of {max}", unit.count(&words));
        assert!(voice.raw.0.count(text.as_str()) <= voice.raw.1, "raw {}", voice.raw.0.count(text.as_str()));
        assert!(!clean::is_blank(&words), "blank");
        assert_eq!(words.trim(), words, "the platform would trim it");
    };
    match part {
        Part::Text(part) => check(&part.text, voice.text),
        Part::Media(part) => {
            part.caption.iter().for_each(|caption| check(caption, voice.caption));
            let keyboard = usize::from(!part.buttons.is_empty() && voice.group_max == 12);
            assert!((1..=voice.group_max).contains(&(part.items.len() + keyboard)));
        }
        part => panic!("unexpected {part:?}"),
    }
}

fn squeezed(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace() && *c != WORD_JOINER).collect()
}

/// What VK would read as a mention.
fn has_mention(text: &str) -> bool {
    let chars: Vec<char> = text.chars().collect();
    chars.iter().enumerate().any(|(at, c)| {
        let before = at.checked_sub(1).map(|at| chars[at]);
        let is_start = before.is_none_or(|c| !c.is_alphanumeric() && c != '_');
        let after: String = chars[at + 1..].iter().take(80).collect();
        match c {
            '@' => is_start && after.starts_with(char::is_alphabetic),
            '*' => is_start && (after.starts_with("id") || after.starts_with("club")),
            '[' => {
                let target = after.split('|').next().unwrap_or_default();
                after.contains('|')
                    && (target.starts_with("id") || target.starts_with("club") || target.starts_with("http"))
            }
            _ => false,
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn every_part_is_within_its_platforms_limits(
        message in any_message(),
        is_split in any::<bool>(),
        body_max in prop_oneof![Just(3500usize), 200usize..5000],
    ) {
        let overflow = if is_split { Overflow::Split } else { Overflow::Cut };
        for voice in voices() {
            match (voice.render)(&Action::Send, &message, &settings(&voice, overflow, body_max)) {
                Ok(rendered) => {
                    prop_assert!(!rendered.parts.is_empty());
                    rendered.parts.iter().for_each(|part| check_limits(&voice, part));
                }
                Err(error) => prop_assert!(matches!(error, RenderError::TooManyParts { .. }), "{error}"),
            }
        }
    }

    #[test]
    fn a_cut_keeps_the_source_link(message in any_message(), body_max in 1usize..5000) {
        for voice in voices() {
            let rendered = (voice.render)(&Action::Send, &message, &settings(&voice, Overflow::Cut, body_max)).unwrap();
            let words = seen(&rendered.parts);
            prop_assert!(words[0].contains(LINK), "{words:?}");
        }
    }

    #[test]
    fn a_number_is_shown_however_long_the_text_is(before in any_text(), after in any_text(), body_max in 1usize..5000) {
        let message = Message { title: None, place: None, text: format!("{before} 8 (999) 000-11-22 {after}"), ..lost() };
        for voice in voices() {
            let rendered = (voice.render)(&Action::Send, &message, &settings(&voice, Overflow::Cut, body_max)).unwrap();
            let words = seen(&rendered.parts);
            prop_assert!(super::phones::shows(&words[0], "+79990001122"), "{words:?}");
        }
    }

    #[test]
    fn an_ended_story_shows_no_number(before in any_text(), after in any_text()) {
        let message = Message { kind: "reunited".into(), was: "lost".into(), text: format!("{before} 8 (999) 000-11-22 {after}"), ..lost() };
        for voice in voices() {
            let rendered = (voice.render)(&Action::Send, &message, &settings(&voice, Overflow::Cut, 3500)).unwrap();
            for words in seen(&rendered.parts) {
                prop_assert!(!super::phones::shows(&words, "+79990001122"), "{words:?}");
                prop_assert!(words.to_lowercase().starts_with("🎉 дома! спасибо"), "{words:?}");
            }
        }
    }

    #[test]
    fn a_split_keeps_the_words(text in any_text(), body_max in 200usize..5000) {
        // Not from VK: there a mention loses its brackets on purpose.
        let message = Message::text(text);
        let body = clean::body(&message.text);
        for voice in voices() {
            let settings = ChannelSettings { template: Some("{{ body }}".into()), ..settings(&voice, Overflow::Split, body_max) };
            let Ok(rendered) = (voice.render)(&Action::Send, &message, &settings) else { continue };
            let pieces = seen(&rendered.parts);
            prop_assert_eq!(squeezed(&pieces.concat()), squeezed(&body));
            let is_short = |word: &str| word.chars().count() < 150;
            if body.split_whitespace().all(is_short) {
                let joined = pieces.join(" ").replace(WORD_JOINER, "");
                let words: Vec<&str> = joined.split_whitespace().collect();
                let body = body.replace(WORD_JOINER, "");
                prop_assert_eq!(words, body.split_whitespace().collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn a_cut_falls_between_graphemes(text in any_text(), body_max in 1usize..400) {
        let message = Message::text(text);
        let body = clean::body(&message.text);
        let settings = ChannelSettings { template: Some("{{ body }}".into()), ..settings(&voices()[0], Overflow::Cut, body_max) };
        let Ok(rendered) = telegram::render::render(&Action::Send, &message, &settings) else { return Ok(()) };
        let words = seen(&rendered.parts).concat();
        prop_assert!(words.chars().count() <= body_max);
        let Some(kept) = words.strip_suffix(clean::ELLIPSIS).filter(|kept| *kept != squeezed(&body)) else { return Ok(()) };
        // Runs of space inside the body are tidied, so the border is looked for in the tidied body.
        let tidied: String = seen(&telegram::render::render(&Action::Send, &message, &ChannelSettings { body_max: 1_000_000, overflow: Overflow::Split, ..settings }).unwrap().parts).join("\n");
        if tidied.starts_with(kept) && tidied.len() < 4000 {
            let is_border = tidied.grapheme_indices(true).any(|(at, _)| at == kept.len()) || kept.len() == tidied.len();
            prop_assert!(is_border, "{kept:?} of {tidied:?}");
        }
    }

    #[test]
    fn nothing_is_a_mention_on_vk(message in any_message(), is_split in any::<bool>()) {
        let overflow = if is_split { Overflow::Split } else { Overflow::Cut };
        for chat_kind in [ChatKind::Channel, ChatKind::Private] {
            let voice = &voices()[3];
            let settings = ChannelSettings { chat_kind, ..settings(voice, overflow, 3500) };
            let Ok(rendered) = vk::render::render(&Action::Send, &message, &settings) else { continue };
            for words in seen(&rendered.parts) {
                prop_assert!(!has_mention(&words), "{words:?}");
            }
        }
    }

    #[test]
    fn marked_words_read_back_as_they_were_meant(runs in prop::collection::vec(any_run(), 1..8)) {
        let dialects: [&dyn Dialect; 3] = [
            &Html { spoiler: Some("tg-spoiler") },
            &telegram::markdown::MarkdownV2,
            &Html { spoiler: None },
        ];
        for (index, dialect) in dialects.into_iter().enumerate() {
            let has_spoiler = index < 2;
            let meant: Vec<Letter> = runs.iter().flat_map(|run| letters(run, has_spoiler)).collect();
            let text = write(dialect, &runs);
            for (name, read) in READERS {
                prop_assert_eq!(read(text.markup(), text.as_str()), Ok(meant.clone()), "{} {:?}", name, text);
            }
        }
    }

    #[test]
    fn max_markdown_reads_back_as_the_same_words(runs in prop::collection::vec(any_run(), 1..8)) {
        let runs = max::markdown::by_line(runs);
        let text = write(&max::markdown::Markdown, &runs);
        let words: String = runs.iter().map(|run| if run.style.code { run.text.replace('`', "'") } else { run.text.clone() }).collect();
        prop_assert_eq!(visible(Markup::Markdown, text.as_str()).replace(WORD_JOINER, ""), words.replace(WORD_JOINER, ""));
    }

    #[test]
    fn any_template_renders_or_is_named_as_broken(source in any_template(), message in any_message()) {
        let settings = ChannelSettings { template: Some(source.clone()), ..settings(&voices()[0], Overflow::Cut, 3500) };
        match telegram::render::render(&Action::Send, &message, &settings) {
            Ok(rendered) => rendered.parts.iter().for_each(|part| check_limits(&voices()[0], part)),
            Err(RenderError::Template { .. } | RenderError::Empty { .. } | RenderError::UnsupportedMedia { .. }) => {}
            Err(error) => prop_assert!(false, "{error} for {source:?}"),
        }
        let _ = template::check(&source);
    }
}

fn any_run() -> impl Strategy<Value = Run> {
    let style = (any::<[bool; 5]>(), prop::bool::weighted(0.1)).prop_map(
        |([bold, italic, underline, strike, spoiler], code)| Style {
            bold,
            italic,
            underline,
            strike,
            spoiler,
            code,
        },
    );
    let href = prop::option::weighted(0.3, prop::sample::select(vec!["https://a.org/x_(y)?z=1&w=~", LINK]));
    let text =
        prop_oneof!["[а-я_*\\[\\]()~`>#+=|{}.!<&\"\\\\ -]{1,12}", "\\PC{1,6}", "[а-я]{1,5}\n[а-я]{1,5}"];
    (text, style, href).prop_map(|(text, style, href)| Run {
        text,
        style,
        href: href.and_then(Href::new),
        role: Role::Body,
    })
}

/// What a run means, letter by letter: code excludes the rest.
fn letters(run: &Run, has_spoiler: bool) -> Vec<Letter> {
    let code = Style { code: true, ..Style::default() };
    let style =
        if run.style.code { code } else { Style { spoiler: run.style.spoiler && has_spoiler, ..run.style } };
    let href = run.href.as_ref().filter(|_| !run.style.code).map(|href| href.as_str().to_owned());
    run.text.chars().map(|c| Letter { c, style, href: href.clone() }).collect()
}

fn any_template() -> impl Strategy<Value = String> {
    let pieces = [
        "{{ body }}",
        "{{ title }}",
        "{{ url }}",
        "<b>",
        "</b>",
        "{% if title %}",
        "{% endif %}",
        "{% for p in phones %}",
        "{% endfor %}",
        "{{ p }}",
        "{{ phones|join(', ') }}",
        "{{ nope }}",
        "{{ phones }}",
        "<a href=\"{{ url }}\">",
        "</a>",
        "{% set x = 1 %}",
        "{{ 'a' * 9 }}",
        "{%",
        "}}",
        "{{",
        "слово ",
        "\n",
        "&lt;",
        "{# c #}",
        "{{ body|upper }}",
        "{{ title|upper }}",
        "{{ loop.index }}",
    ];
    prop::collection::vec(prop::sample::select(pieces.to_vec()), 0..12).prop_map(|pieces| pieces.concat())
}

#[test]
fn every_post_of_the_corpus_renders_everywhere() {
    let corpus = include_str!("../../../domain/testdata/pets-dev.jsonl");
    let posts: Vec<serde_json::Value> =
        corpus.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(posts.len() >= 100, "the corpus is gone");
    for post in posts {
        let origin = Origin {
            source: "vk".into(),
            owner_id: post["owner_id"].as_i64(),
            post_id: post["post_id"].as_i64(),
            ..Origin::default()
        };
        let text = post["text"].as_str().unwrap_or_default();
        let message = Message { origin: Some(origin), ..Message::text(text) };
        let link = crate::walls::source_link(&message).unwrap();
        for voice in voices() {
            let settings = settings(&voice, Overflow::Cut, 3500);
            let parts = (voice.render)(&Action::Send, &message, &settings).unwrap().parts;
            parts.iter().for_each(|part| check_limits(&voice, part));
            assert!(seen(&parts)[0].contains(&link), "{text}");
        }
    }
}
