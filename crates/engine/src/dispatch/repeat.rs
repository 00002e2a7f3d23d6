//! An answer that names a message of another delivery is no success: the platform took ours for a repeat of that one
//! and shows nothing new. Keys are unique, so it should never happen; if it does, nobody may read `sent`.

use domain::outcome::{Category, Failure, Scope};
use platforms::part::Part;
use store::Claim;

use super::deliver::Step;
use super::{Dispatcher, published};

/// The code of such an answer.
const CODE: &str = "taken_for_repeat";

impl Dispatcher {
    /// Only who recognises repeats can answer so, and only to something new.
    pub(super) async fn is_ours(&self, claim: &Claim, part: &Part, ids: &[String]) -> Step<()> {
        // What was said to other people of the lane has ids of other chats.
        if !matches!(part, Part::Text(_) | Part::Media(_)) || claim.destination.recipient().is_some() {
            return Ok(());
        }
        let said = self.ledger.said_lately(claim.workspace_id, claim.lane_id, claim.delivery_id).await;
        let said = match said {
            Ok(said) => said,
            Err(error) => {
                tracing::debug!(%error, "an answer could not be compared with earlier ones");
                return Ok(());
            }
        };
        let taken = |id: &&String| said.iter().any(|line| published::ids(line).contains(id));
        let Some(id) = ids.iter().find(taken) else {
            return Ok(());
        };
        tracing::error!(delivery = claim.delivery_id.0, id, "the platform took a new post for a repeat");
        let why = format!(
            "the platform answered with {id}, which is another delivery of this channel: it took this one for a repeat \
             and shows nothing new; `rupor delivery requeue {}` sends it under a new key",
            claim.delivery_id
        );
        Err(Failure::new(Category::Permanent, Scope::Delivery, CODE, why).into())
    }
}
