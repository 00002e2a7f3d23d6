//! The way to the running node: a private socket beside the SQLite file, one JSON line there, one back.
//!
//! Who may open it is decided by the file system: the socket has mode 0600. A verb may carry tokens, so nothing of
//! what crosses is logged.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use store::address::SqlitePath;
use store::{Actor, Address, Store};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;

use engine::upkeep::{kept_up, planted};

use super::verb::{Verb, perform};
use super::who;

/// Bytes of one verb or answer; a large configuration has a few hundred kilobytes.
const LINE_BYTES_MAX: u64 = 4 << 20;
/// Visitors who have not yet said what they want. One more, and the one who has been silent longest goes.
const SILENT_MAX: usize = 32;
/// Verbs that are performed at the same time; the next ones wait their turn.
const VERBS_MAX: usize = 8;
/// How long a visitor may take to say what they want.
const READ_MAX: Duration = Duration::from_secs(10);
/// How long a visitor may take to hear the answer.
const WRITE_MAX: Duration = Duration::from_secs(10);
/// How long the node may take to do it.
const ANSWER_MAX: Duration = Duration::from_secs(120);

#[derive(Debug, Serialize, Deserialize)]
struct Answer {
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// What crosses: a change, and why somebody wants it. Who they are the node asks the system.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Order<V> {
    order: V,
    #[serde(default)]
    reason: Option<String>,
}

/// Where the node of a database listens; `None`: every process can change it itself.
pub(crate) fn socket_path(address: &Address) -> Option<PathBuf> {
    match address {
        Address::Sqlite(SqlitePath::File(file)) => {
            let mut name = file.clone().into_os_string();
            name.push(".sock");
            Some(PathBuf::from(name))
        }
        _ => None,
    }
}

/// Takes verbs until it is dropped.
#[derive(Debug)]
pub(crate) struct Serving {
    path: PathBuf,
    task: JoinHandle<()>,
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.task.abort();
        drop(std::fs::remove_file(&self.path));
    }
}

/// Starts taking verbs. The caller holds the lock of the database, so a socket that is there is left over.
pub(crate) fn serve(store: Store, path: &Path) -> anyhow::Result<Serving> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("socket {}: cannot be renewed", path.display()));
        }
        _ => {}
    }
    let listener = UnixListener::bind(path).with_context(|| {
        format!(
            "socket {}: cannot be opened; is the folder writable, and the path below 100 bytes?",
            path.display()
        )
    })?;
    let private = <std::fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o600);
    std::fs::set_permissions(path, private)
        .with_context(|| format!("socket {}: cannot be made private", path.display()))?;
    let task = tokio::spawn(async move {
        let room = Room::default();
        kept_up("control socket", || receive(&listener, &store, &room)).await;
    });
    Ok(Serving { path: path.to_owned(), task })
}

/// Who is being served; they stay when the loop that lets them in starts again.
#[derive(Debug)]
struct Room {
    verbs: Arc<Semaphore>,
    visitors: Mutex<JoinSet<()>>,
}

impl Default for Room {
    fn default() -> Room {
        Room { verbs: Arc::new(Semaphore::new(VERBS_MAX)), visitors: Mutex::default() }
    }
}

