//! Whom trouble is told: a workspace with alerts of its own hears of itself alone, the top level of the node and of the rest.

use super::*;

/// Where the workspace with alerts of its own is told.
const SHOP_OPS: &str = "-1009751000005";

/// A workspace with alerts of its own, and one without.
const MORE: &str = "
[workspaces.shop.accounts.bot]
platform = \"telegram\"
token = { env = \"TOKEN\" }
[workspaces.shop.channels.wares]
account = \"bot\"
target = -1009751000006
[workspaces.shop.channels.ops]
account = \"bot\"
target = -1009751000005
[workspaces.shop.alerts]
channel = \"ops\"
[workspaces.plain.accounts.bot]
platform = \"telegram\"
token = { env = \"TOKEN\" }
[workspaces.plain.channels.notes]
account = \"bot\"
target = -1009751000007
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn trouble_is_told_where_it_belongs_on_sqlite() {
    trouble_is_told_where_it_belongs(&mut World::sqlite().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn trouble_is_told_where_it_belongs_on_postgres() {
    World::on_postgres(trouble_is_told_where_it_belongs).await;
}

/// What was said in each of the two chats, and at the webhook of the top level, since the last look.
async fn told(w: &mut World, read: &mut usize) -> (Vec<String>, Vec<String>, usize) {
    for _ in 0..2 {
        w.watch.look().await.unwrap();
    }
    let waits = async |w: &World| {
        for workspace in w.store.workspaces().await.unwrap() {
            let lanes = w.store.lanes(workspace.workspace_id).await.unwrap();
            if lanes.iter().any(|lane| lane.counts.queued + lane.counts.retry + lane.counts.sending > 0) {
                return true;
            }
        }
        false
    };
    w.pump_until(async || !waits(w).await).await;
    let shop = w.said_in(SHOP_OPS);
    let news = shop[*read..].to_vec();
    *read = shop.len();
    let (top, heard) = w.news();
    (top, news, heard.len())
}

async fn trouble_is_told_where_it_belongs(w: &mut World) {
    apply(&w.store, &format!("{}{MORE}", w.text)).await;
    let workspaces = w.store.workspaces().await.unwrap();
    let of = |name: &str| workspaces.iter().find(|one| one.name == name).unwrap().workspace_id;
    let (shop, plain) = (of("shop"), of("plain"));
    assert_eq!(w.ws, of("default"));
    let read = &mut 0;
    let channel = async |w: &World, ws, name: &str| {
        let channels = w.store.channels(ws).await.unwrap();
        channels.into_iter().find(|channel| channel.name == name).unwrap().channel_id
    };
    assert_eq!(told(w, read).await, (Vec::new(), Vec::new(), 0));

    // Each workspace its own; one without alerts is told at the top, by its name.
    for (ws, name, at_top, words, over) in [
        (shop, "wares", false, "🔴 channel wares is shut", "✅ over: channel wares is shut"),
        (w.ws, "lost", true, "🔴 channel lost is shut", "✅ over: channel lost is shut"),
        (
            plain,
            "notes",
            true,
            "🔴 workspace plain: channel notes is shut",
            "✅ workspace plain: over: channel notes",
        ),
    ] {
        let id = channel(w, ws, name).await;
        w.store.disable_channel(ws, id, DisabledBy::Auto).await.unwrap();
        for (words, again) in [(words, false), (over, true)] {
            if again {
                w.store.resume_channel(ws, id).await.unwrap();
            }
            let (top, own, heard) = told(w, read).await;
            let (here, there) = if at_top { (&top, &own) } else { (&own, &top) };
            assert_eq!(
                (here.len(), there.len(), heard),
                (1, 0, usize::from(at_top)),
                "{name}: {top:?} {own:?}"
            );
            assert!(here[0].starts_with(words), "{name}: {words:?} is not {:?}", here[0]);
        }
    }

    // One workspace is held: that is its own matter.
    w.store.hold_workspace(shop, true).await.unwrap();
    let (top, own, _) = told(w, read).await;
    assert!(
        top.is_empty() && own.len() == 1 && own[0].contains("all sending of workspace shop is stopped"),
        "{top:?} {own:?}"
    );
    w.store.hold_workspace(shop, false).await.unwrap();
    let (top, own, _) = told(w, read).await;
    assert!(top.is_empty() && own.len() == 1 && own[0].starts_with("✅"), "{top:?} {own:?}");

    // What concerns everybody, and what this machine alone knows, is told once and at the top.
    w.store.hold_all(Some("пожар")).await.unwrap();
    let (top, own, heard) = told(w, read).await;
    assert_eq!((top.len(), own.len(), heard), (1, 0, 1), "{top:?} {own:?}");
    assert!(top[0].starts_with("🔴 all sending is stopped"), "{top:?}");
    w.store.hold_all(None).await.unwrap();
    assert_eq!(told(w, read).await.0.len(), 1);
    let slow = "the database took 3.0 s for a small question; look at its load";
    let ailment = crate::operate::facts::Ailment {
        words: slow.into(),
        only_soon: true,
        slow: true,
        ..Default::default()
    };
    w.watch.pretend = Some(ailment);
    let (top, own, heard) = told(w, read).await;
    assert_eq!((top.len(), own.len(), heard), (1, 0, 1), "{top:?} {own:?}");
    w.watch.pretend = None;
    let (top, own, heard) = told(w, read).await;
    assert_eq!((top.len(), own.len(), heard), (1, 0, 1), "{top:?} {own:?}");

    // The rows stand where they were told of, and nobody reads those of another workspace.
    let kinds = async |w: &World, ws| -> Vec<String> {
        w.store.alerts(ws, None, 10).await.unwrap().into_iter().map(|alert| alert.kind).collect()
    };
    assert_eq!(kinds(w, shop).await, ["workspace_held", "channel_shut"]);
    assert_eq!(kinds(w, plain).await, ["channel_shut"]);
    assert_eq!(kinds(w, w.ws).await, ["database_slow", "held", "channel_shut"]);
}
