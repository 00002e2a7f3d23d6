//! The quick start as a volunteer runs it: `rupor run` with variables alone, three walls in, three channels out.
//!
//! Real processes against the sandbox; what is judged is what readers see. 60 posts: 30 lost pets, 15 of them told
//! again on another wall in other words, and 15 posts that are nobody's lost pet.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use domain::ids::WorkspaceId;
use sandbox::{Name, Sandbox};
use serde_json::{Value, json};
use store::{Address, DeliveryFilter, Keyring, Store};

const WALLS: [i64; 3] = [-97_511, -97_512, -97_513];
const TELEGRAM: i64 = -1_009_751_000_001;
const VK: i64 = -97_510;
const MAX: i64 = -97_510_000_000_003;
const LOST: usize = 30;
const COPIES: usize = 15;
const OTHERS: usize = 15;
/// Far beyond what is needed; nothing depends on it.
const PATIENCE: Duration = Duration::from_secs(600);

/// One lost pet: what tells it from the others.
#[derive(Clone, Copy)]
struct Pet {
    what: &'static str,
    name: &'static str,
    look: &'static str,
}

const PETS: [Pet; LOST] = [
    pet("такса", "Буся", "рыжая, в красном ошейнике"),
    pet("кот", "Барсик", "серый полосатый, пушистый хвост"),
    pet("хаски", "Граф", "голубые глаза, без ошейника"),
    pet("кошка", "Мурка", "трёхцветная, боится людей"),
    pet("овчарка", "Рекс", "чепрачный окрас, хромает"),
    pet("кот", "Персик", "рыжий, белая грудка"),
    pet("спаниель", "Чип", "длинные уши, чёрный"),
    pet("кошка", "Дымка", "серая, очень пугливая"),
    pet("лабрадор", "Рой", "палевый, крупный"),
    pet("кот", "Уголёк", "чёрный, жёлтые глаза"),
    pet("той-терьер", "Кекс", "коричневый, в шлейке"),
    pet("кошка", "Ляля", "сиамская, голубые глаза"),
    pet("лайка", "Вьюга", "белая, хвост кольцом"),
    pet("кот", "Маркиз", "британский, серый"),
    pet("корги", "Тоффи", "рыже-белый, короткие лапы"),
    pet("кошка", "Снежка", "белая, глухая"),
    pet("ротвейлер", "Барон", "чёрный с подпалом"),
    pet("кот", "Апельсин", "ярко-рыжий, кастрирован"),
    pet("пудель", "Артемон", "белый, подстрижен"),
    pet("кошка", "Багира", "чёрная, гладкая шерсть"),
    pet("мопс", "Бублик", "бежевый, чёрная маска"),
    pet("кот", "Филимон", "сфинкс, лысый"),
    pet("дворняга", "Найда", "коричневая, на боку пятно"),
    pet("кошка", "Ириска", "персидская, кремовая"),
    pet("бигль", "Марсель", "трёхцветный, белые лапы"),
    pet("кот", "Гоша", "мейн-кун, кисточки на ушах"),
    pet("доберман", "Зевс", "коричневый, купированные уши"),
    pet("кошка", "Плюша", "вислоухая, голубая"),
    pet("алабай", "Самсон", "белый, огромный"),
    pet("кот", "Тихон", "дымчатый, без хвоста"),
];
const STREETS: [&str; 10] = [
    "Кленовой",
    "Озёрной",
    "Берёзовой",
    "Вишнёвой",
    "Солнечной",
    "Луговой",
    "Тихой",
    "Рябиновой",
    "Цветочной",
    "Заречной",
];

const fn pet(what: &'static str, name: &'static str, look: &'static str) -> Pet {
    Pet { what, name, look }
}

fn phone(n: usize) -> String {
    format!("+7 975 000-01-{n:02}")
}

fn wall_of(n: usize) -> usize {
    n % WALLS.len()
}

/// Where a story stands first, and where it is told again.
fn original_post(n: usize) -> (usize, i64) {
    (wall_of(n), 100 + i64::try_from(n).unwrap())
}

fn copy_post(n: usize) -> (usize, i64) {
    (wall_of(n + 1), 300 + i64::try_from(n).unwrap())
}

fn original(n: usize) -> Value {
    let Pet { what, name, look } = PETS[n];
    let text = format!(
        "Потерялся питомец: {what} {name}, {look}. Ушёл с улицы {}, дом {}. Звоните {}",
        STREETS[n % STREETS.len()],
        n + 1,
        phone(n)
    );
    json!({"id": original_post(n).1, "text": text, "photos": [format!("питомец {name}")]})
}

