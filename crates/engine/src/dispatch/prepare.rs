//! Before the network: who sends, where to, which words, in which parts. For a channel and for a person alike.
//!
//! Everything that can go wrong without a request goes wrong here, and costs nothing.

use std::sync::Arc;

use domain::delivery::{Action, AmbiguityPolicy, Status};
use domain::limits::NOT_READY_WAITS_MAX;
use domain::message::Message;
use domain::outcome::{CODE_CHAT_WAITS, CODE_NOT_READY, Category, Failure, Scope};
use domain::time::{Span, Timestamp};
use platforms::part::{MediaItem, Part};
use store::{Claim, Delivery};

use super::book::{Address, Found, Place};
use super::deliver::{Halt, Step, delivery_failure, unreadable};
use super::{Dispatcher, published};

/// A chat that is free this soon is waited for with the claim in hand.
const CHAT_WAIT_MAX: Span = Span::from_secs(5);
/// How long a delivery stays away from a chat that wants a pause, before it asks again.
const CHAT_LOOK: Span = Span::from_secs(60);

/// What a claim turned out to be.
pub(super) struct Work {
    pub(super) address: Arc<Address>,
    pub(super) place: Arc<Place>,
    pub(super) parts: Vec<Part>,
    /// When the chat is free, where the claim did not wait for it.
    pub(super) free_at: Option<Timestamp>,
}

impl Dispatcher {
    /// Everything that can go wrong before the network goes wrong here.
    pub(super) async fn prepare(&self, claim: &Claim) -> Step<Work> {
        let found =
            self.book.find(claim.workspace_id, claim.account_id, claim.destination, claim.slot_at).await;
        let Found { address, place, free_at, attributes } = found.map_err(unreadable)??;
        if let Some(at) = free_at {
            soon_free(at - self.time.now())?;
        }
        if claim.action == Action::Edit {
            self.comes_after_earlier_edits(claim).await?;
        }
        self.comes_after_its_like(claim, &place).await?;
        let message = filled_in(self.message(claim).await?, &attributes)?;
        let target = match claim.target_delivery {
            Some(id) => {
                let target = self.ledger.delivery(claim.workspace_id, id).await.map_err(unreadable)?;
                Some(published_here(published_already(target)?, place.since)?)
            }
            None => None,
        };
        let media: Vec<MediaItem> = message
            .media
            .iter()
            .map(|media| MediaItem { send_as: media.kind, media: media.clone() })
            .collect();
        let before = target.map(|target| published::published(&target, &media)).unwrap_or_default();
        let action = match claim.action {
            Action::Send => platforms::part::Action::Send,
            Action::Reply => platforms::part::Action::Reply(&before),
            Action::Edit => platforms::part::Action::Edit(&before),
            Action::Delete => platforms::part::Action::Delete(&before),
        };
        let rendered = address.platform.render(&action, &message, &place.settings);
        let rendered = rendered.map_err(|error| error.to_failure())?;
        for note in &rendered.notes {
            tracing::info!(delivery = claim.delivery_id.0, note, "left out");
        }
        Ok(Work { address, place, parts: rendered.parts, free_at })
    }

    /// Where order is not kept, an edit could overtake an earlier one of the same post, which would then undo it.
    async fn comes_after_earlier_edits(&self, claim: &Claim) -> Step<()> {
        let leaves = self.ledger.earlier_edit_leaves(claim.workspace_id, claim.delivery_id).await;
        match leaves.map_err(unreadable)? {
            true => Err(not_ready("an earlier edit of the post is on its way".to_owned())),
            false => Ok(()),
        }
    }

    /// Where an unknown outcome is found by reading back, words are all there is to tell posts apart. So the same words go
    /// to a chat one after another: when one of them is looked for, no other can be taken for it. Whoever waits in vain
    /// goes in the end, for a post that is never said is worse than two whose ids are exchanged.
    async fn comes_after_its_like(&self, claim: &Claim, place: &Place) -> Step<()> {
        let says = matches!(claim.action, Action::Send | Action::Reply);
        if !says
            || place.policy != AmbiguityPolicy::Reconcile
            || place.ordered
            || claim.counters.not_ready_waits >= NOT_READY_WAITS_MAX
        {
            return Ok(());
        }
        match self.ledger.alike_is_ahead(claim.workspace_id, claim.delivery_id).await.map_err(unreadable)? {
            true => Err(not_ready("the same words are on their way to this chat".to_owned())),
            false => Ok(()),
        }
    }

    /// The message of a claim; a post to forty channels is read once. An edit that is tried again brings the words of
    /// now, not of the time it was made, so it reads them anew.
    pub(super) async fn message(&self, claim: &Claim) -> Step<Arc<Message>> {
        if claim.action == Action::Edit {
            let read = self.messages.read_anew(claim.workspace_id, claim.message_id).await;
            return read.map_err(unreadable)?.map_err(|why| delivery_failure("message", &why).into());
        }
        let wanted = (claim.message_id, claim.revision, claim.wording().to_owned());
        let found = self.messages.get(claim.workspace_id, wanted).await;
        found.map_err(unreadable)?.map_err(|why| delivery_failure("message", &why).into())
    }
}

/// The words as this person reads them.
fn filled_in(message: Arc<Message>, attributes: &serde_json::Value) -> Step<Arc<Message>> {
    if !message.personal {
        return Ok(message);
    }
    let fill = |text: &str| {
        let filled = platforms::render::personal::fill(text, attributes);
        filled.map_err(|error| delivery_failure("personal", &error.to_string()))
    };
    let title = message.title.as_deref().map(fill).transpose()?;
    let text = fill(&message.text)?;
    Ok(Arc::new(Message { title, text, ..Message::clone(&message) }))
}

/// What changes or answers a post waits until that post is out, and has no meaning if it never will be.
fn published_already(target: Delivery) -> Step<Delivery> {
    match target.status {
        Status::Sent => Ok(target),
        status if status.is_terminal() => {
            let why = format!("delivery {} was never published: it is {status}", target.delivery_id);
            Err(delivery_failure("no_target", &why).into())
        }
        _ => Err(not_ready(format!("delivery {} is not published yet", target.delivery_id))),
    }
}

/// A channel may have been given another chat since.
fn published_here(target: Delivery, since: Timestamp) -> Step<Delivery> {
    if target.ended_at.is_some_and(|at| at < since) {
        let why = format!("delivery {} stands in the chat that the channel had before", target.delivery_id);
        return Err(delivery_failure("no_target", &why).into());
    }
    Ok(target)
}

fn not_ready(why: String) -> Halt {
    Failure::new(Category::Transient, Scope::Delivery, CODE_NOT_READY, why).into()
}

/// A chat that flooded is left alone for longer than a claim may wait: its delivery comes back when it is free.
fn soon_free(wait: Span) -> Step<()> {
    if wait <= CHAT_WAIT_MAX {
        return Ok(());
    }
    let waits =
        Failure::new(Category::Transient, Scope::Channel, CODE_CHAT_WAITS, "the chat asked for a pause");
    // The clock may be set right meanwhile, or a person may end the pause: it is looked at again.
    Err(waits.retry_after(wait.min(CHAT_LOOK).millis() + 1).into())
}
