//! Sources against the sandbox and files on disk, with a store in memory: asserted on what is stored and queued.

mod trouble;

use std::io::Write as _;

use domain::delivery::Status;
use domain::ids::{AccountId, ChannelId, SourceId, WorkspaceId};
use platforms::platform::Network;
use sandbox::{Name, Sandbox};
use serde_json::{Value, json};
use store::{
    AccountSettings, Address, ChannelSettings, Clock, DedupMode, DeliveryFilter, FinishedPoll, Keyring,
    NewAccount, NewChannel, NewSource, PollHealth, Source, Store, StoredMessage,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::watch;

use super::*;
use crate::ingest::{RawPost, keep_bytes, take_in};

const LOST: &str = "Пропала собака! Убежала такса Буся, рыжая, в красном ошейнике, Тюмень, улица Ямская. \
                    Телефон 8 901 000-00-11";

const LEASE: Span = Span::from_secs(60);

struct World {
    store: Store,
    network: Network,
    sandbox: Sandbox,
    ws: WorkspaceId,
    channel: ChannelId,
    vk: AccountId,
    settings: Settings,
}

impl World {
    async fn new() -> World {
        let address = Address::parse("sqlite::memory:").unwrap();
        let store = Store::open(&address, Keyring::ephemeral([7; 32]), Clock::system()).await.unwrap();
        let ws = store.create_workspace("Приют").await.unwrap();
        let options = sandbox::Options { any_token: true, ..sandbox::Options::default() };
        let sandbox = Sandbox::start(options).await.unwrap();
        let account = |name: Name, kind: &str| NewAccount {
            platform: name.as_str().into(),
            name: format!("бот {}", name.as_str()),
            token: secrecy::SecretString::from("42:token-of-the-shelter"),
            settings: AccountSettings {
                api_base: Some(sandbox.base(name).into()),
                kind: kind.into(),
                ..AccountSettings::default()
            },
        };
        let telegram = store.create_account(ws, account(Name::Telegram, "bot")).await.unwrap();
        let vk = store.create_account(ws, account(Name::Vk, "service")).await.unwrap();
        let settings = ChannelSettings { dedup: DedupMode::Case, ..ChannelSettings::default() };
        let new = NewChannel {
            account_id: telegram,
            name: "канал".into(),
            target: "-1001234567890".into(),
            settings,
        };
        let channel = store.create_channel(ws, new).await.unwrap();
        let settings = Settings {
            owner: "узел".into(),
            interval: Span::from_secs(60),
            bases: ApiBases::default(),
            lease: LEASE,
            deadline: DEADLINE,
            grace: Duration::from_millis(20),
        };
        World { store, network: Network::default(), sandbox, ws, channel, vk, settings }
    }

    fn reader(&self) -> Reader<'_> {
        Reader { store: &self.store, network: &self.network, settings: &self.settings }
    }

    async fn source(&self, kind: &str, address: &str) -> SourceId {
        let account_id = (kind == "vk").then_some(self.vk);
        let (kind, name, address) = (kind.to_owned(), format!("источник {address}"), address.to_owned());
        let new = NewSource { kind, name, address, account_id, settings: json!({}) };
        self.store.create_source(self.ws, new).await.unwrap()
    }

    async fn row(&self, id: SourceId) -> Source {
        let all = self.store.sources(self.ws).await.unwrap();
        all.into_iter().find(|source| source.source_id == id).unwrap()
    }

    /// As the loop does it, with the cursor written down.
    async fn poll(&self, id: SourceId) -> Polled {
        let source = self.row(id).await;
        let leased = self.store.due_sources("узел", Seats::any(100), LEASE).await.unwrap();
        let polled = poll_once(&self.reader(), &source).await.unwrap();
        for leased in leased {
            let own = leased.source_id == id;
            let finished = FinishedPoll {
                source_id: leased.source_id,
                owner: "узел".into(),
                cursor: own.then(|| polled.cursor.clone()),
                next_poll_at: Timestamp(0),
                health: PollHealth::Well,
            };
            self.store.finish_poll(self.ws, finished).await.unwrap();
        }
        polled
    }

    /// As the loop does it, with everything around.
    async fn poll_leased(&self, source: Source) {
        let (store, settings) = (self.store.clone(), self.settings.clone());
        let node = Arc::new(Node { store, network: Network::default(), settings });
        poll_leased(&node, source, watch::channel(false).1).await;
    }

    fn put(&self, owner: i64, posts: Value) {
        self.sandbox.put_on_wall(owner, posts).unwrap_or_else(|refusal| panic!("{}", refusal.message));
    }

    async fn queued(&self) -> usize {
        let filter = DeliveryFilter { status: Some(Status::Queued), ..DeliveryFilter::default() };
        self.store.deliveries(self.ws, filter, 1_000).await.unwrap().len()
    }

    async fn message(&self, owner: i64, post: i64) -> StoredMessage {
        let found = self.store.message_by_origin(self.ws, &format!("vk:{owner}"), &post.to_string()).await;
        found.unwrap().unwrap_or_else(|| panic!("post {owner}_{post} is not stored"))
    }

    async fn events(&self, name: &str) -> usize {
        let events = self.store.events(self.ws, 0, 10_000).await.unwrap();
        events.iter().filter(|event| event.name == name).count()
    }

    /// The sandbox's control by hand: `PATCH` and `DELETE` of walls have no other door.
    async fn control(&self, method: &str, path: &str, body: &Value) {
        let mut stream = tokio::net::TcpStream::connect(self.sandbox.address()).await.unwrap();
        let body = body.to_string();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
}

/// As the sandbox is admitted by an account: the guard refuses loopback otherwise.
fn admit(network: &Network, origin: &str) {
    let account = platforms::platform::Account::new(
        platforms::registry::platform("vk").unwrap(),
        platforms::secret::Token::new("token"),
        platforms::platform::AccountSettings { api_base: Some(origin.to_owned()), ..Default::default() },
    );
    network.admit(&account.unwrap());
}

fn now_s() -> i64 {
    Clock::system().now().0 / 1_000_000
}

#[tokio::test]
async fn a_wall_is_read_with_its_pictures_and_a_copy_is_published_once() {
    let w = World::new().await;
    let (first, second) = (w.source("vk", "-101").await, w.source("vk", "club202").await);
    w.put(-101, json!([{"id": 1, "date": now_s() - 60, "text": LOST, "photos": ["буся"]}]));
    w.put(-202, json!([{"id": 9, "date": now_s() - 30, "text": LOST, "photos": ["буся~"]}]));
    let polled = w.poll(first).await;
    assert_eq!(polled.counts, RunCounts { seen: 1, stored: 1, skipped: 0, enqueued: 1 });
    w.poll(second).await;
    assert_eq!(w.queued().await, 1, "one case, one message");
    let (post, copy) = (w.message(-101, 1).await, w.message(-202, 9).await);
    assert_eq!((post.kind.as_str(), post.case_id), ("lost", copy.case_id));
    let case = w.store.case(w.ws, post.case_id.unwrap()).await.unwrap();
    assert_eq!(case.facts["sources"], json!(["vk:-202/9"]));
    let blob = post.payload["media"][0]["blob"].as_str().unwrap_or_else(|| panic!("{}", post.payload));
    let bytes = w.store.media_bytes(w.ws, blob).await.unwrap().unwrap();
    assert!(bytes.starts_with(&[0xff, 0xd8]), "a JPEG is kept");
    assert_eq!(post.payload["origin"]["url"], "https://vk.com/wall-101_1");
}

#[tokio::test]
async fn a_community_is_kept_with_its_name_and_a_person_without() {
    let w = World::new().await;
    let chat = json!({"platform": "vk", "id": -101, "title": "Потеряшки\n Тюмени \u{202e}8 901 000-00-11"});
    w.sandbox.add_chat(&chat).unwrap_or_else(|refusal| panic!("{}", refusal.message));
    let (group, person) = (w.source("vk", "-101").await, w.source("vk", "id7").await);
    for owner in [-101, 7] {
        w.put(owner, json!([{"id": 1, "date": now_s() - 60, "text": "Доброе утро"}]));
    }
    w.poll(group).await;
    w.poll(person).await;
    assert_eq!(title_of(&w, group).await.as_deref(), Some("Потеряшки Тюмени • ••• •••-••-11"));
    assert_eq!(title_of(&w, person).await, None, "names of people are not told");
    w.control("DELETE", "/_/walls/-101/1", &json!({})).await;
    w.poll(group).await;
    assert!(title_of(&w, group).await.is_some(), "a wall without posts keeps its name");
}

async fn title_of(w: &World, id: SourceId) -> Option<String> {
    title(&w.row(id).await).map(str::to_owned)
}

#[tokio::test]
async fn a_second_reading_adds_nothing_and_fetches_nothing() {
    let w = World::new().await;
    let id = w.source("vk", "-101").await;
    w.put(-101, json!([{"id": 1, "date": now_s() - 60, "text": LOST, "photos": ["буся"]}]));
    w.poll(id).await;
    let polled = w.poll(id).await;
    assert_eq!(polled.counts, RunCounts { seen: 1, ..RunCounts::default() });
    assert_eq!((w.queued().await, w.message(-101, 1).await.seen_count), (1, 2));
}

#[tokio::test]
async fn an_edit_and_a_deletion_are_noticed() {
    let w = World::new().await;
    let id = w.source("vk", "-101").await;
    let post = |id: i64, text: &str| json!({"id": id, "date": now_s() - 600 + id, "text": text});
    w.put(-101, json!([post(1, LOST), post(2, "Доброе утро"), post(3, "Добрый вечер")]));
    w.poll(id).await;
    let text = format!("{LOST} Вознаграждение!");
    w.control("PATCH", "/_/walls/-101/1", &json!({"text": text})).await;
    w.control("DELETE", "/_/walls/-101/2", &json!({})).await;
    w.poll(id).await;
    assert!(w.message(-101, 2).await.gone_at.is_none(), "missing once may be a hiccup");
    w.poll(id).await;
    let edited = w.message(-101, 1).await;
    assert_eq!((edited.revision, edited.payload["text"].as_str()), (2, Some(text.as_str())));
    assert!(w.message(-101, 2).await.gone_at.is_some());
    assert!(w.message(-101, 3).await.gone_at.is_none());
    w.poll(id).await;
    assert_eq!((w.events("gone").await, w.events("edited").await), (1, 1), "each is told once");
}

#[tokio::test]
async fn posts_that_are_not_published_are_kept_with_their_reason() {
    let w = World::new().await;
    let id = w.source("vk", "-101").await;
    let date = now_s() - 60;
    w.put(
        -101,
        json!([
            {"id": 1, "date": date, "text": LOST, "marked_as_ads": 1},
            {"id": 2, "date": date - 30 * 3600, "text": LOST},
            {"id": 3, "date": date, "text": "https://vk.com/wall-5_6"},
            {"id": 4, "date": date, "text": ""},
            {"id": 5, "date": date, "text": "Найдена собака, такса, ищем хозяев, Омск, 8 901 000-00-77"},
        ]),
    );
    let polled = w.poll(id).await;
    assert_eq!((polled.counts.stored, polled.counts.skipped, polled.counts.enqueued), (5, 5, 0));
    for (post, why) in [(1, "ad:"), (2, "too old:"), (3, "link:"), (4, "empty:"), (5, "no route:")] {
        let skipped = w.message(-101, post).await.skipped.unwrap_or_default();
        assert!(skipped.starts_with(why), "post {post}: {skipped}");
    }
    assert_eq!(w.events("ingest_skipped").await, 5);
}

#[tokio::test]
async fn more_posts_than_one_page_are_all_read() {
    let w = World::new().await;
    let id = w.source("vk", "-101").await;
    let post =
        |id: i64| json!({"id": id, "date": now_s() - 1_000 + id, "text": format!("Доброе утро, день {id}")});
    w.put(-101, (1..=130).map(post).collect());
    assert_eq!(w.poll(id).await.counts.stored, 130);
    assert_eq!(w.poll(id).await.counts.seen, 20, "then only the overlap");
}

#[tokio::test]
async fn a_source_that_fails_says_why_and_the_others_go_on() {
    let w = World::new().await;
    let (closed, open) = (w.source("vk", "-101").await, w.source("vk", "-202").await);
    let unknown = w.source("gopher", "-1").await;
    let fault = json!({"platform": "vk", "method": "wall.get", "chat": -101, "kind": "vk_error", "code": 15});
    w.sandbox.arm(&fault).unwrap_or_else(|refusal| panic!("{}", refusal.message));
    w.put(-202, json!([{"id": 9, "date": now_s() - 30, "text": LOST}]));
    for source in w.store.due_sources("узел", Seats::any(10), LEASE).await.unwrap() {
        w.poll_leased(source).await;
    }
    let failed = w.row(closed).await;
    let why = failed.last_error.unwrap();
    assert!(why.starts_with("-101:") && why.contains("vk:15") && why.contains("closed"), "{why}");
    assert!(failed.next_poll_at > w.store.now().await.unwrap());
    assert!(w.row(unknown).await.last_error.unwrap().contains("unknown kind"));
    let well = w.row(open).await;
    assert_eq!((well.last_error, w.queued().await), (None, 1));
    let runs = w.store.runs(w.ws, None, 10).await.unwrap();
    assert_eq!(runs.len(), 3);
    assert!(runs.iter().all(|run| run.finished_at.is_some()));
    assert_eq!(runs.iter().filter(|run| run.error.is_some()).count(), 2);
}

#[tokio::test]
async fn a_picture_that_is_not_there_leaves_the_post() {
    let w = World::new().await;
    let id = w.source("vk", "-101").await;
    let photo = |url: &str| {
        json!({"type": "photo", "photo": {"id": 5, "owner_id": -101, "sizes":
        [{"type": "x", "url": url, "width": 10, "height": 10}]}})
    };
    let attachments =
        json!([photo(&format!("{}/_/pictures/нет", w.sandbox.origin())), photo("http://127.0.0.1:1/a.jpg")]);
    w.put(-101, json!([{"id": 1, "date": now_s() - 60, "text": LOST, "attachments": attachments}]));
    w.poll(id).await;
    let post = w.message(-101, 1).await;
    assert_eq!(w.queued().await, 1);
    assert!(post.payload["media"].is_null(), "{}", post.payload);
    assert!(post.facts["notes"].as_array().is_some_and(|notes| !notes.is_empty()), "{}", post.facts);
}

#[tokio::test]
async fn a_file_that_comes_along_is_kept_and_shown() {
    let w = World::new().await;
    let bytes = w.sandbox.core().pictures.jpeg("буся");
    let kept = keep_bytes(&w.store, w.ws, vec![("буся.jpg".into(), bytes.clone())]).await.unwrap();
    let media = &kept[0];
    let raw = RawPost {
        source: "cli".into(),
        origin_id: "1".into(),
        text: "Смотрите, какая".into(),
        kept: kept.clone(),
        channels: Some(vec![w.channel]),
        ..RawPost::default()
    };
    let rules = PublishRules::load(&w.store, w.ws, "cli", &SourceSettings::default()).await.unwrap();
    let counts = take_in(&w.store, &w.network, w.ws, &rules, &[raw], None).await.unwrap();
    assert_eq!((counts.stored, counts.enqueued), (1, 1));
    let stored = w.store.message_by_origin(w.ws, "cli", "1").await.unwrap().unwrap();
    assert_eq!(stored.payload["media"][0]["blob"], json!(media.blob));
    assert_eq!(w.store.media_bytes(w.ws, media.blob.as_deref().unwrap()).await.unwrap(), Some(bytes));
    let letter = vec![("письмо.txt".into(), "привет".into())];
    let refused = keep_bytes(&w.store, w.ws, letter).await.unwrap_err().to_string();
    assert!(refused.starts_with("письмо.txt: not a jpeg"), "{refused}");
}

/// How often one story is said that two groups tell in the same words, without phone, place or picture.
async fn said_of_a_story_without_phone(strict: bool) -> usize {
    let w = World::new().await;
    let text = "Пропала кошка Тучка! Дымчатая, левое ухо надорвано, на груди белая звёздочка, в зелёном ошейнике с \
                колокольчиком. Выскочила из переноски у ветклиники и убежала во дворы. Пугливая, к чужим не идёт. \
                Помогите найти, дети плачут, очень ждём домой";
    for owner in [-61, -62] {
        w.put(owner, json!([{"id": 1, "text": text}]));
        let new = NewSource {
            kind: "vk".into(),
            name: format!("стена {owner}"),
            address: owner.to_string(),
            account_id: Some(w.vk),
            settings: json!({"strict_no_phone": strict}),
        };
        let id = w.store.create_source(w.ws, new).await.unwrap();
        w.poll(id).await;
    }
    w.queued().await
}

#[tokio::test]
async fn where_it_is_strict_words_alone_never_hold_back_a_post_without_phone() {
    assert_eq!(said_of_a_story_without_phone(false).await, 1);
    assert_eq!(said_of_a_story_without_phone(true).await, 2);
}

#[tokio::test]
async fn the_loop_reads_what_is_due_and_stops() {
    let w = World::new().await;
    for owner in 1..=12 {
        w.source("vk", &format!("-{owner}")).await;
        w.put(
            -owner,
            json!([{"id": 1, "date": now_s() - 60, "text": format!("Доброе утро, стена {owner}")}]),
        );
    }
    let (stop, stopped) = watch::channel(false);
    let node = tokio::spawn(run(w.store.clone(), Network::default(), w.settings.clone(), stopped));
    while w.store.messages(w.ws, 0, 100).await.unwrap().len() < 12 {
        assert!(!node.is_finished(), "the loop ended by itself");
        tokio::task::yield_now().await;
    }
    stop.send(true).unwrap();
    node.await.unwrap();
    let sources = w.store.sources(w.ws).await.unwrap();
    assert!(sources.iter().all(|source| source.last_error.is_none()), "{sources:#?}");
    assert!(
        w.store.due_sources("другой", Seats::any(100), LEASE).await.unwrap().is_empty(),
        "each waits for its time"
    );
}

#[test]
fn a_busy_source_is_read_more_often_than_a_quiet_one() {
    let base = Span::from_secs(60);
    let mut source = Source {
        source_id: SourceId(1),
        workspace_id: WorkspaceId(1),
        kind: "vk".into(),
        name: "стена".into(),
        address: "-1".into(),
        account_id: None,
        enabled: true,
        settings: json!({}),
        cursor: json!({}),
        next_poll_at: Timestamp(0),
        failing_since: None,
        last_error: None,
    };
    let mut after = |news: bool, times: usize| {
        for _ in 0..times {
            let interval = next_interval(&source, base, news);
            source.cursor = with_interval(json!({}), interval);
        }
        source.cursor["interval_ms"].as_i64().unwrap() / 1_000
    };
    assert_eq!(after(true, 1), 30);
    assert_eq!(after(true, 9), 15, "never more often than four times");
    assert_eq!(after(false, 20), 600, "never more rarely than a tenth");
    assert_eq!(after(true, 1), 300);
}

const RSS: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<rss version="2.0"><channel><title>Приют</title>
<item><guid>a-1</guid><link>https://feed.example/a-1</link><title>Пропала такса</title>
<pubDate>Sun, 15 Nov 2026 11:00:00 GMT</pubDate>
<description>&lt;p&gt;Убежала такса &lt;b&gt;Буся&lt;/b&gt;, 5 &amp;lt; 6&lt;br&gt;8 901 000-00-11&lt;/p&gt;&lt;img src="https://feed.example/b.jpg?a=1&amp;amp;b=2"&gt;</description></item>
<item><link>https://feed.example/a-2</link><title>Без тела</title></item>
</channel></rss>"#;

#[test]
fn a_feed_becomes_posts_in_plain_words() {
    let feed::Parsed { title, posts } = feed::parse("приют", "https://feed.example", RSS.as_bytes()).unwrap();
    assert_eq!((title.as_deref(), posts.len()), (Some("Приют"), 2));
    let post = &posts[0];
    assert_eq!((post.source.as_str(), post.origin_id.as_str()), ("feed:приют", "a-1"));
    assert_eq!(post.title.as_deref(), Some("Пропала такса"));
    assert_eq!(post.text, "Убежала такса Буся, 5 < 6\n8 901 000-00-11");
    assert_eq!(post.origin.url.as_deref(), Some("https://feed.example/a-1"));
    assert_eq!(post.origin.date, Some(1_794_740_400));
    assert_eq!(post.pictures[0].url, "https://feed.example/b.jpg?a=1&b=2");
    assert!(!posts[1].origin_id.is_empty(), "an entry without an id gets one");
    assert_eq!(posts[1].text, "");
}

#[test]
fn what_is_not_a_feed_says_so() {
    let page = "<!doctype html><html><body>Привет</body></html>";
    let refused = feed::parse("приют", "https://feed.example", page.as_bytes()).unwrap_err().to_string();
    assert!(refused.contains("web page") && refused.contains("RSS"), "{refused}");
}

#[tokio::test]
async fn a_feed_inside_our_own_network_is_refused() {
    let w = World::new().await;
    let id = w.source("feed", "http://127.0.0.1:9/feed.xml").await;
    let refused = poll_once(&w.reader(), &w.row(id).await).await.unwrap_err().to_string();
    assert!(refused.contains("refused") && refused.contains("public"), "{refused}");
}

#[tokio::test]
async fn a_feed_is_read_over_the_wire() {
    let w = World::new().await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    let date = an_hour_ago();
    let feed = RSS.replace("Sun, 15 Nov 2026 11:00:00 GMT", &date);
    let served = tokio::spawn(async move {
        let app =
            axum::Router::new().route("/feed", axum::routing::get(move || std::future::ready(feed.clone())));
        axum::serve(listener, app).await
    });
    admit(&w.network, &origin);
    let id = w.source("feed", &format!("{origin}/feed")).await;
    let polled = w.poll(id).await;
    served.abort();
    assert_eq!((polled.counts.seen, polled.counts.stored, polled.counts.enqueued), (2, 2, 1));
    let messages = w.store.messages(w.ws, 0, 10).await.unwrap();
    assert_ne!(messages[0].case_id, messages[1].case_id);
}

/// As feeds write it.
fn an_hour_ago() -> String {
    let seconds = now_s() - 3_600;
    let days = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (day, second) = (seconds / 86_400, seconds % 86_400);
    // Civil date from days since 1970, by the usual shift of the year to March.
    let shifted = day + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * of_year + 2) / 153;
    let of_month = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let name = days[usize::try_from(day % 7).unwrap()];
    let month = months[usize::try_from(month - 1).unwrap()];
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{name}, {of_month:02} {month} {year} {hour:02}:{minute:02}:{second:02} GMT")
}

