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

/// A message as it was worded at one time.
pub type Revision = (MessageId, i32);
/// The message, or why it cannot be read.
type Read = Result<Arc<Message>, String>;
type Answer = Result<Read, StoreError>;

#[derive(Debug)]
pub struct Messages {
    ledger: Arc<dyn Ledger>,
    kept: Mutex<VecDeque<(Revision, Arc<Message>)>>,
    desks: Mutex<HashMap<WorkspaceId, Arc<Desk>>>,
}

/// Those of one workspace who wait for a message.
#[derive(Debug, Default)]
struct Desk {
    /// Held while a reading is under way.
    open: tokio::sync::Mutex<()>,
    queue: Mutex<VecDeque<(Revision, oneshot::Sender<Answer>)>>,
}

impl Messages {
    pub fn new(ledger: Arc<dyn Ledger>) -> Messages {
        Messages { ledger, kept: Mutex::default(), desks: Mutex::default() }
    }

    pub async fn get(&self, workspace: WorkspaceId, wanted: Revision) -> Answer {
        if let Some(message) = self.kept(wanted) {
            return Ok(Ok(message));
        }
        let desk = Arc::clone(lock(&self.desks).entry(workspace).or_default());
        let (answer, mut answered) = oneshot::channel();
        lock(&desk.queue).push_back((wanted, answer));
        let _open = desk.open.lock().await;
        // Whoever read before may have brought ours along.
        if let Ok(answer) = answered.try_recv() {
            return answer;
        }
        let waiting: Vec<_> = {
            let mut queue = lock(&desk.queue);
            let n = queue.len().min(READ_MAX);
            queue.drain(..n).collect()
        };
        self.read(workspace, waiting).await;
        answered.try_recv().unwrap_or_else(|_| Err(StoreError::Database("a message was not read".into())))
    }

    async fn read(&self, workspace: WorkspaceId, waiting: Vec<(Revision, oneshot::Sender<Answer>)>) {
        let mut ids: Vec<MessageId> = waiting.iter().map(|((id, _), _)| *id).collect();
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
        let unreadable = |error| format!("the message cannot be read: {error}");
        let messages: BTreeMap<MessageId, Read> = found
            .into_iter()
            .map(|(id, payload)| (id, serde_json::from_value(payload).map(Arc::new).map_err(unreadable)))
            .collect();
        for ((id, revision), answer) in waiting {
            let read = match messages.get(&id) {
                Some(read) => Ok(read.clone()),
                None => Err(StoreError::not_found("message", id)),
            };
            if let Ok(Ok(message)) = &read {
                self.keep((id, revision), Arc::clone(message));
            }
            // Who has given up meanwhile does not want to know.
            let _ = answer.send(read);
        }
    }

    fn kept(&self, wanted: Revision) -> Option<Arc<Message>> {
        let kept = lock(&self.kept);
        kept.iter().find(|(known, _)| *known == wanted).map(|(_, message)| Arc::clone(message))
    }

    fn keep(&self, key: Revision, message: Arc<Message>) {
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
