//! Whether a post or message of unknown outcome is visible after all: VK lets us read our own wall and dialogues.

use domain::outcome::Failure;
use serde_json::Value;

use super::Vk;
use super::send::ask;
use super::wire::{Call, random_id};
use crate::part::{Fitted, Part, Target};
use crate::platform::{Account, Network, Question, Reconciled};
use crate::verdict::shapeless;

/// How far back is looked: what we sent last stands near the top.
const LOOK_BACK: u32 = 30;
/// The clocks of two machines may differ by this much.
const CLOCK_SLACK_MS: i64 = 120_000;

impl Vk {
    pub(super) async fn look_for(
        &self,
        network: &Network,
        account: &Account,
        question: Question<'_>,
    ) -> Reconciled {
        let (target, words, n_media, reply) = match question.part {
            Part::Text(part) => (&part.target, part.text.as_str(), 0, &part.options.reply_to),
            Part::Media(part) => {
                let words = part.caption.as_ref().map(Fitted::as_str).unwrap_or_default();
                (&part.target, words, part.items.len(), &part.options.reply_to)
            }
            // Edits, deletions and pins can be repeated without anybody seeing it.
            Part::Edit(_) | Part::Delete(_) | Part::Pin(_) => return Reconciled::CannotKnow,
        };
        let call = match (target, reply) {
            (Target::Wall(owner), None) => {
                Call::new("wall.get").with("owner_id", owner).with("count", LOOK_BACK)
            }
            (Target::Wall(_), Some(_)) => return Reconciled::CannotKnow,
            (Target::Chat(peer) | Target::User(peer), _) => {
                Call::new("messages.getHistory").with("peer_id", peer).with("count", LOOK_BACK)
            }
            (Target::Name(_), _) => return Reconciled::CannotKnow,
        };
        let response = match ask(network, account, call, question.deadline).await {
            Ok(response) => response,
            Err(failure) => return cannot(failure),
        };
        let Some(items) = response["items"].as_array() else {
            return Reconciled::Failed(account.redact(shapeless(&response)));
        };
        let wanted = Wanted { words, n_media, question: &question };
        match items.iter().find_map(|item| wanted.id_of(item)) {
            Some(id) => Reconciled::Visible(vec![id]),
            None => Reconciled::Absent,
        }
    }
}

/// A token of the wrong kind will never be able to look.
fn cannot(failure: Failure) -> Reconciled {
    match failure.code.as_str() {
        "vk:27" | "vk:28" | "vk:7" | "vk:15" => Reconciled::CannotKnow,
        _ => Reconciled::Failed(failure),
    }
}

struct Wanted<'a> {
    words: &'a str,
    n_media: usize,
    question: &'a Question<'a>,
}

impl Wanted<'_> {
    fn id_of(&self, item: &Value) -> Option<String> {
        let id = item["id"].as_i64()?.to_string();
        let at_ms = item["date"].as_i64()?.saturating_mul(1_000);
        if self.question.taken.contains(&id) || at_ms < self.question.sent_at_ms - CLOCK_SLACK_MS {
            return None;
        }
        // Messages remember the key they were sent with.
        if let Some(key) = item["random_id"].as_i64().filter(|key| *key != 0) {
            return (key == i64::from(random_id(self.question.key))).then_some(id);
        }
        let n_attached = item["attachments"].as_array().map_or(0, Vec::len);
        let same_words = plain(item["text"].as_str().unwrap_or_default()) == plain(self.words);
        let same_media = !self.words.is_empty() || n_attached == self.n_media;
        (same_words && same_media).then_some(id)
    }
}

/// Words as both sides agree on them: VK trims, and writes a few signs as entities.
fn plain(text: &str) -> String {
    let text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
