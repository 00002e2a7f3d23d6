//! The messages of claims: read together, and the last few kept, so that forty channels read one once.
//!
//! While one reading is under way the next gathers, as the recorder does with what it writes.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::ids::{MessageId, WorkspaceId};
use domain::message::Message;
use store::StoreError;
use tokio::sync::oneshot;

use super::ports::Ledger;

/// Messages that are kept.
const KEPT_MAX: usize = 64;
/// Messages read at once.
const READ_MAX: usize = 128;

/// A message as it was worded at one time, and what the row said of itself then: ids may be given a second time.
pub(super) type Revision = (MessageId, i32, String);
/// What one is kept under.
type Key = (WorkspaceId, Revision);
/// The message, or why it cannot be read.
type Read = Result<Arc<Message>, String>;
type Answer = Result<Read, StoreError>;

#[derive(Debug)]
pub(super) struct MessageBatcher {
    ledger: Arc<dyn Ledger>,
    kept: Mutex<VecDeque<(Key, Arc<Message>)>>,
    waiting: Mutex<HashMap<WorkspaceId, Arc<Waiting>>>,
}

/// Those of one workspace who wait for a message.
#[derive(Debug, Default)]
struct Waiting {
    /// Held while a reading is under way.
    open: tokio::sync::Mutex<()>,
    queue: Mutex<VecDeque<(Revision, oneshot::Sender<Answer>)>>,
}

impl MessageBatcher {
    pub(super) fn new(ledger: Arc<dyn Ledger>) -> MessageBatcher {
        MessageBatcher { ledger, kept: Mutex::default(), waiting: Mutex::default() }
    }

    pub(super) async fn get(&self, workspace: WorkspaceId, wanted: Revision) -> Answer {
        if let Some(message) = self.remembered(workspace, &wanted) {
            return Ok(Ok(message));
        }
        let waiting = Arc::clone(lock(&self.waiting).entry(workspace).or_default());
        let (answer, mut answered) = oneshot::channel();
        lock(&waiting.queue).push_back((wanted, answer));
        let _open = waiting.open.lock().await;
        // Whoever read before may have brought ours along.
        if let Ok(answer) = answered.try_recv() {
            return answer;
        }
        let waiting: Vec<_> = {
            let mut queue = lock(&waiting.queue);
            let n = queue.len().min(READ_MAX);
            queue.drain(..n).collect()
        };
        self.read(workspace, waiting).await;
        answered.try_recv().unwrap_or_else(|_| Err(StoreError::Database("a message was not read".into())))
    }

    /// The words of now, whatever was read before.
    pub(super) async fn read_anew(&self, workspace: WorkspaceId, id: MessageId) -> Answer {
        let found = self.ledger.payloads(workspace, vec![id]).await?;
        let (_, payload) = found.into_iter().next().ok_or_else(|| StoreError::not_found("message", id))?;
        Ok(parse(payload))
    }

    async fn read(&self, workspace: WorkspaceId, waiting: Vec<(Revision, oneshot::Sender<Answer>)>) {
        let mut ids: Vec<MessageId> = waiting.iter().map(|((id, ..), _)| *id).collect();
        ids.sort_unstable();
        ids.dedup();
        let found = match self.ledger.payloads(workspace, ids).await {
            Ok(found) => found,
            Err(error) => {
                for (_, answer) in waiting {
                    let _ = answer.send(Err(error.clone()));
                }
                return;
            }
        };
        let messages: BTreeMap<MessageId, Read> =
            found.into_iter().map(|(id, payload)| (id, parse(payload))).collect();
        for (wanted, answer) in waiting {
            let read = match messages.get(&wanted.0) {
                Some(read) => Ok(read.clone()),
                None => Err(StoreError::not_found("message", wanted.0)),
            };
            if let Ok(Ok(message)) = &read {
                self.keep((workspace, wanted), Arc::clone(message));
            }
            // Who has given up meanwhile does not want to know.
            let _ = answer.send(read);
        }
    }

    /// Another history: the same ids may mean something else.
    pub(super) fn forget(&self) {
        lock(&self.kept).clear();
    }

    fn remembered(&self, workspace: WorkspaceId, wanted: &Revision) -> Option<Arc<Message>> {
        let kept = lock(&self.kept);
        let is_it = |known: &Key| known.0 == workspace && known.1 == *wanted;
        kept.iter().find(|(known, _)| is_it(known)).map(|(_, message)| Arc::clone(message))
    }

    fn keep(&self, key: Key, message: Arc<Message>) {
        let mut kept = lock(&self.kept);
        if kept.iter().any(|(known, _)| *known == key) {
            return;
        }
        if kept.len() == KEPT_MAX {
            kept.pop_front();
        }
        kept.push_back((key, message));
    }
}

fn parse(payload: serde_json::Value) -> Read {
    let message = serde_json::from_value(payload).map(Arc::new);
    message.map_err(|error| format!("the message cannot be read: {error}"))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use store::{Address, Clock, Keyring, NewMessage, Store};

    use super::*;

    fn post(text: &str) -> NewMessage {
        let payload = serde_json::to_value(Message::text(text)).unwrap();
        let item = json!({"source": "test", "origin_id": "1", "payload": payload, "content_hash": text, "channels": []});
        serde_json::from_value(item).unwrap()
    }

    /// A failover that lost commits gives the id of one workspace's message to another one's.
    #[tokio::test]
    async fn an_id_that_was_given_again_never_brings_the_words_of_before() {
        let address = Address::parse("sqlite::memory:").unwrap();
        let store = Store::open(&address, Keyring::ephemeral([7; 32]), Clock::system()).await.unwrap();
        let (north, south) =
            (store.create_workspace("север").await.unwrap(), store.create_workspace("юг").await.unwrap());
        let id = store.enqueue(north, vec![post("Пропал пёс")]).await.unwrap()[0].message_id;
        let messages = MessageBatcher::new(Arc::new(store.clone()));
        let get = async |workspace, wording: &str| messages.get(workspace, (id, 1, wording.to_owned())).await;
        let first = get(north, "a").await.unwrap().unwrap();
        assert!(get(south, "a").await.is_err(), "another workspace has no such message");
        assert!(Arc::ptr_eq(&get(north, "a").await.unwrap().unwrap(), &first), "the same is read once");
        assert!(!Arc::ptr_eq(&get(north, "b").await.unwrap().unwrap(), &first), "other words are read anew");
        messages.forget();
        assert!(
            !Arc::ptr_eq(&get(north, "a").await.unwrap().unwrap(), &first),
            "another history is read anew"
        );
    }
}