fn copy(n: usize) -> Value {
    let Pet { what, name, look } = PETS[n];
    let text = format!(
        "Друзья, помогите! Пропал питомец по имени {name} ({what}), {look}, улица {}. Кто видел: {}",
        STREETS[n % STREETS.len()],
        phone(n).replace("+7 ", "8 ")
    );
    json!({"id": copy_post(n).1, "text": text, "photos": [format!("питомец {name}~")]})
}

/// Nobody's lost pet: found ones, news, links, ads and nothing at all.
fn other(n: usize) -> Value {
    let id = 500 + n;
    match n % 5 {
        0 => {
            json!({"id": id, "text": format!("Найдена собака, кобель, ошейник номер {n}. Ищем хозяев! +7 975 000-02-{n:02}")})
        }
        1 => json!({"id": id, "text": format!("Новости города: автобус {n} пойдёт в объезд из-за ярмарки.")}),
        2 => json!({"id": id, "text": format!("https://vk.com/wall-97519_{n}")}),
        3 => {
            json!({"id": id, "text": format!("Пропал аппетит у кота? Корм со скидкой {n} %"), "marked_as_ads": 1})
        }
        _ => json!({"id": id, "text": ""}),
    }
}

struct World {
    sandbox: Sandbox,
    address: String,
    folder: PathBuf,
}

impl World {
    async fn new(address: String, folder: &Path) -> World {
        let options = sandbox::Options { any_token: true, ..sandbox::Options::default() };
        let sandbox = Sandbox::start(options).await.unwrap();
        let world = World { sandbox, address, folder: folder.to_owned() };
        let mut walls: [Vec<Value>; 3] = Default::default();
        for n in 0..LOST {
            walls[original_post(n).0].push(original(n));
        }
        for n in 0..COPIES {
            walls[copy_post(n).0].push(copy(n));
        }
        for n in 0..OTHERS {
            walls[wall_of(n)].push(other(n));
        }
        for (owner, posts) in WALLS.into_iter().zip(walls) {
            world.put(owner, posts.into());
        }
        world
    }

    fn put(&self, owner: i64, posts: Value) {
        self.sandbox.put_on_wall(owner, posts).unwrap_or_else(|refusal| panic!("{}", refusal.message));
    }

    /// `rupor run` with nothing but variables.
    fn node(&self) -> Node {
        let log = std::fs::File::options().create(true).append(true).open(self.folder.join("node.log"));
        let api = |name: Name| self.sandbox.base(name);
        let child = Command::new(env!("CARGO_BIN_EXE_rupor"))
            .args(["run", "--db", &self.address])
            .env("RUPOR_KEY_FILE", self.key_file())
            .envs([
                ("RUPOR_TELEGRAM_API", api(Name::Telegram)),
                ("RUPOR_VK_API", api(Name::Vk)),
                ("RUPOR_MAX_API", api(Name::Max)),
                ("VK_GROUPS", WALLS.map(|wall| wall.to_string()).join(",")),
                ("TG_CHAT", TELEGRAM.to_string()),
                ("VK_OUT_OWNER_ID", VK.to_string()),
                ("MAX_CHAT", MAX.to_string()),
            ])
            .envs([
                ("VK_TOKEN", "invented-token-of-the-reader"),
                ("TG_ENABLED", "true"),
                ("TG_TOKEN", "97510:invented-token-of-the-bot-aaaaaaaa"),
                ("TG_RATE_PER_SEC", "1000"),
                ("VK_OUT_ENABLED", "true"),
                ("VK_OUT_TOKEN", "invented-token-of-the-writer"),
                ("VK_OUT_RATE_PER_SEC", "1000"),
                ("MAX_ENABLED", "true"),
                ("MAX_TOKEN", "invented-token-of-max"),
                ("MAX_RATE_PER_SEC", "1000"),
                ("RUPOR_POLL_INTERVAL", "300ms"),
                ("RUPOR_PLATFORM_LIMITS", "off"),
                ("RUPOR_LOG", "warn"),
            ])
            .stdout(Stdio::null())
            .stderr(log.unwrap())
            .spawn()
            .unwrap();
        Node(child)
    }

