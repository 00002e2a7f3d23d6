//! A node that told of its own trouble and then died: it cannot say that the trouble is over.

use super::*;
use crate::operate::facts::{Ailment, a_node_signs};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_node_is_told_as_gone_until_another_one_works_on_sqlite() {
    a_dead_node_is_told_as_gone_until_another_one_works(&mut World::sqlite().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_node_is_told_as_gone_until_another_one_works_on_postgres() {
    World::on_postgres(a_dead_node_is_told_as_gone_until_another_one_works).await;
}

async fn a_dead_node_is_told_as_gone_until_another_one_works(w: &mut World) {
    let words = json!({"headline": "sending stands still", "cause": "nothing was claimed", "next": "", "help": ["see the log"]});
    let told = NewAlert {
        key: "standstill@сосед".into(),
        kind: "standstill".into(),
        severity: Severity::Act,
        words,
        told: true,
    };
    w.store.watch(w.ws, vec![told], "сосед", Span::ZERO).await.unwrap();
    let says = async |w: &World| Ailment::told_by_nodes(&w.store).await.unwrap();
    let ailment = says(w).await.unwrap();
    assert!(ailment.stands_still, "{ailment:?}");
    assert_eq!(ailment.words, "node сосед: nothing was claimed; see the log");

    // While nobody works, `rupor status --check` goes on saying it, in words that say more.
    w.advance(30).await;
    let ailment = says(w).await.unwrap();
    assert!(ailment.stands_still && ailment.words.contains("nothing for 30 min"), "{ailment:?}");

    // Another node works: the trouble of the dead one is over, and that is told once.
    let (chat, heard) = w.look().await;
    assert_eq!((chat.len(), heard.len()), (1, 1), "{chat:?} {heard:?}");
    assert!(chat[0].starts_with("✅ over: sending stands still (it lasted"), "{chat:?}");
    assert_eq!(
        (&heard[0]["type"], &heard[0]["data"]["key"]),
        (&json!("alert.cleared"), &json!("standstill@сосед"))
    );
    assert_eq!(says(w).await, None);
    w.agree("standstill", false).await;
    assert_eq!(w.look().await, (Vec::new(), Vec::new()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_signs_no_more_is_gone_on_postgres() {
    World::on_postgres(async |w| {
        assert_eq!(a_node_signs(&w.store).await, None, "nobody ever sent here");
        let history = w.store.history().await.unwrap();
        assert!(w.store.sign_on("узел", &history).await.unwrap());
        assert_eq!(a_node_signs(&w.store).await, Some(true));
        w.advance(2).await;
        let node = a_node_signs(&w.store).await;
        assert_eq!(node, Some(false));
        let facts = gather(&w.store, "default", node).await.unwrap();
        let told = troubles(&facts).into_iter().find(|trouble| trouble.kind == "no_node").unwrap();
        assert!(told.weight.severity().is_some(), "`rupor status --check` ends with 1: {told:?}");
        assert!(w.store.sign_on("сосед", &history).await.unwrap());
        assert_eq!(a_node_signs(&w.store).await, Some(true), "another one works");
        w.store.sign_off("сосед").await.unwrap();
        w.store.sign_off("узел").await.unwrap();
        assert_eq!(a_node_signs(&w.store).await, None, "stopped in good order");
    })
    .await;
}