impl Room {
    fn visitors(&self) -> MutexGuard<'_, JoinSet<()>> {
        self.visitors.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Everybody is let in at once and heard in a task of their own, so that nobody's silence is anybody's wait.
async fn receive(listener: &UnixListener, store: &Store, room: &Room) {
    let mut silent = VecDeque::new();
    loop {
        while room.visitors().try_join_next().is_some() {}
        match listener.accept().await {
            Ok((stream, _)) => {
                let patience = Patience::default();
                silent.retain(Patience::is_waiting);
                if silent.len() >= SILENT_MAX
                    && let Some(longest) = silent.pop_front()
                {
                    longest.end();
                }
                silent.push_back(patience.clone());
                let (store, verbs) = (store.clone(), Arc::clone(&room.verbs));
                room.visitors().spawn(async move {
                    let visit = planted::or_panic("visitor", "", visit(stream, &store, &patience, &verbs));
                    if let Err(error) = visit.await {
                        tracing::debug!(error = format!("{error:#}"), "an operator's connection broke off");
                    }
                });
            }
            Err(error) => {
                // Out of descriptors, most likely: others need a moment to give some back.
                tracing::warn!(%error, "an operator's connection could not be taken");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// How long the node goes on listening to one visitor: until they have spoken, or it needs the place.
#[derive(Debug, Clone, Default)]
struct Patience(Arc<tokio::sync::Notify>, Arc<AtomicBool>);

impl Patience {
    fn is_waiting(&self) -> bool {
        !self.1.load(Ordering::Relaxed)
    }

    fn end(&self) {
        self.0.notify_one();
    }

    /// The line, if it comes in time; an empty one from somebody who only looked whether the node is there.
    async fn hear(&self, reader: &mut (impl AsyncBufReadExt + Unpin)) -> anyhow::Result<String> {
        let mut line = String::new();
        let heard = tokio::select! {
            read = timeout(READ_MAX, reader.read_line(&mut line)) => read.context("nothing was said"),
            () = self.0.notified() => Err(anyhow::anyhow!("the node was asked too many things at once; run it again")),
        };
        self.1.store(true, Ordering::Relaxed);
        heard??;
        Ok(line)
    }
}

async fn visit(
    mut stream: UnixStream,
    store: &Store,
    patience: &Patience,
    verbs: &Semaphore,
) -> anyhow::Result<()> {
    let credentials = who::visitor(&stream, None);
    let visitor = |reason: Option<String>| Actor { reason, ..credentials };
    let (reader, mut writer) = stream.split();
    let line = patience.hear(&mut BufReader::new(reader.take(LINE_BYTES_MAX))).await?;
    if line.is_empty() {
        return Ok(());
    }
    let result = {
        let _turn = verbs.acquire().await?;
        match serde_json::from_str::<Order<Verb>>(&line) {
            Ok(Order { order, reason }) => perform(&store.by(visitor(reason)), order).await,
            Err(error) => Err(anyhow::anyhow!(
                "the node does not understand this command: {error}; is it of the same version?"
            )),
        }
    };
    let answer = match result {
        Ok(value) => Answer { value: Some(value), error: None },
        Err(error) => Answer { value: None, error: Some(format!("{error:#}")) },
    };
    let mut text = serde_json::to_string(&answer)?;
    text.push('\n');
    timeout(WRITE_MAX, writer.write_all(text.as_bytes())).await??;
    Ok(writer.shutdown().await?)
}

/// Whether a node listens there.
pub(crate) async fn is_served(path: &Path) -> bool {
    UnixStream::connect(path).await.is_ok()
}

/// Sends a verb to the node; `None`: no node listens.
pub(crate) async fn send(path: &Path, verb: &Verb, reason: Option<&str>) -> anyhow::Result<Option<Value>> {
    use std::io::ErrorKind;
    let mut stream = match UnixStream::connect(path).await {
        Ok(stream) => stream,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => {
            return Ok(None);
        }
        Err(error) => {
            return Err(error).with_context(|| {
                format!(
                    "socket {}: cannot be reached; run this as the user that runs the node",
                    path.display()
                )
            });
        }
    };
    let order = Order { order: verb, reason: reason.map(str::to_owned) };
    let mut text = serde_json::to_string(&order)?;
    text.push('\n');
    stream.write_all(text.as_bytes()).await.context("the node went away")?;
    let mut line = String::new();
    let mut reader = BufReader::new(stream.take(LINE_BYTES_MAX));
    match timeout(ANSWER_MAX, reader.read_line(&mut line)).await {
        Ok(read) => read.context("the node went away")?,
        Err(_) => bail!("the node did not answer in {} s; look at its log", ANSWER_MAX.as_secs()),
    };
    let answer: Answer = serde_json::from_str(&line)
        .context("the node went away before it answered; look with `rupor status` whether it was done")?;
    match answer {
        Answer { error: Some(error), .. } => bail!(error),
        Answer { value, .. } => Ok(Some(value.unwrap_or_default())),
    }
}
