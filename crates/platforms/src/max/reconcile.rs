//! Whether a message of unknown outcome is visible after all: MAX lets a bot read the messages of its chats.

use serde_json::Value;

use super::Max;
use super::send::ask_for;
use super::wire::Call;
use crate::part::{Fitted, Markup, Part, Target};
use crate::platform::{Account, Network, Question, Reconciled};
use crate::transport::Method;
use crate::verdict::{Purpose, shapeless};

/// Messages looked through.
const LOOK_BACK: u32 = 50;
/// The clocks of two machines may differ by this much.
const CLOCK_SLACK_MS: i64 = 120_000;

impl Max {
    pub(super) async fn look_for(
        &self,
        network: &Network,
        account: &Account,
        question: Question<'_>,
    ) -> Reconciled {
        let (target, words, n_media) = match question.part {
            Part::Text(part) => (&part.target, bare(Some(&part.text)), 0),
            Part::Media(part) => (&part.target, bare(part.caption.as_ref()), part.items.len()),
            // Edits, deletions and pins can be repeated without anybody seeing it.
            Part::Edit(_) | Part::Delete(_) | Part::Pin(_) => return Reconciled::CannotKnow,
        };
        // A person who has no chat yet has no messages to read.
        let Target::Chat(chat) = target else { return Reconciled::CannotKnow };
        let call = Call::new(Method::Get, "/messages", "max GET /messages")
            .query("chat_id", chat)
            .query("to", question.sent_at_ms - CLOCK_SLACK_MS)
            .query("count", LOOK_BACK);
        let result = match ask_for(Purpose::Read, network, account, call, question.deadline).await {
            Ok(result) => result,
            Err(failure) => return Reconciled::Failed(failure),
        };
        let Some(messages) = result["messages"].as_array() else {
            return Reconciled::Failed(account.redact(shapeless(&result)));
        };
        let ours = |message: &Value| id_of(message, &words, n_media, &question);
        match messages.iter().find_map(ours) {
            Some(mid) => Reconciled::Visible(vec![mid]),
            None => Reconciled::Absent,
        }
    }
}

fn id_of(message: &Value, words: &str, n_media: usize, question: &Question<'_>) -> Option<String> {
    let body = &message["body"];
    let mid = body["mid"].as_str()?.to_owned();
    let at_ms = message["timestamp"].as_i64()?;
    if question.taken.contains(&mid) || at_ms < question.sent_at_ms - CLOCK_SLACK_MS {
        return None;
    }
    let same_words = letters(body["text"].as_str().unwrap_or_default()) == words;
    let shown = body["attachments"].as_array().map(Vec::as_slice).unwrap_or_default();
    // The server adds `share` for links by itself.
    let is_media = |item: &&Value| !matches!(item["type"].as_str(), Some("inline_keyboard" | "share"));
    let n_shown = shown.iter().filter(is_media).count();
    (same_words && n_shown == n_media).then_some(mid)
}

/// Our words as MAX shows them, reduced to letters and digits: it gives back plain text, not the markup we sent.
fn bare(text: Option<&Fitted>) -> String {
    let Some(text) = text else { return String::new() };
    match text.markup() {
        Markup::Html => letters(&without_tags(text.as_str())),
        Markup::Markdown => letters(&without_addresses(text.as_str())),
        Markup::Plain | Markup::MarkdownV2 => letters(text.as_str()),
    }
}

fn letters(text: &str) -> String {
    text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

fn without_tags(html: &str) -> String {
    let mut words = String::with_capacity(html.len());
    let mut in_tag = false;
    for c in html.chars() {
        match c {
            '<' => in_tag = true,
            '>' => in_tag = false,
            _ if !in_tag => words.push(c),
            _ => {}
        }
    }
    let entities = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&amp;", "&")];
    entities.iter().fold(words, |words, (entity, sign)| words.replace(entity, sign))
}

/// `[words](address)` shows its words only.
fn without_addresses(markdown: &str) -> String {
    let mut words = String::with_capacity(markdown.len());
    let mut rest = markdown;
    while let Some((before, after)) = rest.split_once("](") {
        words.push_str(before);
        rest = after.split_once(')').map_or("", |(_, after)| after);
    }
    words.push_str(rest);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_is_taken_off_before_words_are_compared() {
        let html = Fitted::marked(
            "<b>Пропал</b> кот &amp; пёс <a href=\"https://a.test/1\">тут</a>".into(),
            Markup::Html,
        );
        assert_eq!(bare(Some(&html)), letters("Пропал кот & пёс тут"));
        let markdown = Fitted::marked("**Пропал** кот [тут](https://a.test/1)\\!".into(), Markup::Markdown);
        assert_eq!(bare(Some(&markdown)), letters("Пропал кот тут!"));
        assert_eq!(bare(None), "");
    }
}