    fn key_file(&self) -> PathBuf {
        self.folder.join("node.key")
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.join("node.log")).unwrap_or_default()
    }

    /// A look beside the node, once it has made its database.
    async fn store(&self) -> (Store, WorkspaceId) {
        let address = Address::parse(&self.address).unwrap();
        let started = Instant::now();
        loop {
            if self.key_file().exists()
                && let Ok(store) = Store::open_reading(&address, Keyring::at(&self.key_file()).unwrap()).await
                && let Ok(workspaces) = store.workspaces().await
                && let Some(workspace) = workspaces.first()
            {
                return (store, workspace.workspace_id);
            }
            assert!(started.elapsed() < PATIENCE, "no node began: {}", self.log());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits until so many posts are in, `also` is true, and nothing waits to be sent.
    async fn settled(&self, messages: usize, mut also: impl FnMut(&[store::StoredMessage]) -> bool) {
        let (store, ws) = self.store().await;
        let started = Instant::now();
        loop {
            let known = store.messages(ws, 0, 10_000).await.unwrap();
            let deliveries = store.deliveries(ws, DeliveryFilter::default(), 10_000).await.unwrap();
            let waiting = deliveries.iter().filter(|delivery| !delivery.status.is_terminal()).count();
            if known.len() >= messages && waiting == 0 && also(&known) {
                return;
            }
            let tally = format!("{} posts, {waiting} deliveries wait", known.len());
            assert!(started.elapsed() < PATIENCE, "never settled: {tally}\n{}", self.log());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Waits until every wall was read once more from now on.
    async fn all_walls_read_again(&self) {
        let (store, ws) = self.store().await;
        let now = store.now().await.unwrap();
        let started = Instant::now();
        loop {
            let runs = store.runs(ws, None, 100).await.unwrap();
            let read = |wall: &i64| {
                let name = format!("vk:vk/{wall}");
                runs.iter().any(|run| run.source == name && run.started_at > now && run.finished_at.is_some())
            };
            if WALLS.iter().all(read) {
                return;
            }
            assert!(started.elapsed() < PATIENCE, "the walls are not read: {runs:#?}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// The messages that were put into a channel, in order.
    fn said(&self, platform: Name) -> Vec<sandbox::ledger::Row> {
        let says = |row: &sandbox::ledger::Row| match platform {
            Name::Telegram => row.method.starts_with("send"),
            Name::Vk => row.method == "wall.post",
            Name::Max => row.method == "POST /messages",
        };
        let mut rows = self.sandbox.core().ledger.rows(platform);
        rows.retain(|row| row.accepted && says(row));
        rows
    }

    /// Each lost pet once in each channel, with its photo, its phone and the link of one of its posts; nothing else.
    fn check_each_case_once(&self) {
        for (platform, chat) in [(Name::Telegram, TELEGRAM), (Name::Vk, VK), (Name::Max, MAX)] {
            let said = self.said(platform);
            for (n, pet) in PETS.iter().enumerate() {
                let digits = phone(n).replace([' ', '-'], "").replace("+7", "");
                let tells = |row: &&sandbox::ledger::Row| {
                    row.text.as_deref().unwrap_or_default().replace([' ', '-'], "").contains(&digits)
                };
                let told: Vec<_> = said.iter().filter(tells).collect();
                let name = pet.name;
                assert_eq!(told.len(), 1, "{name} on {}: {told:#?}", platform.as_str());
                let text = told[0].text.as_deref().unwrap();
                assert_eq!(told[0].media.len(), 1, "{name} on {} has its photo", platform.as_str());
                let links = [original_post(n), copy_post(n)]
                    .map(|(wall, post)| format!("https://vk.com/wall{}_{post}", WALLS[wall]));
                assert!(links.iter().any(|link| text.contains(link)), "{text}");
                assert!(text.contains(name), "{text}");
                assert_eq!(told[0].chat.to_string().trim_matches('"'), chat.to_string());
            }
            assert_eq!(said.len(), LOST, "nothing else on {}", platform.as_str());
        }
    }

    fn visible(&self, platform: Name, chat: i64, phone: &str) -> sandbox::chats::Message {
        let messages = self.sandbox.core().chats.messages(platform, &chat.to_string());
        let mut about = messages.into_iter().filter(|message| message.text.contains(phone));
        let found = about.next().unwrap_or_else(|| panic!("{phone} is not on {}", platform.as_str()));
        assert!(about.next().is_none(), "{phone} stands twice on {}", platform.as_str());
        found
    }
}

/// A node of its own; ended for good when it goes out of sight.
struct Node(Child);

impl Node {
    fn terminate(mut self) {
        let id = self.0.id().to_string();
        Command::new("kill").args(["-TERM", &id]).status().unwrap();
        let status = self.0.wait().unwrap();
        assert!(status.success(), "an orderly stop ends with 0, not {status}: it may have ended before");
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_lost_case_is_said_once_and_follows_its_post() {
    let folder = tempfile::tempdir().unwrap();
    let address = format!("sqlite:{}", folder.path().join("node.db").display());
    let world = World::new(address, folder.path()).await;
    let node = world.node();
    world.settled(LOST + COPIES + OTHERS, |_| true).await;
    world.check_each_case_once();

    node.terminate();
    let node = world.node();
    world.all_walls_read_again().await;
    world.settled(LOST + COPIES + OTHERS, |_| true).await;
    world.check_each_case_once();

    // The last two stories stand on one wall each.
    let (edited, home) = (LOST - 1, LOST - 2);
    let (wall, post) = original_post(edited);
    let text = format!("{} Вознаграждение!", original(edited)["text"].as_str().unwrap());
    world
        .sandbox
        .change_on_wall(WALLS[wall], post, json!({"text": text}))
        .unwrap_or_else(|r| panic!("{}", r.message));
    let Pet { what, name, .. } = PETS[home];
    let reunion = format!("{what} {name} нашёлся, уже дома! Спасибо всем за помощь. {}", phone(home));
    world.put(WALLS[original_post(home).0], json!([{"id": 900, "text": reunion}]));
    let origin_id = post.to_string();
    world
        .settled(LOST + COPIES + OTHERS + 1, |messages| {
            messages.iter().any(|message| message.origin_id == origin_id && message.revision == 2)
        })
        .await;
    world.check_each_case_once();
    for (platform, chat) in [(Name::Telegram, TELEGRAM), (Name::Vk, VK), (Name::Max, MAX)] {
        let message = world.visible(platform, chat, &phone(edited));
        assert!(message.text.contains("Вознаграждение!"), "{}", message.text);
        assert_eq!(message.media.len(), 1, "an edit keeps the photo on {}", platform.as_str());
        let message = world.visible(platform, chat, PETS[home].name);
        assert!(message.text.to_lowercase().starts_with("🎉 дома! спасибо"), "{}", message.text);
        assert!(!message.text.contains(&phone(home)), "nobody is to be called any more: {}", message.text);
        assert_eq!(message.media.len(), 1, "the end of a story keeps the photo on {}", platform.as_str());
    }
    node.terminate();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_nodes_that_read_the_same_walls_say_each_case_once() {
    let server = std::env::var("RUPOR_TEST_POSTGRES").expect("`./test` starts a server");
    let folder = tempfile::tempdir().unwrap();
    let world = World::new(scratch_database(&server).await, folder.path()).await;
    // Both on nothing: one of them makes the schema, the key and the rows, the other finds them.
    let nodes = [world.node(), world.node()];
    world.settled(LOST + COPIES + OTHERS, |_| true).await;
    world.all_walls_read_again().await;
    world.settled(LOST + COPIES + OTHERS, |_| true).await;
    world.check_each_case_once();
    nodes.into_iter().for_each(Node::terminate);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_starts_before_its_database_waits_for_it() {
    let server = std::env::var("RUPOR_TEST_POSTGRES").expect("`./test` starts a server");
    let folder = tempfile::tempdir().unwrap();
    let there = url::Url::parse(&scratch_database(&server).await).unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let door = listener.local_addr().unwrap();
    drop(listener);
    let mut address = there.clone();
    address.set_port(Some(door.port())).unwrap();
    let log = folder.path().join("log");
    let start = || {
        Command::new(env!("CARGO_BIN_EXE_rupor"))
            .args(["run", "--only", "dispatch", "--db", address.as_str()])
            .env("RUPOR_KEY_FILE", folder.path().join("key"))
            .stdout(Stdio::null())
            .stderr(std::fs::File::options().create(true).append(true).open(&log).unwrap())
            .spawn()
            .unwrap()
    };
    let said = async |words: &str, times: usize| {
        let begun = Instant::now();
        let text = || std::fs::read_to_string(&log).unwrap_or_default();
        while text().matches(words).count() < times {
            assert!(begun.elapsed() < PATIENCE, "{words:?} was not said\n{}", text());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    // Who stops it meanwhile is heard.
    let node = Node(start());
    said("trying again for 60 s", 1).await;
    node.terminate();

    let node = Node(start());
    said("trying again for 60 s", 2).await;
    let listener = tokio::net::TcpListener::bind(door).await.unwrap();
    let behind = (there.host_str().unwrap().to_owned(), there.port().unwrap_or(5432));
    tokio::spawn(async move {
        while let Ok((mut near, _)) = listener.accept().await {
            let mut far = tokio::net::TcpStream::connect(&behind).await.unwrap();
            tokio::spawn(async move { tokio::io::copy_bidirectional(&mut near, &mut far).await });
        }
    });
    said("running", 1).await;
    node.terminate();
}

async fn scratch_database(server: &str) -> String {
    let (client, connection) = tokio_postgres::connect(server, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let name = format!("quick_start_{}", uuid::Uuid::new_v4().simple());
    client.batch_execute(&format!("CREATE DATABASE {name}")).await.unwrap();
    let (base, _) = server.rsplit_once('/').unwrap();
    format!("{base}/{name}")
}
