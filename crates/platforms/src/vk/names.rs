//! Who writes: VK tells an event's author by number alone. Names are asked for once, and kept while the program runs.

use std::collections::{BTreeSet, HashMap};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;

use super::send::ask;
use super::wire::Call;
use crate::incoming::{Event, Incoming, Said};
use crate::platform::{Account, Network};

/// People of one question; the platform takes no more.
const ASKED_MAX: usize = 1_000;
/// People who are remembered; then it begins anew.
const KNOWN_MAX: usize = 20_000;
const DEADLINE: Duration = Duration::from_secs(5);

/// `None`: asked for, and nobody.
static KNOWN: LazyLock<Mutex<HashMap<i64, Option<String>>>> = LazyLock::new(Mutex::default);

/// Adds names to messages of people. A question that fails costs the names, not the messages.
pub(super) async fn fill(network: &Network, account: &Account, events: &mut [Incoming]) {
    let unknown: BTreeSet<i64> = {
        let known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        let people = events.iter_mut().filter_map(author).map(|(id, _)| id);
        people.filter(|id| !known.contains_key(id)).take(ASKED_MAX).collect()
    };
    if !unknown.is_empty() {
        let ids: Vec<String> = unknown.iter().map(i64::to_string).collect();
        let call = Call::new("users.get").with("user_ids", ids.join(","));
        match ask(network, account, call, DEADLINE).await {
            Ok(people) => remember(&unknown, &people),
            Err(failure) => tracing::debug!(code = failure.code, "names could not be asked for"),
        }
    }
    let known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    for (id, said) in events.iter_mut().filter_map(author) {
        said.name = known.get(&id).cloned().flatten();
    }
}

/// A person, not a community, whose name is not known yet.
fn author(incoming: &mut Incoming) -> Option<(i64, &mut Said)> {
    let Event::Message(said) = &mut incoming.event else { return None };
    let id = said.from.as_deref()?.parse().ok().filter(|id| *id > 0)?;
    said.name.is_none().then_some((id, said))
}

fn remember(asked: &BTreeSet<i64>, people: &Value) {
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if known.len() + asked.len() > KNOWN_MAX {
        known.clear();
    }
    known.extend(asked.iter().map(|id| (*id, None)));
    for person in people.as_array().into_iter().flatten() {
        let words = ["first_name", "last_name"].iter().filter_map(|field| person[*field].as_str());
        let name = words.collect::<Vec<_>>().join(" ");
        if let Some(id) = person["id"].as_i64().filter(|_| !name.trim().is_empty()) {
            known.insert(id, Some(name.trim().to_owned()));
        }
    }
}
