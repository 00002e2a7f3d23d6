//! Looks after the database of a node: asks it every second, and says when it falls ill and when it is well again.
//!
//! What it finds is kept by the store (`Store::health`), which also hears of every other call; `/readyz`, `rupor status`
//! and the log all speak from there. Asking and saying are apart, so that a question which nobody answers is told too.

use std::time::Duration;

use serde_json::json;
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
            Ok(little) => low = tell_space(store, low, little).await,
            Err(error) => tracing::debug!(%error, "the free space could not be looked at"),
        }
        tokio::time::sleep(SPACE_EVERY).await;
    }
}

/// Says once that space gets low, while there is still some to write it down, and once that it is over.
/// Returns whether it was said. All workspaces are on the one disk, so all of them hear of it.
async fn tell_space(store: &Store, low: bool, little: Option<String>) -> bool {
    match little {
        Some(words) if !low => {
            tracing::error!(why = words, "the disk is nearly full");
            let alert = async {
                for workspace in store.workspaces().await? {
                    store.alert(workspace.workspace_id, json!({"text": words, "why": "space"})).await?;
                }
                store::Result::Ok(())
            };
            let told = alert.await;
            if let Err(error) = &told {
                tracing::warn!(%error, "that could not be written down; the next look tries again");
            }
            told.is_ok()
        }
        None if low => {
            tracing::info!("there is space on the disk again");
            false
        }
        little => little.is_some(),
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

    #[tokio::test]
    async fn a_disk_that_gets_full_is_an_alert_in_every_workspace_once() {
        let address = store::Address::parse("sqlite::memory:").unwrap();
        let key = store::Keyring::ephemeral([7; 32]);
        let store = Store::open(&address, key, store::Clock::system()).await.unwrap();
        let workspaces =
            [store.create_workspace("Приют").await.unwrap(), store.create_workspace("Лавка").await.unwrap()];
        let alerts = async || {
            let mut alerts = Vec::new();
            for workspace in workspaces {
                let events = store.events(workspace, 0, 100).await.unwrap();
                alerts.push(events.into_iter().filter(|event| event.name == "alert").collect::<Vec<_>>());
            }
            alerts
        };
        let mut low = false;
        for little in [None, Some("200 MiB are left"), Some("90 MiB are left")] {
            low = tell_space(&store, low, little.map(str::to_owned)).await;
        }
        for told in alerts().await {
            assert_eq!(told.len(), 1, "{told:?}");
            assert_eq!(told[0].detail, json!({"text": "200 MiB are left", "why": "space"}));
        }
        low = tell_space(&store, low, None).await;
        tell_space(&store, low, Some("9 MiB are left".into())).await;
        assert!(alerts().await.iter().all(|told| told.len() == 2), "a second time is told again");
    }

    #[test]
    fn only_other_words_are_news() {
        assert!(is_same("not answered for 7 s", "not answered for 12 s"));
        assert!(!is_same("not answered for 7 s", "no space left"));
    }
}
