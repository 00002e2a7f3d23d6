//! Looks after the database of a node: asks it every second, and says when it falls ill and when it is well again.
//!
//! What it finds is kept by the store (`Store::health`), which also hears of every other call; `/readyz`, `rupor status`
//! and the log all speak from there. Asking and saying are apart, so that a question which nobody answers is told too.

use std::time::Duration;

use store::{Health, Illness, Store};
use tokio::sync::watch;
use tokio::time::Instant;

/// Between two questions, and between two looks at what is known.
const ASK_EVERY: Duration = Duration::from_secs(1);
/// One question in so many is a write.
const WRITE_EVERY: u64 = 5;
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Free space changes slowly.
const SPACE_EVERY: Duration = Duration::from_secs(10);
/// A look through the whole file, for damage that nothing has met yet.
const DAMAGE_EVERY: Duration = Duration::from_secs(6 * 3_600);

/// Runs until told to stop.
pub async fn run(store: Store, mut stop: watch::Receiver<bool>) {
    let (asking, saying) = (ask(&store), say(&store));
    let (space, damage) = (watch_space(&store), look_for_damage(&store));
    tokio::select! {
        _ = stop.wait_for(|stop| *stop) => {}
        () = asking => {}
        () = saying => {}
        () = space => {}
        () = damage => {}
    }
}

/// Mostly questions; now and then a write, because a database that answers may still take nothing. One that is ill has
/// to take a write before it counts as well.
async fn ask(store: &Store) {
    for n in 0_u64.. {
        let _ = match store.health() {
            Health::Good | Health::Unknown if !n.is_multiple_of(WRITE_EVERY) => store.look().await,
            _ => store.probe().await,
        };
        tokio::time::sleep(ASK_EVERY).await;
    }
}

async fn say(store: &Store) {
    let mut ill: Option<(String, Instant)> = None;
    loop {
        match (store.health(), &ill) {
            (Health::Ill(Illness { words, lasts, .. }), None) => {
                tracing::error!(
                    why = words,
                    "the database is in trouble; nothing is lost, and sending waits"
                );
                ill = Some((words, Instant::now() - lasts));
            }
            (Health::Ill(Illness { words, .. }), Some((said, since))) if !is_same(&words, said) => {
                tracing::error!(why = words, "the database is still in trouble");
                ill = Some((words, *since));
            }
            (Health::Good, Some((_, since))) => {
                tracing::info!(
                    seconds = since.elapsed().as_secs(),
                    "the database is well again; sending goes on"
                );
                ill = None;
            }
            _ => {}
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Figures in the words change all the time; that is no news.
fn is_same(one: &str, other: &str) -> bool {
    let letters = |text: &str| text.chars().filter(|c| !c.is_ascii_digit()).collect::<String>();
    letters(one) == letters(other)
}

async fn watch_space(store: &Store) {
    let mut low = false;
    loop {
        match store.watch_space().await {
            Ok(Some(words)) if !low => {
                low = true;
                tracing::error!(why = words, "the disk is nearly full");
            }
            Ok(None) if low => {
                low = false;
                tracing::info!("there is space on the disk again");
            }
            Ok(_) => {}
            Err(error) => tracing::debug!(%error, "the free space could not be looked at"),
        }
        tokio::time::sleep(SPACE_EVERY).await;
    }
}

/// The first look is at the start, before anything is sent.
async fn look_for_damage(store: &Store) {
    loop {
        tokio::time::sleep(DAMAGE_EVERY).await;
        if let Err(error) = store.look_for_damage().await {
            tracing::error!(%error, "the database was looked through");
            if let store::StoreError::Corrupt { .. } = error
                && let Err(error) = store.hold_all(Some(&error.to_string())).await
            {
                tracing::error!(%error, "sending could not be held");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_other_words_are_news() {
        assert!(is_same("not answered for 7 s", "not answered for 12 s"));
        assert!(!is_same("not answered for 7 s", "no space left"));
    }
}
