//! What one source can do to the others, and to a stop: nothing.

use super::*;

/// A peer that takes every call and never answers.
async fn silent_peer() -> (String, tokio::task::JoinHandle<()>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    let held = tokio::spawn(async move {
        let mut calls = Vec::new();
        while let Ok((call, _)) = listener.accept().await {
            calls.push(call);
        }
    });
    (origin, held)
}

/// The guard refuses loopback unless an account lives there.
fn admitting(origin: &str) -> Network {
    let network = Network::default();
    admit(&network, origin);
    network
}

async fn until(mut is_so: impl AsyncFnMut() -> bool) {
    while !is_so().await {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn eight_slow_feeds_starve_nobody_and_do_not_hold_up_a_stop() {
    let w = World::new().await;
    let (origin, _held) = silent_peer().await;
    for n in 0..8 {
        w.source("feed", &format!("{origin}/{n}")).await;
    }
    let wall = w.source("vk", "-101").await;
    w.put(-101, json!([{"id": 1, "date": now_s() - 60, "text": LOST}]));
    let (stop, stopped) = watch::channel(false);
    let node = tokio::spawn(run(w.store.clone(), admitting(&origin), w.settings.clone(), stopped));
    until(async || w.row(wall).await.next_poll_at > w.store.now().await.unwrap()).await;
    until(async || w.store.runs(w.ws, None, 100).await.unwrap().len() == 9).await;
    assert_eq!(w.queued().await, 1);
    stop.send(true).unwrap();
    // A hanging feed would hold it for a minute.
    tokio::time::timeout(Duration::from_secs(20), node).await.expect("the stop waits for nobody").unwrap();
    let due = w.store.due_sources("другой", Seats::any(100), LEASE).await.unwrap();
    assert_eq!(due.len(), 8, "what was broken off is let go and read again");
    assert!(due.iter().all(|source| source.last_error.is_none()), "{due:?}");
    let runs = w.store.runs(w.ws, None, 100).await.unwrap();
    assert!(runs.iter().all(|run| run.finished_at.is_some()), "{runs:?}");
}

#[tokio::test]
async fn a_panic_in_one_source_ends_that_poll_alone_and_is_reported() {
    let w = World::new().await;
    let broken = w.source("broken", "-1").await;
    let wall = w.source("vk", "-101").await;
    let (stop, stopped) = watch::channel(false);
    let node = tokio::spawn(run(w.store.clone(), Network::default(), w.settings.clone(), stopped));
    let now = w.store.now().await.unwrap();
    for id in [broken, wall] {
        until(async || w.row(id).await.next_poll_at > now).await;
    }
    assert!(!node.is_finished(), "the others go on");
    stop.send(true).unwrap();
    node.await.unwrap();
    let why = w.row(broken).await.last_error.unwrap();
    assert!(why.contains("index out of bounds") && why.contains("report"), "{why}");
    assert_eq!(w.row(wall).await.last_error, None);
    let runs = w.store.runs(w.ws, None, 10).await.unwrap();
    assert!(runs.iter().all(|run| run.finished_at.is_some()), "{runs:?}");
}

#[tokio::test]
async fn a_source_that_never_answers_meets_its_deadline_and_says_so() {
    let mut w = World::new().await;
    w.settings.deadline = Duration::from_millis(30);
    let (origin, _held) = silent_peer().await;
    let id = w.source("feed", &origin).await;
    let source = w.store.due_sources("узел", Seats::any(1), LEASE).await.unwrap().remove(0);
    let (store, settings) = (w.store.clone(), w.settings.clone());
    let node = Arc::new(Node { store, network: admitting(&origin), settings });
    poll_leased(&node, source, watch::channel(false).1).await;
    let row = w.row(id).await;
    assert!(row.last_error.unwrap().contains("broken off"));
    assert!(row.next_poll_at > w.store.now().await.unwrap(), "and waits its turn");
}

#[tokio::test]
async fn absurd_settings_of_a_source_end_no_loop() {
    let w = World::new().await;
    let settings = json!({"poll_seconds": i64::MAX, "horizon_hours": i64::MAX});
    let (kind, name, address) = ("vk".to_owned(), "стена".to_owned(), "-101".to_owned());
    let new = NewSource { kind, name, address, account_id: Some(w.vk), settings };
    let id = w.store.create_source(w.ws, new).await.unwrap();
    w.put(-101, json!([{"id": 1, "date": now_s() - 60, "text": LOST}]));
    let source = w.store.due_sources("узел", Seats::any(1), LEASE).await.unwrap().remove(0);
    w.poll_leased(source).await;
    assert_eq!((w.row(id).await.last_error, w.queued().await), (None, 1));
}

#[tokio::test]
async fn a_lease_lives_as_long_as_its_poll() {
    let mut w = World::new().await;
    w.settings.lease = Span::from_secs(1);
    let (origin, _held) = silent_peer().await;
    w.source("feed", &origin).await;
    let (stop, stopped) = watch::channel(false);
    let node = tokio::spawn(run(w.store.clone(), admitting(&origin), w.settings.clone(), stopped));
    until(async || !w.store.runs(w.ws, None, 10).await.unwrap().is_empty()).await;
    let first = w.store.now().await.unwrap();
    until(async || w.store.now().await.unwrap() > first + Span::from_millis(2_500)).await;
    // Two leases later it is still ours, or a second run would have begun.
    assert_eq!(w.store.runs(w.ws, None, 10).await.unwrap().len(), 1);
    stop.send(true).unwrap();
    node.await.unwrap();
}

#[tokio::test]
async fn a_post_that_still_waits_is_not_sent_when_its_source_vanishes() {
    let w = World::new().await;
    let id = w.source("vk", "-101").await;
    let other = json!({"id": 2, "date": now_s() - 50, "text": "Доброе утро"});
    w.put(-101, json!([{"id": 1, "date": now_s() - 60, "text": LOST}, other]));
    w.poll(id).await;
    assert_eq!(w.queued().await, 1);
    w.control("DELETE", "/_/walls/-101/1", &json!({})).await;
    w.poll(id).await;
    assert_eq!(w.queued().await, 1, "one look proves nothing");
    w.poll(id).await;
    assert_eq!(w.queued().await, 0);
    assert!(w.message(-101, 1).await.gone_at.is_some());
    assert_eq!(w.events("gone").await, 1);
}

#[tokio::test]
async fn a_wall_that_is_emptied_or_closed_deletes_nothing() {
    let w = World::new().await;
    let (emptied, many) = (w.source("vk", "-101").await, w.source("vk", "-202").await);
    let post = |id: i64| json!({"id": id, "date": now_s() - 600 + id, "text": format!("{LOST} {id}")});
    w.put(-101, json!([post(1)]));
    w.put(-202, (1..=9).map(post).collect());
    for id in [emptied, many] {
        w.poll(id).await;
    }
    let queued = w.queued().await;
    w.control("DELETE", "/_/walls/-101/1", &json!({})).await;
    for id in 3..=9 {
        w.control("DELETE", &format!("/_/walls/-202/{id}"), &json!({})).await;
    }
    for _ in 0..3 {
        w.poll(emptied).await;
        w.poll(many).await;
    }
    assert_eq!((w.queued().await, w.events("gone").await), (queued, 0));
    assert_eq!(w.events("alert").await, 2, "a person is told, once for each wall");
    let fault = json!({"platform": "vk", "method": "wall.get", "chat": -202, "kind": "vk_error", "code": 15});
    w.sandbox.arm(&fault).unwrap_or_else(|refusal| panic!("{}", refusal.message));
    assert!(poll_once(&w.reader(), &w.row(many).await).await.is_err());
    assert_eq!((w.queued().await, w.events("gone").await), (queued, 0));
}

#[tokio::test]
async fn a_wall_that_is_closed_is_an_alert_once_and_again_when_it_closes_again() {
    let mut w = World::new().await;
    w.settings.interval = Span(1);
    let id = w.source("vk", "-202").await;
    w.put(-202, json!([{"id": 1, "date": now_s() - 60, "text": LOST}]));
    let poll = async || {
        until(async || w.row(id).await.next_poll_at <= w.store.now().await.unwrap()).await;
        let due = w.store.due_sources("узел", Seats::any(1), LEASE).await.unwrap().remove(0);
        w.poll_leased(due).await;
        w.row(id).await.last_error
    };
    assert_eq!(poll().await, None);
    let fault = |kind: &str, code: i64| {
        let fault = json!({"platform": "vk", "method": "wall.get", "chat": -202, "kind": kind, "code": code, "times": 1});
        w.sandbox.arm(&fault).unwrap_or_else(|refusal| panic!("{}", refusal.message));
    };
    // Closed, out of reach, closed still: that is one trouble.
    for (kind, code) in [("vk_error", 15), ("vk_error", 10), ("vk_error", 15)] {
        fault(kind, code);
        assert!(poll().await.is_some());
    }
    assert_eq!((w.events("alert").await, w.events("gone").await, w.queued().await), (1, 0, 1));
    let alert = w.store.events(w.ws, 0, 1_000).await.unwrap();
    let alert = alert.iter().find(|event| event.name == "alert").unwrap().detail["text"].to_string();
    assert!(alert.contains("the wall is closed") && alert.contains("nothing was cancelled"), "{alert}");
    assert_eq!(poll().await, None, "it opens again and is read where it was left");
    fault("vk_error", 15);
    assert!(poll().await.is_some());
    assert_eq!(w.events("alert").await, 2);
}

fn pushed(url: &str) -> RawPost {
    let picture = crate::ingest::RawPicture { key: url.into(), url: url.into(), width: None, height: None };
    RawPost {
        source: "push:сайт".into(),
        origin_id: "1".into(),
        text: LOST.into(),
        pictures: vec![picture],
        ..RawPost::default()
    }
}

#[tokio::test]
async fn who_pushes_a_post_does_not_wait_for_its_pictures() {
    let w = World::new().await;
    let (origin, _held) = silent_peer().await;
    admit(&w.network, &origin);
    admit(&w.network, w.sandbox.origin());
    let mut rules = PublishRules::load(&w.store, w.ws, "сайт", &SourceSettings::default()).await.unwrap();
    rules.pictures = crate::ingest::Pictures::Later(Span::from_secs(3));
    // Its picture would hang for a minute.
    let hanging = pushed(&format!("{origin}/a.jpg"));
    take_in(&w.store, &w.network, w.ws, &rules, &[hanging], None).await.unwrap();
    let picture = format!("{}/_/pictures/busya.jpg", w.sandbox.origin());
    let post =
        RawPost { origin_id: "2".into(), text: "Доброе утро всем".into(), ..pushed(&picture) };
    let post = RawPost { channels: Some(vec![w.channel]), ..post };
    take_in(&w.store, &w.network, w.ws, &rules, std::slice::from_ref(&post), None).await.unwrap();
    let stored = async |id: &str| w.store.message_by_origin(w.ws, "push:сайт", id).await.unwrap().unwrap();
    assert_eq!(stored("1").await.payload["media"][0]["url"], format!("{origin}/a.jpg"));
    assert_eq!(stored("2").await.payload["media"][0]["url"], picture);
    let filter = || DeliveryFilter { status: Some(Status::Queued), ..DeliveryFilter::default() };
    let held = w.store.deliveries(w.ws, filter(), 10).await.unwrap();
    let now = w.store.now().await.unwrap();
    assert!(held.len() == 2 && held.iter().all(|delivery| delivery.run_at > Some(now)), "{held:?}");
    rules.pictures = crate::ingest::Pictures::Now;
    for revision in [2, 2] {
        take_in(&w.store, &w.network, w.ws, &rules, std::slice::from_ref(&post), None).await.unwrap();
        let whole = stored("2").await;
        assert!(whole.payload["media"][0]["blob"].is_string(), "{} {}", whole.payload, whole.facts);
        assert_eq!(whole.revision, revision, "the second time it is known");
    }
    assert_eq!(w.queued().await, 2, "and said once");
}

#[tokio::test]
async fn a_picture_that_killed_three_starts_is_put_aside_and_the_post_goes_on() {
    let w = World::new().await;
    let id = w.source("vk", "-101").await;
    w.put(-101, json!([{"id": 1, "date": now_s() - 60, "text": LOST, "photos": ["буся"]}]));
    let account = w.store.accounts(w.ws).await.unwrap();
    assert_eq!(account.len(), 2);
    // As three nodes leave it that ended while they decoded it.
    let key = picture_key(&w).await;
    for _ in 0..3 {
        w.store.begin_look(w.ws, &key).await.unwrap();
    }
    w.poll(id).await;
    let post = w.message(-101, 1).await;
    assert_eq!(w.queued().await, 1);
    assert!(post.payload["media"].is_null(), "{}", post.payload);
    let notes = post.facts["notes"].to_string();
    assert!(notes.contains("the node ended 3 times"), "{notes}");
}

#[tokio::test]
async fn a_file_that_is_known_is_not_looked_at_again() {
    let w = World::new().await;
    let bytes = w.sandbox.core().pictures.jpeg("буся");
    let keep = async || keep_bytes(&w.store, w.ws, vec![("буся.jpg".into(), bytes.clone())]).await;
    let first = keep().await.unwrap();
    // Nobody could look at it any more.
    let key = format!("sha256:{}", first[0].blob.clone().unwrap());
    for _ in 0..3 {
        w.store.begin_look(w.ws, &key).await.unwrap();
    }
    assert_eq!(keep().await.unwrap(), first);
    let known = w.store.media_origin(w.ws, first[0].blob.as_deref().unwrap()).await.unwrap().unwrap();
    assert!(known.picture_hash.is_some(), "what it looks like stays known");
}

#[tokio::test]
async fn a_picture_that_waits_too_long_to_be_looked_at_is_kept_and_its_post_goes_on() {
    let w = World::new().await;
    let bytes = w.sandbox.core().pictures.jpeg("буся");
    // Somebody else's picture is looked at, and that does not end.
    let busy = crate::ingest::TOGETHER.write().await;
    tokio::time::pause();
    let kept = keep_bytes(&w.store, w.ws, vec![("буся.jpg".into(), bytes.clone())]).await.unwrap();
    tokio::time::resume();
    drop(busy);
    let blob = kept[0].blob.clone().unwrap();
    assert_eq!(w.store.media_bytes(w.ws, &blob).await.unwrap(), Some(bytes));
    assert_eq!(w.store.media_origin(w.ws, &blob).await.unwrap().unwrap().picture_hash, None);
}

/// What the first photo of the wall is called, as ingest calls it.
async fn picture_key(w: &World) -> String {
    let (row, token) = (
        w.store.accounts(w.ws).await.unwrap().into_iter().find(|row| row.account_id == w.vk).unwrap(),
        w.store.account_token(w.ws, w.vk).await.unwrap(),
    );
    let account = crate::addresses::account(&row, &token, &w.settings.bases).unwrap();
    w.network.admit(&account);
    let wall = platforms::vk::read::Wall::Owner(-101);
    let page = platforms::vk::read::wall_page(&w.network, &account, &wall, 0, 1, DEADLINE).await.unwrap();
    format!("https://vk.com/{}", page.posts[0].photos[0].id)
}

const HEAD: &str =
    "<?xml version=\"1.0\" encoding=\"UTF-8\"?><rss version=\"2.0\"><channel><title>Приют</title>";

fn ids(items: &str) -> Vec<String> {
    let feed = format!("{HEAD}{items}</channel></rss>");
    let posts = feed::parse("приют", "https://feed.example", feed.as_bytes()).unwrap().posts;
    posts.into_iter().map(|post| post.origin_id).collect()
}

#[test]
fn an_entry_without_guid_link_and_title_is_the_same_at_every_reading() {
    let items = "<item><description>Пропал кот</description></item><item><description>Найден пёс</description></item>";
    let first = ids(items);
    assert_eq!(first, ids(items));
    assert!(first[0] != first[1] && first.iter().all(|id| !id.is_empty()), "{first:?}");
    assert_eq!(ids("<item><link>https://feed.example/1</link></item>"), ["https://feed.example/1"]);
}

#[test]
fn a_feed_that_is_nothing_but_levels_is_refused_before_it_ends_the_process() {
    let levels = "<media:group>".repeat(300_000);
    let feed = format!(
        "<rss version=\"2.0\" xmlns:media=\"http://search.yahoo.com/mrss/\"><channel><item>{levels}</item></channel></rss>"
    );
    let refused = feed::parse("приют", "https://feed.example", feed.as_bytes()).unwrap_err().to_string();
    assert!(refused.contains("inside each other"), "{refused}");
    let talked_out_of = |level: &str, every_hundred: &str| {
        let levels = format!("{}{every_hundred}", level.repeat(100)).repeat(3_000);
        format!(
            "<rss version=\"2.0\" xmlns:media=\"http://search.yahoo.com/mrss/\"><channel><item>{levels}</item></channel></rss>"
        )
    };
    let (open, closed) = ("<media:group>", "</media:group>".repeat(100));
    let utf16 = |text: String| {
        let units = std::iter::once(0xfeff).chain(text.encode_utf16().collect::<Vec<u16>>());
        units.flat_map(u16::to_le_bytes).collect::<Vec<u8>>()
    };
    // As UTF-16 these signs are made of the bytes of a closing tag.
    let signs: String = "\u{2f3c}\u{3e61}".repeat(100);
    for (trick, feed) in [
        ("a value that ends like an empty element", talked_out_of("<media:group x=\"/>\">", "").into_bytes()),
        ("closed inside a comment", talked_out_of(open, &format!("<!-->{closed}-->")).into_bytes()),
        ("closed inside an instruction", talked_out_of(open, &format!("<?a >{closed}?>")).into_bytes()),
        (
            "closed inside a declaration",
            talked_out_of(open, &format!("<!DOCTYPE a [<!--{closed}-->]>")).into_bytes(),
        ),
        ("closed in another encoding", utf16(talked_out_of(open, &signs))),
    ] {
        let refused = feed::parse("приют", "https://feed.example", &feed).unwrap_err().to_string();
        assert!(refused.contains("inside each other"), "{trick}: {refused}");
    }
    let many = "<item><description><![CDATA[<p>раз<br>два<p>три]]></description></item>".repeat(300);
    assert_eq!(ids(&many).len(), 200, "many entries are not many levels");
}

#[tokio::test]
async fn one_bad_entry_does_not_block_its_feed() {
    let w = World::new().await;
    let rules = PublishRules::load(&w.store, w.ws, "приют", &SourceSettings::default()).await.unwrap();
    let entry = |id: &str, text: &str| RawPost {
        source: "feed:приют".into(),
        origin_id: id.into(),
        text: text.into(),
        ..RawPost::default()
    };
    let long = "я".repeat(4_500);
    let mut odd = entry("o", "Чужой адрес");
    odd.origin.url = Some("https://feed.example/\0".into());
    let posts = [
        entry("a\0b", "С нулём"),
        entry(&long, "С длинным именем"),
        entry(&format!("{long}!"), "С другим длинным именем"),
        odd,
        entry("z", LOST),
    ];
    for stored in [5, 0] {
        let counts = take_in(&w.store, &w.network, w.ws, &rules, &posts, None).await.unwrap();
        assert_eq!((counts.seen, counts.stored), (5, stored));
    }
    assert_eq!(w.queued().await, 1);
    for message in w.store.messages(w.ws, 0, 10).await.unwrap() {
        assert!(message.origin_id.len() <= 1_000 && !message.origin_id.contains('\0'));
        assert!(!message.origin.to_string().contains("u0000"), "{}", message.origin);
    }
}

#[tokio::test]
async fn a_run_that_fails_does_not_stay_open() {
    let w = World::new().await;
    let rules = PublishRules::load(&w.store, w.ws, "приют", &SourceSettings::default()).await.unwrap();
    let lost_channel = RawPost {
        source: "push:сайт".into(),
        origin_id: "1".into(),
        text: "Привет".into(),
        channels: Some(vec![ChannelId(404)]),
        ..RawPost::default()
    };
    let work = async {
        let counts = take_in(&w.store, &w.network, w.ws, &rules, &[lost_channel], None).await?;
        Ok((counts, None))
    };
    assert!(crate::ingest::in_a_run(&w.store, w.ws, "push:сайт", work).await.is_err());
    let run = w.store.runs(w.ws, None, 10).await.unwrap().remove(0);
    assert!(run.finished_at.is_some(), "{run:?}");
    assert!(run.error.is_some_and(|why| why.contains("channel 404")));
}
