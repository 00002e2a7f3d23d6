//! Wake-ups between nodes: LISTEN and NOTIFY. Losing one costs delay, never a message; polling covers the rest.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{FutureExt, StreamExt};
use tokio::sync::{Notify, OnceCell, oneshot};
use tokio::task::JoinHandle;
use tokio_postgres::AsyncMessage;

use super::connect::Pool;
use crate::wake::Bell;

/// NOTIFY takes a lock that all committing sessions share, so a node says it at most this often.
const NOTIFY_EVERY: Duration = Duration::from_millis(100);
const RECONNECT_EVERY: Duration = Duration::from_secs(1);
/// How long `listen` waits for the first connection before it leaves the caller to polling.
const FIRST_LISTEN: Duration = Duration::from_secs(5);

/// How often a listener makes sure that somebody is there.
const LISTEN_AGAIN: Duration = Duration::from_secs(15);

const TELL: &str = "SELECT pg_notify('rupor_ready', '')";
const LISTEN: &str = "LISTEN rupor_ready";

pub(super) const STATEMENTS: &[&str] = &[TELL];

/// The two background tasks of a store. They end with it.
#[derive(Debug)]
pub(super) struct Herald {
    pool: Pool,
    bell: Bell,
    news: Arc<Notify>,
    teller: JoinHandle<()>,
    listener: OnceCell<JoinHandle<()>>,
}

impl Herald {
    pub(super) fn start(pool: Pool, bell: Bell) -> Herald {
        let news = Arc::new(Notify::new());
        let teller = tokio::spawn(tell_others(pool.clone(), Arc::clone(&news)));
        Herald { pool, bell, news, teller, listener: OnceCell::new() }
    }

    /// There is news for the other nodes; many in a row become one.
    pub(super) fn tell(&self) {
        self.news.notify_one();
    }

    /// Starts listening, once, and returns when it does or when it takes too long.
    #[expect(clippy::async_yields_async, reason = "the task is kept to be aborted, not to be awaited")]
    pub(super) async fn listen(&self) {
        self.listener
            .get_or_init(|| async {
                let (ready, is_ready) = oneshot::channel();
                let task = tokio::spawn(listen(self.pool.clone(), self.bell.clone(), ready));
                let _ = tokio::time::timeout(FIRST_LISTEN, is_ready).await;
                task
            })
            .await;
    }
}

impl Drop for Herald {
    fn drop(&mut self) {
        self.teller.abort();
        if let Some(listener) = self.listener.get() {
            listener.abort();
        }
    }
}

async fn tell_others(pool: Pool, news: Arc<Notify>) {
    loop {
        news.notified().await;
        let said = tokio::time::timeout(pool.patience(), say(&pool));
        match unharmed("telling the other nodes", said).await {
            Some(Ok(())) => {}
            _ => tracing::debug!("the other nodes were not told of new work; they poll"),
        }
        tokio::time::sleep(NOTIFY_EVERY).await;
    }
}

/// `None`: it panicked. The loop goes on with its next round, or wake-ups would be late from then on and nobody knew why.
async fn unharmed<F: Future>(what: &str, step: F) -> Option<F::Output> {
    let done = AssertUnwindSafe(step).catch_unwind().await.ok();
    if done.is_none() {
        tracing::error!(what, "a loop panicked and goes on; please report what the log says above");
    }
    done
}

async fn say(pool: &Pool) {
    let Ok(mut session) = pool.session().await else {
        return;
    };
    // Who is given up waiting for takes the connection along.
    session.begin();
    if session.client().batch_execute(TELL).await.is_ok() {
        session.end();
    }
}

async fn listen(pool: Pool, bell: Bell, ready: oneshot::Sender<()>) {
    let mut ready = Some(ready);
    loop {
        unharmed("listening to the other nodes", listen_once(&pool, &bell, &mut ready)).await;
        // Whatever was said while nobody listened may have been for us.
        bell.ring();
        tokio::time::sleep(RECONNECT_EVERY).await;
    }
}

/// Returns when the connection is gone.
async fn listen_once(pool: &Pool, bell: &Bell, ready: &mut Option<oneshot::Sender<()>>) {
    let Ok((client, mut connection)) = pool.listener().await else {
        return;
    };
    let mut messages = futures_util::stream::poll_fn(move |cx| connection.poll_message(cx));
    let mut heard = false;
    loop {
        // Saying it again changes nothing, and shows whether anybody is there: a listener that hears nothing for long
        // cannot tell a quiet server from one that is gone.
        let listening = tokio::time::timeout(pool.patience(), client.batch_execute(LISTEN));
        tokio::pin!(listening);
        let mut asked = true;
        let next = tokio::time::sleep(LISTEN_AGAIN);
        tokio::pin!(next);
        loop {
            tokio::select! {
                result = &mut listening, if asked => {
                    if !matches!(result, Ok(Ok(()))) {
                        return;
                    }
                    asked = false;
                    if !heard {
                        heard = true;
                        if let Some(ready) = ready.take() {
                            let _ = ready.send(());
                        }
                    }
                }
                message = messages.next() => match message {
                    Some(Ok(AsyncMessage::Notification(_))) => bell.ring(),
                    Some(Ok(_)) => {}
                    Some(Err(_)) | None => return,
                },
                () = &mut next, if !asked => break,
            }
        }
    }
}
