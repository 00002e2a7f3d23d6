//! One thread owns the only read-write connection; callers send it jobs and wait for the answer.
//!
//! Natural group commit: everything that waits (bounded) goes into one transaction, a savepoint per job so that
//! one failure does not undo its neighbours, then one COMMIT, then all answers. No timer: while one commit is on
//! the disk, the next batch gathers.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use rusqlite::Connection;
use tokio::sync::oneshot;

use super::connect::failure;
use super::place::Place;
use crate::address::SqlitePath;
use crate::error::{Result, StoreError};

/// Jobs of one transaction. Bounded, so that an answer never waits for an endless batch.
const BATCH_MAX: usize = 64;
/// Jobs that may wait. Callers beyond that are told to come back.
const WAITING_MAX: usize = 4_096;

/// What goes first when several wait: an outcome that is not written down may be sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Urgency {
    Outcome,
    Claim,
    Enqueue,
    Maintenance,
}

const URGENCIES: usize = 4;

/// Runs inside its savepoint, or hears why it cannot.
type Job = Box<dyn FnOnce(Result<&Connection>) -> Work + Send>;

/// A job that has run: whether to keep what it did, and whom to tell after the commit.
struct Work {
    keep: bool,
    answer: Box<dyn FnOnce(Result<()>) + Send>,
}

#[derive(Clone)]
pub(super) struct Writer {
    runner: Runner,
    path: SqlitePath,
}

/// Who runs a job.
#[derive(Clone)]
enum Runner {
    /// The writer thread, which ends when the last handle is gone.
    Thread { shared: Arc<Shared>, _open: Arc<Open> },
    /// The caller, at once: nothing depends on how threads are scheduled, which a simulation needs.
    Inline(Arc<Mutex<Connection>>),
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    filled: Condvar,
}

#[derive(Default)]
struct Queue {
    waiting: [VecDeque<Job>; URGENCIES],
    closed: bool,
}

struct Open(Arc<Shared>);

impl Drop for Open {
    fn drop(&mut self) {
        lock(&self.0).closed = true;
        self.0.filled.notify_all();
    }
}

impl Writer {
    /// `keep` lives as long as the thread: the file lock must outlast the last write.
    pub(super) fn start(
        connection: Connection,
        path: SqlitePath,
        place: Place,
        keep: impl Send + 'static,
    ) -> Result<Writer> {
        let shared = Arc::new(Shared::default());
        let open = Arc::new(Open(Arc::clone(&shared)));
        let writer = Writer {
            runner: Runner::Thread { shared: Arc::clone(&shared), _open: open },
            path: path.clone(),
        };
        std::thread::Builder::new()
            .name("sqlite-writer".into())
            .spawn(move || {
                while let Some(batch) = next_batch(&shared) {
                    let written = catch_unwind(AssertUnwindSafe(|| match place.check() {
                        Ok(()) => write(&connection, &path, batch),
                        Err(gone) => refuse(batch, &gone),
                    }));
                    if written.is_err() {
                        recover(&connection, &path);
                    }
                }
                drop((connection, keep));
            })
            .map_err(|error| StoreError::Database(format!("the writer thread cannot start: {error}")))?;
        Ok(writer)
    }

    pub(super) fn inline(connection: Connection, path: SqlitePath) -> Writer {
        Writer { runner: Runner::Inline(Arc::new(Mutex::new(connection))), path }
    }

    /// Runs `job` in a transaction of its own or shared with others; the answer comes after the commit.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        urgency: Urgency,
        job: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (answer, answered) = oneshot::channel();
        let job: Job = Box::new(move |connection| {
            let result = connection.and_then(job);
            let keep = result.is_ok();
            // A caller that has gone away does not want to know.
            let tell = move |committed: Result<()>| {
                let _ = answer.send(result.and_then(|value| committed.map(|()| value)));
            };
            Work { keep, answer: Box::new(tell) }
        });
        self.push(urgency, job)?;
        answered
            .await
            .unwrap_or_else(|_| Err(StoreError::Database("a write was given up; see the log".into())))
    }

    fn push(&self, urgency: Urgency, job: Job) -> Result<()> {
        let shared = match &self.runner {
            Runner::Thread { shared, .. } => shared,
            Runner::Inline(connection) => {
                let connection = connection.lock().unwrap_or_else(PoisonError::into_inner);
                write(&connection, &self.path, vec![job]);
                return Ok(());
            }
        };
        let mut queue = lock(shared);
        if queue.waiting.iter().map(VecDeque::len).sum::<usize>() >= WAITING_MAX {
            let problem = format!("{WAITING_MAX} writes are waiting; try again in a moment");
            return Err(StoreError::Busy { address: self.path.to_string(), problem });
        }
        queue.waiting[urgency as usize].push_back(job);
        shared.filled.notify_one();
        Ok(())
    }
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer").field("path", &self.path).finish_non_exhaustive()
    }
}

/// Waits for jobs and takes what is there, the most urgent first, each kind at most half of the batch.
fn next_batch(shared: &Shared) -> Option<Vec<Job>> {
    let mut queue = lock(shared);
    while queue.waiting.iter().all(VecDeque::is_empty) {
        if queue.closed {
            return None;
        }
        queue = shared.filled.wait(queue).unwrap_or_else(PoisonError::into_inner);
    }
    let mut batch = Vec::new();
    for kind in &mut queue.waiting {
        let share = (BATCH_MAX - batch.len()).min(BATCH_MAX / 2).min(kind.len());
        batch.extend(kind.drain(..share));
    }
    Some(batch)
}

