//! What MAX gets, part by part.

use domain::chat::{ChatKind, Overflow};
use domain::message::{Media, MediaKind, Message};
use expect_test::{Expect, expect};

use super::render::{TEXT_MAX, render, target};
use crate::part::*;
use crate::render::samples::*;

fn channel() -> ChannelSettings {
    ChannelSettings { target: "-70000000000001".into(), max_media: 20, ..ChannelSettings::default() }
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
fn words_and_pictures_share_a_message() {
    check(
        &post("Пропала [id5|Анна] <b>", media(MediaKind::Photo, 1..=3)),
        &channel(),
        &expect![[r#"
            1. media: photo 1–3, words: Html "🔎 <b>Пропал питомец</b>\n\nПропала <a href=\"https://vk.com/id5\">Анна</a> &lt;b&gt;\n\n📞 +7 999 000-11-22\n📍 Казань, улица Мира\n🔗 https://vk.com/wall-990000101_77"
        "#]],
    );
}

#[test]
fn twelve_pictures_with_a_long_text_are_one_message() {
    let message = post(&russian(3000), media(MediaKind::Photo, 1..=12));
    check_outline(
        &message,
        &channel(),
        &expect![[r#"
            1. media: photo 1–12, words: 3094 characters
        "#]],
    );
    check_outline(
        &message,
        &ChannelSettings { max_media: 10, ..channel() },
        &expect![[r#"
            1. media: photo 1–10, words: 3094 characters
            note: 2 of 12 media left out: max_media is 10
        "#]],
    );
}

#[test]
fn a_keyboard_takes_the_place_of_one_picture() {
    let message =
        Message { buttons: vec![vec![link_button("а"); 7]], ..post("x", media(MediaKind::Photo, 1..=12)) };
    check_outline(
        &message,
        &channel(),
        &expect![[r#"
            1. media: photo 1–11, words: 95 characters, buttons: [а→ а→ а→ / а→ а→ а→ / а→]
            2. media: photo 12, silent
        "#]],
    );
    let wordless = ChannelSettings { template: Some(String::new()), ..channel() };
    check_outline(
        &message,
        &wordless,
        &expect![[r#"
        1. media: photo 1–11, buttons: [а→ а→ а→ / а→ а→ а→ / а→]
        2. media: photo 12, silent
    "#]],
    );
}

#[test]
fn a_file_and_an_audio_are_alone_in_their_messages() {
    let mut all = media(MediaKind::Photo, 1..=12);
    all.extend([medium(MediaKind::Video, 13), medium(MediaKind::Document, 14), medium(MediaKind::Audio, 15)]);
    check_outline(
        &post(&russian(3000), all),
        &channel(),
        &expect![[r#"
            1. media: photo 1–12, words: 3094 characters
            2. media: video 13, silent
            3. media: document 14, silent
            4. media: audio 15, silent
        "#]],
    );
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
fn media_that_max_would_not_show_go_as_files() {
    let webp = Media { mime: Some("image/webp".into()), ..medium(MediaKind::Photo, 1) };
    let tall = Media { width: Some(100), height: Some(7681), ..medium(MediaKind::Photo, 2) };
    let long = Media { duration_s: Some(3601), ..medium(MediaKind::Audio, 3) };
    let gif = Media { mime: Some("image/gif".into()), ..medium(MediaKind::Animation, 4) };
    let huge = Media { size_bytes: Some(4_000_000_001), ..medium(MediaKind::Video, 5) };
    check_outline(
        &post("x", vec![webp, tall, long, gif, huge]),
        &channel(),
        &expect![[r#"
            1. media: photo 4, words: 95 characters
            2. media: document 1, silent
            3. media: document 2, silent
            4. media: document 3, silent
            note: video 5 left out: 4000000001 bytes, 4000000000 at most
        "#]],
    );
}

#[test]
fn the_limit_is_taken_on_the_wire_text_in_utf16() {
    let bare = ChannelSettings { template: Some("{{ body }}".into()), body_max: 100_000, ..channel() };
    check_outline(
        &Message::text("я".repeat(TEXT_MAX)),
        &bare,
        &expect![[r#"
        1. text: 4000 characters
    "#]],
    );
    check_outline(
        &Message::text("🐕".repeat(TEXT_MAX)),
        &bare,
        &expect![[r#"
        1. text: 2000 characters
    "#]],
    );
    check_outline(
        &Message::text("&".repeat(TEXT_MAX)),
        &bare,
        &expect![[r#"
        1. text: 800 characters
    "#]],
    );
    let split = ChannelSettings { overflow: Overflow::Split, ..bare };
    check_outline(
        &post(&russian(9000), media(MediaKind::Photo, 1..=2)),
        &split,
        &expect![[r#"
        1. text: 4000 characters
        2. text: 3996 characters, silent
        3. media: photo 1–2, words: 1002 characters, silent
    "#]],
    );
}

#[test]
fn markdown_marks_only_what_commonmark_reads() {
    let template = "<b>«{{ title }}!»</b><i>x</i> <u><s>{{ body }}</s></u> <code>a`b</code> <a href=\"{{ url }}\">пост</a> {{ url }}";
    let settings = ChannelSettings {
        parse_mode: Some(ParseMode::Markdown),
        template: Some(template.into()),
        ..channel()
    };
    check(
        &post("1. раз_два\n- три", vec![]),
        &settings,
        &expect![[r#"
        1. text: Markdown "«**Пропал питомец**\\!»*x* ++~~1\\. раз\\_два~~++\n\\- ++~~три~~++ `a'b` [пост](https://vk.com/wall-990000101_77) [https://vk\\.com/wall\\-990000101\\_77](https://vk.com/wall-990000101_77)"
    "#]],
    );
}

#[test]
fn options_are_those_that_max_knows() {
    let dialogue = ChannelSettings {
        target: "user:55".into(),
        chat_kind: ChatKind::Private,
        pin: true,
        silent: true,
        ..channel()
    };
    check_outline(
        &Message::text("x"),
        &dialogue,
        &expect![[r#"
        1. text: 1 characters, silent
        note: pin left out: MAX pins nothing in dialogues
    "#]],
    );
    check_outline(
        &Message::text("x"),
        &ChannelSettings { pin: true, ..channel() },
        &expect![[r#"
        1. text: 1 characters
        2. pin what part 1 made
    "#]],
    );
    check(
        &Message::text("x"),
        &ChannelSettings { topic: Some(5), ..channel() },
        &expect![[r#"
        error: max: topic is set, but MAX has no topics
    "#]],
    );
    check(
        &Message::text("x"),
        &ChannelSettings { parse_mode: Some(ParseMode::MarkdownV2), ..channel() },
        &expect![[r#"
            error: max: parse mode MarkdownV2 is Telegram's: use HTML, Markdown or none
        "#]],
    );
    check(
        &Message::text(""),
        &channel(),
        &expect![[r#"
        error: max: nothing to send: the message has no words and no media that max takes
    "#]],
    );
}

#[test]
fn follow_ups_go_message_by_message() {
    let photos = media(MediaKind::Photo, 1..=2);
    let there =
        [published(Shape::Caption, &["mid.0001"], &photos), published(Shape::Media, &["mid.0002"], &photos)];
    check_action(
        &Action::Edit(&there),
        &post(&russian(9000), photos),
        &channel(),
        &expect![[r#"
            1. edit caption of mid.0001: 3592 characters, keeps photo 1–2
        "#]],
    );
    check_action(
        &Action::Edit(&there),
        &Message::text(""),
        &channel(),
        &expect![[r#"
        1. edit caption of mid.0001: 0 characters, keeps photo 1–2
    "#]],
    );
    check_action(
        &Action::Reply(&there),
        &post("x", vec![]),
        &channel(),
        &expect![[r#"
            1. text: 95 characters, answers mid.0001
        "#]],
    );
    check_action(
        &Action::Delete(&there),
        &Message::default(),
        &channel(),
        &expect![[r#"
        1. delete mid.0001
        2. delete mid.0002
    "#]],
    );
}

#[test]
fn a_post_of_too_many_messages_is_refused() {
    let settings = ChannelSettings { max_media: 1000, ..channel() };
    let message = post("x", media(MediaKind::Document, 1..=101));
    check(
        &message,
        &settings,
        &expect![[r#"
        error: max: the post needs 101 messages, 100 at most: set overflow = "cut" or a lower max_media
    "#]],
    );
    let long = ChannelSettings { overflow: Overflow::Split, ..channel() };
    check(
        &Message::text("слово ".repeat(100_000)),
        &long,
        &expect![[r#"
        error: max: the post needs 150 messages, 100 at most: set overflow = "cut" or a lower max_media
    "#]],
    );
}

#[test]
fn targets_are_checked() {
    assert_eq!(target("-70000000000001").ok(), Some(Target::Chat(-70_000_000_000_001)));
    assert_eq!(target("user:55").ok(), Some(Target::User(55)));
    for bad in ["", "0", "user:0", "user:-5", "@name", "chat", "5.0"] {
        assert!(target(bad).is_err(), "{bad}");
    }
}
