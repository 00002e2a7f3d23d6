//! The examples of docs/platforms arrive as the pages say: part by part, picture by picture, judged by the ledger.

use platforms::part::Action;
use sandbox::Name;
use sandbox::ledger::Row;
use serde_json::Value;

use crate::cases::{Case, bytes_of, cases, long_text};
use crate::world::{World, short};

fn page(name: Name) -> &'static str {
    match name {
        Name::Telegram => include_str!("../../../../docs/platforms/telegram.md"),
        Name::Vk => include_str!("../../../../docs/platforms/vk.md"),
        Name::Max => include_str!("../../../../docs/platforms/max.md"),
    }
}

/// The parts that the page names for a case, without what a ledger cannot show: sounds and notes.
fn promised(name: Name, title: &str) -> Vec<String> {
    let (_, after) = page(name).split_once(&format!("{title}\n\n```text\n")).unwrap();
    let (block, _) = after.split_once("```").unwrap();
    let parts = block.lines().filter(|line| !line.starts_with("note:"));
    parts.map(|line| line.split_once(". ").unwrap().1.replace(", silent", "")).collect()
}

/// What a platform calls a kind, in the words of the pages.
fn kind_of(media: &Value) -> &'static str {
    match media["kind"].as_str().unwrap() {
        "photo" | "image" => "photo",
        "video" => "video",
        "document" | "doc" | "file" => "document",
        other => panic!("unexpected kind {other}"),
    }
}

/// One visible request in the words of the pages: `media: photo 1–10, words: 95 characters`.
fn arrived(row: &Row, hashes: &[String]) -> String {
    let n_chars = row.text.as_ref().map_or(0, |text| text.chars().count());
    let mut ranges: Vec<(&str, usize, usize)> = Vec::new();
    for media in &row.media {
        let sha256 = media["sha256"].as_str().unwrap_or_else(|| panic!("{media}"));
        let number = 1 + hashes.iter().position(|hash| hash == sha256).unwrap();
        match ranges.last_mut() {
            Some((kind, _, last)) if *kind == kind_of(media) && *last + 1 == number => *last = number,
            _ => ranges.push((kind_of(media), number, number)),
        }
    }
    let range = |(kind, first, last): &(&str, usize, usize)| match first == last {
        true => format!("{kind} {first}"),
        false => format!("{kind} {first}–{last}"),
    };
    let items = ranges.iter().map(range).collect::<Vec<_>>().join(", ");
    match (items.is_empty(), n_chars) {
        (true, _) => format!("text: {n_chars} characters"),
        (false, 0) => format!("media: {items}"),
        (false, _) => format!("media: {items}, words: {n_chars} characters"),
    }
}

async fn check(name: Name, case: &Case) {
    let world = World::start().await;
    let mut side = world.side(name);
    side.settings.max_media = case.max_media;
    let (store, hashes) = bytes_of(&world, &case.message);
    for report in side.publish(&Action::Send, &case.message, "delivery", &store).await {
        assert_eq!(short(&report), "sent", "{name:?} {}: {report:?}", case.title);
    }
    let rows = side.visible();
    let seen: Vec<String> = rows.iter().map(|row| arrived(row, &hashes)).collect();
    assert_eq!(seen, promised(name, case.title), "{name:?} {}", case.title);
    let words = rows.iter().filter_map(|row| row.text.as_deref()).collect::<Vec<_>>().join(" ");
    assert!(words.contains(&case.message.text), "{name:?} {}: every word of the post is there", case.title);
    assert!(words.contains("wall-990000101_77") || name != Name::Vk, "{words}");
}

#[tokio::test]
async fn the_examples_arrive_on_telegram_as_its_page_says() {
    for case in cases() {
        check(Name::Telegram, &case).await;
    }
}

#[tokio::test]
async fn the_examples_arrive_on_vk_as_its_page_says() {
    for case in cases() {
        check(Name::Vk, &case).await;
    }
}

#[tokio::test]
async fn the_examples_arrive_on_max_as_its_page_says() {
    for case in cases() {
        check(Name::Max, &case).await;
    }
}

#[test]
fn the_long_text_of_the_examples_has_exactly_3000_characters() {
    assert_eq!(long_text().chars().count(), 3_000);
}