#[tokio::test]
async fn a_file_of_posts_goes_in_and_goes_on_where_it_ended() {
    let w = World::new().await;
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let line =
        |post: i64, text: &str| json!({"owner_id": -5, "post_id": post, "date": now_s() - 60, "text": text});
    writeln!(file, "{}\nэто не пост\n\n{}", line(1, LOST), line(2, "Доброе утро")).unwrap();
    let id = w.source("file", &file.path().display().to_string()).await;
    let polled = w.poll(id).await;
    assert_eq!((polled.counts.seen, polled.counts.stored, polled.counts.enqueued), (2, 2, 1));
    write!(file, "{}\n{{\"owner_id\": -5, \"post", line(3, "Добрый вечер")).unwrap();
    assert_eq!(w.poll(id).await.counts.stored, 1, "a line that is still being written waits");
    assert_eq!(w.poll(id).await.counts, RunCounts::default());
}

#[tokio::test]
async fn an_import_tells_what_it_passed_over() {
    let w = World::new().await;
    let mut file = tempfile::NamedTempFile::new().unwrap();
    for post in 1..=700 {
        let text = format!("Доброе утро, день {post}");
        writeln!(file, "{}", json!({"owner_id": -5, "post_id": post, "date": now_s() - 60, "text": text}))
            .unwrap();
    }
    writeln!(file, "{{\"owner_id\": 0, \"post_id\": 1, \"date\": 1}}").unwrap();
    let rules = PublishRules::load(&w.store, w.ws, "архив", &SourceSettings::default()).await.unwrap();
    let (counts, bad) = import_all(&w, &rules, file.path()).await.unwrap();
    assert_eq!((counts.seen, counts.stored, bad.len()), (700, 700, 1));
    assert!(bad[0].contains("owner_id and post_id"), "{bad:?}");
    let again = import_all(&w, &rules, file.path()).await.unwrap().0;
    assert_eq!((again.seen, again.stored), (700, 0));
    let missing = import_all(&w, &rules, std::path::Path::new("нет.jsonl")).await;
    assert!(format!("{:#}", missing.unwrap_err()).contains("cannot open нет.jsonl"));
}

/// All steps of an import, as the command makes them.
async fn import_all(
    w: &World,
    rules: &PublishRules,
    path: &std::path::Path,
) -> anyhow::Result<(RunCounts, Vec<String>)> {
    let (mut counts, mut bad, mut at) = (RunCounts::default(), Vec::new(), 0);
    loop {
        let step = import_step(&w.store, &w.network, w.ws, rules, path, at).await?;
        counts.seen += step.seen;
        counts.stored += step.stored;
        bad.extend(step.bad);
        at = step.end;
        if !step.more {
            return Ok((counts, bad));
        }
    }
}
