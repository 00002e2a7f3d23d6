//! What Telegram gets, part by part.

use domain::chat::Overflow;
use domain::message::{Media, MediaKind, Message};
use expect_test::{Expect, expect};

use super::render::{CAPTION_MAX, TEXT_MAX, render, target};
use crate::part::*;
use crate::render::samples::*;

fn channel() -> ChannelSettings {
    ChannelSettings { target: "-1001234567890".into(), max_media: 20, ..ChannelSettings::default() }
}

fn check(message: &Message, settings: &ChannelSettings, expected: &Expect) {
    expected.assert_eq(&show(&render(&Action::Send, message, settings)));
}

fn check_outline(message: &Message, settings: &ChannelSettings, expected: &Expect) {
    expected.assert_eq(&outline(&render(&Action::Send, message, settings)));
}

fn check_action(action: &Action<'_>, message: &Message, settings: &ChannelSettings, expected: &Expect) {
    expected.assert_eq(&outline(&render(action, message, settings)));
}

#[test]
fn a_short_post_with_pictures_is_one_album_with_a_caption() {
    check(
        &post("Пропала <собака> & кот", media(MediaKind::Photo, 1..=3)),
        &channel(),
        &expect![[r#"
            1. media: photo 1–3, words: Html "🔎 <b>Пропал питомец</b>\n\nПропала &lt;собака&gt; &amp; кот\n\n📞 +7 999 000-11-22\n📍 Казань, улица Мира\n🔗 https://vk.com/wall-990000101_77"
        "#]],
    );
}

#[test]
fn twelve_pictures_with_a_long_text_are_a_text_and_two_albums() {
    let message = post(&russian(3000), media(MediaKind::Photo, 1..=12));
    check_outline(
        &message,
        &channel(),
        &expect![[r#"
            1. text: 3094 characters
            2. media: photo 1–10, silent
            3. media: photo 11–12, silent
        "#]],
    );
    check_outline(
        &message,
        &ChannelSettings { max_media: 10, ..channel() },
        &expect![[r#"
            1. text: 3094 characters
            2. media: photo 1–10, silent
            note: 2 of 12 media left out: max_media is 10
        "#]],
    );
}

#[test]
fn a_document_never_shares_an_album_with_pictures() {
    let mut all = media(MediaKind::Photo, 1..=12);
    all.extend([
        medium(MediaKind::Document, 13),
        medium(MediaKind::Video, 14),
        medium(MediaKind::Animation, 15),
    ]);
    all.extend([medium(MediaKind::Audio, 16), medium(MediaKind::Audio, 17), medium(MediaKind::Document, 18)]);
    check_outline(
        &post(&russian(3000), all),
        &channel(),
        &expect![[r#"
            1. text: 3094 characters
            2. media: photo 1–10, silent
            3. media: photo 11–12, video 14, silent
            4. media: animation 15, silent
            5. media: document 13, document 18, silent
            6. media: audio 16–17, silent
        "#]],
    );
}

#[test]
fn one_video_and_one_document_carry_their_captions() {
    check_outline(
        &post("Видео", media(MediaKind::Video, 1..=1)),
        &channel(),
        &expect![[r#"
            1. media: video 1, words: 99 characters
        "#]],
    );
    check_outline(
        &post("Листовка", media(MediaKind::Document, 1..=1)),
        &channel(),
        &expect![[r#"
            1. media: document 1, words: 102 characters
        "#]],
    );
}

#[test]
fn a_caption_ends_at_its_last_character() {
    let plain = ChannelSettings { template: Some("{{ body }}".into()), ..channel() };
    let photo = media(MediaKind::Photo, 1..=1);
    check_outline(
        &post(&"я".repeat(CAPTION_MAX), photo.clone()),
        &plain,
        &expect![[r#"
        1. media: photo 1, words: 1024 characters
    "#]],
    );
    check_outline(
        &post(&"я".repeat(CAPTION_MAX + 1), photo),
        &plain,
        &expect![[r#"
        1. text: 1025 characters
        2. media: photo 1, silent
    "#]],
    );
}

#[test]
fn a_text_ends_at_its_last_character_whatever_its_utf16_length() {
    let plain = ChannelSettings { template: Some("{{ body }}".into()), body_max: 10_000, ..channel() };
    check_outline(
        &Message::text("🐕".repeat(TEXT_MAX)),
        &plain,
        &expect![[r#"
        1. text: 4096 characters
    "#]],
    );
    check_outline(
        &Message::text("🐕".repeat(TEXT_MAX + 1)),
        &plain,
        &expect![[r#"
        1. text: 4096 characters
    "#]],
    );
    let split = ChannelSettings { overflow: Overflow::Split, ..plain };
    check_outline(
        &Message::text("🐕".repeat(TEXT_MAX + 1)),
        &split,
        &expect![[r#"
        1. text: 4096 characters
        2. text: 1 characters, silent
    "#]],
    );
}

#[test]
fn a_cut_body_keeps_phones_place_and_link() {
    let settings = ChannelSettings { body_max: 40, ..channel() };
    check(
        &post(&russian(3000), vec![]),
        &settings,
        &expect![[r#"
            1. text: Html "🔎 <b>Пропал питомец</b>\n\nРыжая собака с белой грудкой убежала…\n\n📞 +7 999 000-11-22\n📍 Казань, улица Мира\n🔗 https://vk.com/wall-990000101_77"
        "#]],
    );
}

#[test]
fn a_split_text_goes_on_in_the_next_message() {
    let settings = ChannelSettings { overflow: Overflow::Split, body_max: 90, ..channel() };
    check(
        &post(&russian(200), media(MediaKind::Photo, 1..=2)),
        &ChannelSettings { body_max: 250, ..settings.clone() },
        &expect![[r#"
            1. media: photo 1–2, words: Html "🔎 <b>Пропал питомец</b>\n\nРыжая собака с белой грудкой убежала вечером от магазина, отзывается на кличку Булка. Рыжая собака с белой грудкой убежала вечером от магазина, отзывается на кличку Булка. Рыжая собака с белой грудко!\n\n📞 +7 999 000-11-22\n📍 Казань, улица Мира\n🔗 https://vk.com/wall-990000101_77"
        "#]],
    );
    check(
        &post(&russian(200), media(MediaKind::Photo, 1..=2)),
        &settings,
        &expect![[r#"
            1. text: Html "🔎 <b>Пропал питомец</b>\n\nРыжая собака с белой грудкой убежала вечером от магазина, отзывается на кличку Булка."
            2. text: Html "Рыжая собака с белой грудкой убежала вечером от магазина, отзывается на кличку Булка.", silent
            3. text: Html "Рыжая собака с белой грудко!\n\n📞 +7 999 000-11-22\n📍 Казань, улица Мира\n🔗 https://vk.com/wall-990000101_77", silent
            4. media: photo 1–2, silent
        "#]],
    );
}

#[test]
fn markdown_v2_escapes_every_reserved_character() {
    let settings = ChannelSettings { parse_mode: Some(ParseMode::MarkdownV2), ..channel() };
    check(
        &post("1. [id5|Анна] *не* _тут_ (а-там)!", vec![]),
        &settings,
        &expect![[r#"
            1. text: MarkdownV2 "🔎 *Пропал питомец*\n\n1\\. [Анна](https://vk.com/id5) \\*не\\* \\_тут\\_ \\(а\\-там\\)\\!\n\n📞 \\+7 999 000\\-11\\-22\n📍 Казань, улица Мира\n🔗 https://vk\\.com/wall\\-990000101\\_77"
        "#]],
    );
}

#[test]
fn without_markup_links_are_spelled_out() {
    let settings = ChannelSettings { parse_mode: Some(ParseMode::Plain), ..channel() };
    check(
        &post("Пишите: [id5|Анна] <b>", vec![]),
        &settings,
        &expect![[r#"
            1. text: Plain "🔎 ПРОПАЛ ПИТОМЕЦ\n\nПишите: Анна (https://vk.com/id5) <b>\n\n📞 +7 999 000-11-22\n📍 Казань, улица Мира\n🔗 https://vk.com/wall-990000101_77"
        "#]],
    );
}

#[test]
fn buttons_go_where_telegram_shows_them() {
    let buttons = vec![vec![link_button("Карта"), callback_button("Видел", "seen:1")], vec![]];
    let with = |text: &str, numbers| Message {
        buttons: buttons.clone(),
        ..post(text, media(MediaKind::Photo, numbers))
    };
    check_outline(
        &with("одно фото", 1..=1),
        &channel(),
        &expect![[r#"
            1. media: photo 1, words: 103 characters, buttons: [Карта→ Видел↩]
        "#]],
    );
    check_outline(
        &with("альбом", 1..=2),
        &channel(),
        &expect![[r#"
            1. text: 100 characters, buttons: [Карта→ Видел↩]
            2. media: photo 1–2, silent
        "#]],
    );
    let wordless = ChannelSettings { template: Some(String::new()), ..channel() };
    check_outline(
        &with("", 1..=2),
        &wordless,
        &expect![[r#"
        1. media: photo 1–2
        note: buttons left out: an album without words cannot have any
    "#]],
    );
}

#[test]
fn bad_buttons_are_refused_before_the_network() {
    let with = |button| Message { buttons: vec![vec![button]], ..Message::text("x") };
    check(
        &with(callback_button("Да", &"д".repeat(33))),
        &channel(),
        &expect![[r#"
        error: telegram: button "Да": its callback has 66 bytes, 1 to 64 are allowed
    "#]],
    );
    check(
        &with(callback_button(" ", "a")),
        &channel(),
        &expect![[r#"
        error: telegram: button "": it has no words
    "#]],
    );
    let mut bad = link_button("Сайт");
    bad.press = domain::message::Press::Url("javascript:alert(1)".into());
    check(
        &with(bad),
        &channel(),
        &expect![[r#"
        error: telegram: button "Сайт": its address is not http or https
    "#]],
    );
}

#[test]
fn media_that_telegram_refuses_go_another_way_or_are_named() {
    let large = |kind, size_bytes| Media {
        size_bytes: Some(size_bytes),
        page: Some("https://example.org/v/1".into()),
        ..medium(kind, 1)
    };
    check_outline(
        &post("x", vec![large(MediaKind::Photo, 11_000_000)]),
        &channel(),
        &expect![[r#"
            1. media: document 1, words: 95 characters
        "#]],
    );
    let wide = Media { width: Some(4200), height: Some(200), ..medium(MediaKind::Photo, 1) };
    check_outline(
        &post("x", vec![wide]),
        &channel(),
        &expect![[r#"
            1. media: document 1, words: 95 characters
        "#]],
    );
    check(
        &post("x", vec![large(MediaKind::Video, 51_000_000)]),
        &channel(),
        &expect![[r#"
            1. text: Html "🔎 <b>Пропал питомец</b>\n\nx\n\n▶\u{fe0f} https://example.org/v/1\n📞 +7 999 000-11-22\n📍 Казань, улица Мира\n🔗 https://vk.com/wall-990000101_77"
            note: video 1 left out: 51000000 bytes, 50000000 at most
        "#]],
    );
    let lost = Media { blob: None, ..medium(MediaKind::Photo, 1) };
    check(
        &Message { media: vec![lost], ..Message::default() },
        &channel(),
        &expect![[r#"
        error: telegram: media cannot be sent: photo 1 left out: its bytes are not known
    "#]],
    );
    check_outline(
        &post("x", media(MediaKind::Photo, 1..=2)),
        &ChannelSettings { attach_media: false, ..channel() },
        &expect![[r#"
            1. text: 95 characters
            note: photo 1 left out: attach_media is off
            note: photo 2 left out: attach_media is off
        "#]],
    );
}

#[test]
fn nothing_to_say_is_refused() {
    check(
        &Message::text(" \n\u{200B}"),
        &channel(),
        &expect![[r#"
        error: telegram: nothing to send: the message has no words and no media that telegram takes
    "#]],
    );
}

#[test]
fn options_reach_every_part_and_only_the_first_makes_a_sound() {
    let settings = ChannelSettings { topic: Some(5), pin: true, preview: true, protect: true, ..channel() };
    check_outline(
        &post(&russian(2000), media(MediaKind::Photo, 1..=2)),
        &settings,
        &expect![[r#"
            1. text: 2094 characters, preview, protected, topic 5
            2. media: photo 1–2, silent, preview, protected, topic 5
            3. pin what part 1 made
        "#]],
    );
    check_outline(
        &Message::text("x"),
        &ChannelSettings { topic: Some(1), silent: true, ..channel() },
        &expect![[r#"
            1. text: 1 characters, silent
        "#]],
    );
    check(
        &Message::text("x"),
        &ChannelSettings { topic: Some(0), ..channel() },
        &expect![[r#"
        error: telegram: topic 0 is not the id of a forum topic
    "#]],
    );
}

#[test]
fn targets_are_checked() {
    let check =
        |written: &str, expected: Option<Target>| assert_eq!(target(written).ok(), expected, "{written}");
    check("-1001234567890", Some(Target::Chat(-1_001_234_567_890)));
    check("42", Some(Target::Chat(42)));
    check("@rupor_news", Some(Target::Name("@rupor_news".into())));
    for bad in [
        "",
        "0",
        "@",
        "@1abc",
        "@abc",
        "@имя_канала",
        "rupor",
        "12 ",
        "99999999999999999999",
        "4503599627370496",
        "https://t.me/x",
    ] {
        check(bad, None);
    }
    let settings = ChannelSettings { target: "@я".into(), ..channel() };
    expect![[r#"
        error: telegram: bad target "@я": a numeric chat id such as -1001234567890, or @name
    "#]]
    .assert_eq(&show(&render(&Action::Send, &Message::text("x"), &settings)));
}

#[test]
fn a_reply_answers_the_first_published_message() {
    let there = [
        published(Shape::Text, &["10"], &[]),
        published(Shape::Media, &["11", "12"], &media(MediaKind::Photo, 1..=2)),
    ];
    let message = post(&russian(1500), media(MediaKind::Photo, 1..=1));
    check_action(
        &Action::Reply(&there),
        &message,
        &channel(),
        &expect![[r#"
            1. text: 1594 characters, answers 10
            2. media: photo 1, silent
        "#]],
    );
    check_action(
        &Action::Reply(&[]),
        &message,
        &channel(),
        &expect![[r#"
        error: telegram: nothing published that could be changed: no id of it is known
    "#]],
    );
}

#[test]
fn an_edit_puts_the_new_words_where_the_old_ones_were() {
    let album = media(MediaKind::Photo, 1..=2);
    let text = [published(Shape::Text, &["10"], &[]), published(Shape::Media, &["11", "12"], &album)];
    let caption = [published(Shape::Caption, &["10", "11"], &album)];
    let bare = [published(Shape::Media, &["10", "11"], &album)];
    let message = post(&russian(3000), album);
    check_action(
        &Action::Edit(&text),
        &message,
        &channel(),
        &expect![[r#"
            1. edit text of 10: 3094 characters
        "#]],
    );
    check_action(
        &Action::Edit(&caption),
        &message,
        &channel(),
        &expect![[r#"
            1. edit caption of 10: 1023 characters, keeps photo 1–2
        "#]],
    );
    check_action(
        &Action::Edit(&bare),
        &message,
        &channel(),
        &expect![[r#"
            1. edit caption of 10: 1023 characters, keeps photo 1–2
        "#]],
    );
    check_action(
        &Action::Edit(&[published(Shape::Text, &["0"], &[])]),
        &message,
        &channel(),
        &expect![[r#"
            error: telegram: nothing published that could be changed: no id of it is known
        "#]],
    );
    check_action(
        &Action::Edit(&text),
        &Message::text(""),
        &channel(),
        &expect![[r#"
        error: telegram: nothing to send: the message has no words and no media that telegram takes
    "#]],
    );
    check_action(
        &Action::Edit(&caption),
        &Message::text(""),
        &channel(),
        &expect![[r#"
        1. edit caption of 10: 0 characters, keeps photo 1–2
    "#]],
    );
}

#[test]
fn an_edit_of_a_split_text_fills_the_places_that_are_there() {
    let split = ChannelSettings { overflow: Overflow::Split, body_max: 1000, ..channel() };
    let three = [
        published(Shape::Text, &["1"], &[]),
        published(Shape::Text, &["2"], &[]),
        published(Shape::Text, &["3"], &[]),
    ];
    check_action(
        &Action::Edit(&three),
        &post(&russian(1500), vec![]),
        &split,
        &expect![[r#"
            1. edit text of 1: 1011 characters
            2. edit text of 2: 582 characters
            3. delete 3
        "#]],
    );
    check_action(
        &Action::Edit(&three),
        &post(&russian(9000), vec![]),
        &split,
        &expect![[r#"
            1. edit text of 1: 1011 characters
            2. edit text of 2: 998 characters
            3. edit text of 3: 1076 characters
        "#]],
    );
    let rendered = render(&Action::Edit(&three), &post(&russian(9000), vec![]), &split).unwrap();
    let Some(Part::Edit(last)) = rendered.parts.last() else { panic!("{rendered:?}") };
    assert!(last.text.as_str().ends_with(LINK), "{:?}", last.text);
}

#[test]
fn a_delete_names_every_message_at_once() {
    let ids: Vec<String> = (1..=101).map(|id| id.to_string()).collect();
    let there = [Published { shape: Shape::Media, ids, media: vec![], reply_to: None }];
    let rendered = render(&Action::Delete(&there), &Message::default(), &channel()).unwrap();
    let sizes: Vec<usize> = rendered
        .parts
        .iter()
        .map(|part| match part {
            Part::Delete(part) => part.ids.len(),
            _ => 0,
        })
        .collect();
    assert_eq!(sizes, [100, 1]);
}

#[test]
fn a_foreign_parse_mode_is_a_fault_of_the_settings() {
    let settings = ChannelSettings { parse_mode: Some(ParseMode::Markdown), ..channel() };
    check(
        &Message::text("x"),
        &settings,
        &expect![[r#"
        error: telegram: parse mode Markdown is not offered: use HTML, MarkdownV2 or none
    "#]],
    );
    check(
        &Message::text("x"),
        &ChannelSettings { body_max: 0, ..channel() },
        &expect![[r#"
        error: telegram: body_max is 0: set it to at least 1, or leave the body out in the template
    "#]],
    );
    let error = render(&Action::Send, &Message::text("x"), &settings).unwrap_err();
    let failure = error.to_failure();
    assert_eq!(
        (failure.code.as_str(), failure.scope),
        ("render.bad_settings", domain::outcome::Scope::Channel)
    );
}
