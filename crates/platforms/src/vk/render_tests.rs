//! What VK gets, part by part.

use domain::chat::{ChatKind, Overflow};
use domain::message::{Media, MediaKind, Message};
use expect_test::{Expect, expect};

use super::facts::{chat_kind, talk_kind};
use super::render::{MESSAGE_MAX, POST_MAX, render, target};
use crate::part::*;
use crate::render::samples::*;

fn wall() -> ChannelSettings {
    ChannelSettings { target: "-990000202".into(), max_media: 20, ..ChannelSettings::default() }
}

fn conversation() -> ChannelSettings {
    ChannelSettings {
        target: "2000000001".into(),
        chat_kind: ChatKind::Group,
        account_kind: AccountKind::Community,
        ..wall()
    }
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
fn a_post_is_plain_text_whose_mentions_are_disarmed() {
    check(
        &post("Звоните [id5|Анне], @all *id7 <b>&", media(MediaKind::Photo, 1..=2)),
        &wall(),
        &expect![[r#"
            1. media: photo 1–2, words: Plain "🔎 ПРОПАЛ ПИТОМЕЦ\n\nЗвоните Анне (https://vk.com/id5), @\u{2060}all *\u{2060}id7 <b>&\n\n📞 +7 999 000-11-22\n📍 Казань, улица Мира\n🔗 https://vk.com/wall-990000101_77"
        "#]],
    );
    check(
        &Message::text("[id1|взлом] и @все"),
        &wall(),
        &expect![[r#"
        1. text: Plain "[\u{2060}id1|взлом] и @\u{2060}все"
    "#]],
    );
}

#[test]
fn a_break_inside_a_word_bares_no_mention() {
    let settings = ChannelSettings {
        template: Some("{{ body }}".into()),
        body_max: 10_000,
        overflow: Overflow::Split,
        ..conversation()
    };
    let message = Message::text(format!("{}@all", "я".repeat(MESSAGE_MAX - 1)));
    let Ok(rendered) = render(&Action::Send, &message, &settings) else { panic!("not rendered") };
    let Some(Part::Text(last)) = rendered.parts.last() else { panic!("{rendered:?}") };
    assert_eq!(last.text.as_str(), "@\u{2060}all");
}

#[test]
fn twelve_pictures_with_a_long_text_are_two_posts() {
    let message = post(&russian(3000), media(MediaKind::Photo, 1..=12));
    check_outline(
        &message,
        &wall(),
        &expect![[r#"
            1. media: photo 1–10, words: 3094 characters
            2. media: photo 11–12, silent
        "#]],
    );
    check_outline(
        &message,
        &ChannelSettings { max_media: 10, ..wall() },
        &expect![[r#"
            1. media: photo 1–10, words: 3094 characters
            note: 2 of 12 media left out: max_media is 10
        "#]],
    );
}

#[test]
fn a_post_holds_one_file_and_a_file_alone_is_named() {
    let mut all = media(MediaKind::Photo, 1..=12);
    all.extend([
        medium(MediaKind::Video, 13),
        medium(MediaKind::Document, 14),
        medium(MediaKind::Document, 15),
    ]);
    all[14].file_name = Some("листовка @all.pdf".into());
    check(
        &post("x", all),
        &wall(),
        &expect![[r#"
            1. media: photo 1–10, words: Plain "🔎 ПРОПАЛ ПИТОМЕЦ\n\nx\n\n📞 +7 999 000-11-22\n📍 Казань, улица Мира\n🔗 https://vk.com/wall-990000101_77"
            2. media: photo 11–12, video 13, document 14, silent
            3. media: document 15, words: Plain "📎 листовка @\u{2060}all.pdf\nhttps://vk.com/wall-990000101_77", silent
        "#]],
    );
    check_outline(
        &post("Видео", media(MediaKind::Video, 1..=1)),
        &wall(),
        &expect![[r#"
            1. media: video 1, words: 99 characters
        "#]],
    );
    check_outline(
        &post("Листовка", media(MediaKind::Document, 1..=1)),
        &wall(),
        &expect![[r#"
            1. media: document 1, words: 102 characters
        "#]],
    );
}

#[test]
fn a_community_key_posts_words_and_says_what_it_left_out() {
    let settings = ChannelSettings { account_kind: AccountKind::Community, pin: true, ..wall() };
    let mut all = media(MediaKind::Photo, 1..=1);
    all.extend([medium(MediaKind::Video, 2), medium(MediaKind::Document, 3)]);
    check_outline(
        &post("x", all),
        &settings,
        &expect![[r#"
            1. media: document 3, words: 95 characters
            note: photo 1 left out: a community key cannot upload wall photos: use a user token
            note: video 2 left out: a community key cannot upload videos: use a user token
            note: pin left out: a community key may not pin posts
        "#]],
    );
    check(
        &Message { media: media(MediaKind::Photo, 1..=1), ..Message::default() },
        &settings,
        &expect![[r#"
            error: vk: media cannot be sent: photo 1 left out: a community key cannot upload wall photos: use a user token
        "#]],
    );
}

#[test]
fn a_service_token_cannot_post() {
    check(
        &Message::text("x"),
        &ChannelSettings { account_kind: AccountKind::Service, ..wall() },
        &expect![[r#"
            error: vk: a service token can only read: use a user or community token to post
        "#]],
    );
    check(
        &Message::text("x"),
        &ChannelSettings { parse_mode: Some(ParseMode::Html), ..wall() },
        &expect![[r#"
            error: vk: VK has no markup: leave parse_mode out or set it to none
        "#]],
    );
    check(
        &Message::text("x"),
        &ChannelSettings { topic: Some(2), ..wall() },
        &expect![[r#"
        error: vk: topic is set, but VK has no topics
    "#]],
    );
}

#[test]
fn media_that_vk_refuses_go_another_way_or_are_named() {
    let webp = Media { mime: Some("image/webp".into()), ..medium(MediaKind::Photo, 1) };
    let gif = Media { mime: Some("image/gif".into()), ..medium(MediaKind::Animation, 2) };
    let loop_video = Media { mime: Some("video/mp4".into()), ..medium(MediaKind::Animation, 3) };
    let program = Media { file_name: Some("a.EXE".into()), ..medium(MediaKind::Document, 4) };
    check_outline(
        &post("x", vec![webp, gif, loop_video, program, medium(MediaKind::Audio, 5)]),
        &wall(),
        &expect![[r#"
            1. media: video 3, document 1, words: 95 characters
            2. media: document 2, words: 39 characters, silent
            note: document 4 left out: VK takes no .exe files
            note: audio 5 left out: VK takes no audio from outside
        "#]],
    );
}

#[test]
fn long_words_are_cut_or_split_at_the_size_of_the_place() {
    let bare = |settings: ChannelSettings| ChannelSettings {
        template: Some("{{ body }}".into()),
        body_max: 100_000,
        ..settings
    };
    check_outline(
        &Message::text("я".repeat(POST_MAX)),
        &bare(wall()),
        &expect![[r#"
        1. text: 16383 characters
    "#]],
    );
    check_outline(
        &Message::text("🐕".repeat(MESSAGE_MAX)),
        &bare(conversation()),
        &expect![[r#"
        1. text: 2048 characters
    "#]],
    );
    let split = ChannelSettings { overflow: Overflow::Split, ..bare(wall()) };
    check_outline(
        &post(&russian(40_000), media(MediaKind::Photo, 1..=2)),
        &split,
        &expect![[r#"
        1. text: 16376 characters
        2. text: 16381 characters, silent
        3. media: photo 1–2, words: 7241 characters, silent
    "#]],
    );
}

#[test]
fn a_conversation_takes_photos_and_buttons() {
    let message = Message {
        buttons: vec![vec![link_button("Карта"), callback_button("Видел", "seen")]],
        ..post("x", media(MediaKind::Photo, 1..=11))
    };
    check_outline(
        &message,
        &conversation(),
        &expect![[r#"
            1. media: photo 1–10, words: 95 characters, buttons: [Карта→ Видел↩]
            2. media: photo 11, silent
        "#]],
    );
    check_outline(
        &Message { media: vec![], ..message },
        &ChannelSettings { pin: true, ..conversation() },
        &expect![[r#"
            1. text: 95 characters, buttons: [Карта→ Видел↩]
            note: pin left out: only wall posts are pinned
        "#]],
    );
    let many = Message { buttons: vec![vec![link_button("а"); 11]], ..Message::text("x") };
    check(
        &many,
        &conversation(),
        &expect![[r#"
        error: vk: the keyboard (buttons) is 11 long, 10 at most
    "#]],
    );
}

#[test]
fn buttons_of_a_post_become_lines() {
    let message = Message {
        buttons: vec![vec![link_button("Карта"), callback_button("Видел", "seen")]],
        ..Message::text("x")
    };
    check(
        &message,
        &wall(),
        &expect![[r#"
        1. text: Plain "x\nКарта: https://example.org/map"
        note: button "Видел" left out: a post has no buttons
    "#]],
    );
}

#[test]
fn a_reply_on_a_wall_is_comments_under_the_post() {
    let there = [published(Shape::Caption, &["15"], &[])];
    let split = ChannelSettings { overflow: Overflow::Split, body_max: 900, pin: true, ..wall() };
    check_action(
        &Action::Reply(&there),
        &post(&russian(1500), vec![]),
        &split,
        &expect![[r#"
            1. text: 914 characters, answers 15
            2. text: 679 characters, silent, answers 15
        "#]],
    );
}

#[test]
fn an_edit_keeps_the_attachments_and_a_delete_takes_post_by_post() {
    let photos = media(MediaKind::Photo, 1..=2);
    let there = [published(Shape::Caption, &["15"], &photos), published(Shape::Media, &["16"], &photos)];
    check_action(
        &Action::Edit(&there),
        &post("@all нашлась", photos),
        &wall(),
        &expect![[r#"
            1. edit caption of 15: 107 characters, keeps photo 1–2
        "#]],
    );
    check_action(
        &Action::Delete(&there),
        &Message::default(),
        &wall(),
        &expect![[r#"
        1. delete 15
        2. delete 16
    "#]],
    );
    check_action(
        &Action::Delete(&there),
        &Message::default(),
        &conversation(),
        &expect![[r#"
        1. delete 15, 16
    "#]],
    );
    check_action(
        &Action::Delete(&[]),
        &Message::default(),
        &wall(),
        &expect![[r#"
        error: vk: nothing published that could be changed: no id of it is known
    "#]],
    );
}

#[test]
fn a_comment_is_changed_and_deleted_as_a_comment() {
    let there = [
        Published { reply_to: Some("15".into()), ..published(Shape::Text, &["20"], &[]) },
        published(Shape::Text, &["15"], &[]),
    ];
    check_action(
        &Action::Edit(&there[..1]),
        &Message::text("x"),
        &wall(),
        &expect![[r#"
        1. edit text of 20 under 15: 1 characters
    "#]],
    );
    check_action(
        &Action::Delete(&there),
        &Message::default(),
        &wall(),
        &expect![[r#"
        1. delete 20 under 15
        2. delete 15
    "#]],
    );
}

#[test]
fn posts_are_pinned_with_a_user_token() {
    check_outline(
        &Message::text("x"),
        &ChannelSettings { pin: true, ..wall() },
        &expect![[r#"
        1. text: 1 characters
        2. pin what part 1 made
    "#]],
    );
}

#[test]
fn targets_are_checked() {
    assert_eq!(target("-5", ChatKind::Channel).ok(), Some(Target::Wall(-5)));
    assert_eq!(target("2000000001", ChatKind::Private).ok(), Some(Target::Chat(2_000_000_001)));
    assert_eq!(target("user:701", chat_kind("user:701")).ok(), Some(Target::Chat(701)));
    for (told_at, kind) in [
        ("701", ChatKind::Private),
        ("2000000001", ChatKind::Group),
        ("-123", ChatKind::Channel),
        ("user:701", ChatKind::Private),
    ] {
        assert_eq!(talk_kind(told_at), kind, "{told_at}");
    }
    for bad in ["", "0", "club5", "@x", "1e5", " 5"] {
        assert!(target(bad, ChatKind::Channel).is_err(), "{bad}");
    }
}