/// What would be written to a file without a name is lost with this process: nobody is told that it was taken.
fn refuse(batch: Vec<Job>, why: &StoreError) {
    for job in batch {
        (job(Err(why.clone())).answer)(Err(why.clone()));
    }
}

fn write(connection: &Connection, path: &SqlitePath, batch: Vec<Job>) {
    let mut works = Vec::with_capacity(batch.len());
    let result = transaction(connection, path, batch, &mut works);
    if result.is_err() && !connection.is_autocommit() {
        // Best effort: the error that matters is the one being told.
        let _ = connection.execute_batch("ROLLBACK");
    }
    for work in works {
        // What is on the disk is told to the others, whatever becomes of one answer.
        if catch_unwind(AssertUnwindSafe(|| (work.answer)(result.clone()))).is_err() {
            tracing::error!(database = %path, "an answer of the writer panicked");
        }
    }
}

/// A thread that ended here would leave every caller waiting for ever; those of this batch hear that it was given up.
fn recover(connection: &Connection, path: &SqlitePath) {
    tracing::error!(database = %path, "the writer panicked and goes on; please report what the log says above");
    if !connection.is_autocommit() {
        // If even that fails the next BEGIN says why.
        let _ = connection.execute_batch("ROLLBACK");
    }
}

fn transaction(
    connection: &Connection,
    path: &SqlitePath,
    batch: Vec<Job>,
    works: &mut Vec<Work>,
) -> Result<()> {
    let sql = |text: &str| connection.execute_batch(text).map_err(|error| failure(path, error));
    let mut state = sql("BEGIN IMMEDIATE");
    let alone = batch.len() == 1;
    for job in batch {
        match &state {
            // Inside a savepoint every page is copied before it is changed; who is alone undoes the transaction.
            Ok(()) if alone => {
                if !run(connection, path, job, works)? {
                    return sql("ROLLBACK");
                }
            }
            Ok(()) => state = savepoint(connection, path, job, works),
            Err(error) => works.push(job(Err(error.clone()))),
        }
    }
    state?;
    sql("COMMIT")
}

/// Runs one job and tells whether to keep what it did. A panic inside keeps nothing.
fn run(connection: &Connection, path: &SqlitePath, job: Job, works: &mut Vec<Work>) -> Result<bool> {
    let work = catch_unwind(AssertUnwindSafe(|| job(Ok(connection))));
    let keep = work.as_ref().is_ok_and(|work| work.keep);
    if let Ok(work) = work {
        works.push(work);
    } else {
        tracing::error!(database = %path, "a write panicked and was undone");
    }
    if connection.is_autocommit() {
        // SQLite itself rolls the whole transaction back when the disk is full or broken. The job that met it says what it
        // was; the others only know that they were undone.
        let problem = "the disk did not take a write beside this one, and both were undone".into();
        return Err(StoreError::Busy { address: path.to_string(), problem });
    }
    Ok(keep)
}

/// One job between its savepoints.
fn savepoint(connection: &Connection, path: &SqlitePath, job: Job, works: &mut Vec<Work>) -> Result<()> {
    let sql = |text: &str| {
        let mut statement = connection.prepare_cached(text).map_err(|error| failure(path, error))?;
        statement.execute([]).map(drop).map_err(|error| failure(path, error))
    };
    sql("SAVEPOINT job")?;
    let keep = run(connection, path, job, works)?;
    if !keep {
        sql("ROLLBACK TO job")?;
    }
    sql("RELEASE job")
}

fn lock(shared: &Shared) -> MutexGuard<'_, Queue> {
    shared.queue.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn writer() -> Writer {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch("CREATE TABLE t (n INTEGER)").unwrap();
        let place = Place::of(&SqlitePath::Memory);
        Writer::start(connection, SqlitePath::Memory, place, ()).unwrap()
    }

    async fn insert(writer: &Writer, n: i64) -> Result<usize> {
        let done = writer.run(Urgency::Enqueue, move |connection| {
            connection
                .execute("INSERT INTO t VALUES (?1)", [n])
                .map_err(|error| failure(&SqlitePath::Memory, error))
        });
        tokio::time::timeout(std::time::Duration::from_secs(20), done).await.expect("the writer is silent")
    }

    #[tokio::test]
    async fn a_write_that_panics_is_undone_and_the_next_ones_are_written() {
        let writer = writer();
        let broken = writer.run(Urgency::Enqueue, |connection| -> Result<()> {
            connection.execute("INSERT INTO t VALUES (1)", []).unwrap();
            panic!("planted");
        });
        assert!(broken.await.unwrap_err().to_string().contains("given up"));
        assert_eq!(insert(&writer, 2).await.unwrap(), 1);
        let kept = writer.run(Urgency::Enqueue, |connection| {
            let sum = connection.query_row("SELECT sum(n) FROM t", [], |row| row.get::<_, i64>(0));
            sum.map_err(|error| failure(&SqlitePath::Memory, error))
        });
        assert_eq!(kept.await.unwrap(), 2);
    }

    /// What a job gives back to a caller who has gone is dropped by the writer itself, outside of every job.
    struct Bomb;

    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("planted");
        }
    }

    #[tokio::test]
    async fn a_panic_in_the_writer_itself_does_not_leave_everybody_waiting() {
        let writer = writer();
        for n in 0..3 {
            let (go, gone) = std::sync::mpsc::channel::<()>();
            let job = writer.run(Urgency::Enqueue, move |_| {
                let _ = gone.recv();
                Ok(Bomb)
            });
            // Handed in, then given up, before it has run.
            tokio::select! {
                biased;
                _ = job => unreachable!("it waits for us"),
                () = std::future::ready(()) => {}
            }
            drop(go);
            assert_eq!(insert(&writer, n).await.unwrap(), 1);
        }
    }
}
