//! A bot as people meet it: `rupor run` as a real process, people of the sandbox, and the ledger of what they were told.
//!
//! A short form is part of `./test`. The long one, on both databases:
//! `RUPOR_BOT_DIALOGUES=2000 RUPOR_BOT_KILLS=50 ./test -p rupor --test bot -- --nocapture`

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use sandbox::{Name, Sandbox};
use secrecy::SecretString;
use serde_json::{Value, json};
use store::{AccountSettings, Address, Clock, Keyring, NewAccount, NewBot, Receive, Store, StoreError};

/// Far beyond what is needed; nothing depends on it.
const PATIENCE: Duration = Duration::from_secs(120);
const SECRET: &str = "a-secret-that-the-platform-was-given";
const WORDS: [&str; 5] = ["раз", "два", "три", "четыре", "пять"];

fn from_env(name: &str, usual: usize) -> usize {
    std::env::var(name).ok().and_then(|n| n.parse().ok()).unwrap_or(usual)
}

/// Answers each of the five words with itself.
fn rules() -> String {
    let mut rules = "engine = 1\nstart = \"menu\"\nsubscribe = \"never\"\nfallback = [\"не понял\"]\n\
                     limits = { turns = 1000, steps = 20, idle = \"30m\", messages = \"1000/1m\" }\n[states.menu]\n"
        .to_owned();
    for word in WORDS {
        rules += &format!(
            "[[rules]]\nname = \"{word}\"\non = {{ text = \"{word}\" }}\nreply = \"ответ {word}\"\n"
        );
    }
    rules
}

struct Node(Child);

impl Node {
    /// SIGKILL: no handler runs, nothing is flushed.
    fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct World {
    address: String,
    key_file: PathBuf,
    log: PathBuf,
    sandbox: Sandbox,
    ports: [u16; 2],
}

impl World {
    async fn new(address: String, folder: &Path) -> World {
        let options = sandbox::Options { any_token: true, ..sandbox::Options::default() };
        let sandbox = Sandbox::start(options).await.unwrap();
        Store::migrate(&Address::parse(&address).unwrap()).await.unwrap();
        let free = || TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let (key_file, log) = (folder.join("bot.key"), folder.join("bot.log"));
        World { address, key_file, log, sandbox, ports: [free(), free()] }
    }

    fn rupor(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rupor"));
        command.args(args).args(["--db", &self.address]).env("RUPOR_KEY_FILE", &self.key_file);
        for (name, platform) in
            [("RUPOR_TELEGRAM_API", Name::Telegram), ("RUPOR_VK_API", Name::Vk), ("RUPOR_MAX_API", Name::Max)]
        {
            command.env(name, self.sandbox.base(platform));
        }
        command.env("RUPOR_PLATFORM_LIMITS", "off").env("RUPOR_LOG", "info").stdout(Stdio::null());
        command
    }

    fn node(&self, port: u16) -> Node {
        let log = std::fs::File::options().create(true).append(true).open(&self.log).unwrap();
        let listen = format!("127.0.0.1:{port}");
        let mut run = self.rupor(&["run", "--lease", "2s", "--listen", &listen]);
        Node(run.stderr(log).spawn().unwrap())
    }

    fn said(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// What people were told, by chat, in order.
    fn told(&self, platform: Name) -> BTreeMap<String, Vec<String>> {
        let mut told: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for row in self.sandbox.core().ledger.rows(platform) {
            if let (true, Some(text)) = (row.accepted, &row.text) {
                told.entry(row.chat.to_string()).or_default().push(text.clone());
            }
        }
        told
    }

    async fn wait_for(&self, what: &str, done: impl Fn() -> bool) {
        let started = Instant::now();
        while !done() {
            let told = Name::ALL.map(|platform| (platform, self.told(platform)));
            assert!(started.elapsed() < PATIENCE, "{what} did not come: {told:#?}\n{}", self.said());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

async fn open(world: &World) -> Store {
    let address = Address::parse(&world.address).unwrap();
    let started = Instant::now();
    loop {
        match Store::open(&address, Keyring::at(&world.key_file).unwrap(), Clock::system()).await {
            Ok(store) => return store,
            Err(StoreError::InUse { .. }) if started.elapsed() < PATIENCE => {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            Err(error) => panic!("{error}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn people_of_three_platforms_are_heard_by_polling_and_answered_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let address = format!("sqlite:{}", folder.path().join("bot.db").display());
    let world = World::new(address, folder.path()).await;
    let accounts = [("telegram", ""), ("max", ""), ("vk", "kind = \"community\"\ngroup_id = 77\n")];
    let mut config =
        "[bots.shop]\naccounts = [\"telegram\", \"max\", \"vk\"]\nrules = \"rules.toml\"\n".to_owned();
    for (name, more) in accounts {
        config += &format!("[accounts.{name}]\nplatform = \"{name}\"\ntoken = {{ env = \"TOKEN\" }}\n{more}");
    }
    std::fs::write(folder.path().join("rules.toml"), rules()).unwrap();
    std::fs::write(folder.path().join("rupor.toml"), config).unwrap();
    for (platform, kind) in [("telegram", "bot"), ("max", "bot"), ("vk", "community")] {
        let mut account = json!({"platform": platform, "token": "42:token-of-the-shop", "kind": kind});
        if platform == "vk" {
            account["id"] = json!("77");
        }
        let made = ask(world.sandbox.address(), "POST", "/_/accounts", &[], &account.to_string());
        assert_eq!(made.0, 200, "{}", made.1);
    }
    let file = folder.path().join("rupor.toml").display().to_string();
    let applied =
        world.rupor(&["apply", &file, "--yes"]).env("TOKEN", "42:token-of-the-shop").output().unwrap();
    assert!(applied.status.success(), "{}", String::from_utf8_lossy(&applied.stderr));
    let _node = world.node(world.ports[0]);
    // A community hears from its first poll on.
    let listens = || {
        let rows = world.sandbox.core().ledger.rows(Name::Vk);
        rows.iter().any(|row| row.method == "groups.getLongPollServer")
    };
    world.wait_for("the first poll", listens).await;
    for word in &WORDS[..3] {
        for (platform, user) in [("telegram", "501"), ("max", "502"), ("vk", "503")] {
            let update = json!({"chat": user, "from": user, "text": word});
            let path = format!("/_/updates/{platform}");
            let (status, answer) = ask(world.sandbox.address(), "POST", &path, &[], &update.to_string());
            assert_eq!(status, 200, "{platform}: {answer}");
        }
    }
    let wanted = ["ответ раз", "ответ два", "ответ три"];
    for platform in Name::ALL {
        let all = || world.told(platform).values().map(Vec::len).sum::<usize>() >= wanted.len();
        world.wait_for(platform.as_str(), all).await;
        let told: Vec<Vec<String>> = world.told(platform).into_values().collect();
        assert_eq!(told, [wanted.map(str::to_owned).to_vec()], "{platform:?}");
    }
}

/// Somebody of the sandbox writes.
fn write(world: &World, platform: &str, chat: i64, from: i64, text: &str) {
    let update = json!({"chat": chat, "from": from, "text": text});
    let path = format!("/_/updates/{platform}");
    let (status, answer) = ask(world.sandbox.address(), "POST", &path, &[], &update.to_string());
    assert_eq!(status, 200, "{answer}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_person_is_handed_to_people_who_answer_by_number_and_close() {
    let folder = tempfile::tempdir().unwrap();
    let address = format!("sqlite:{}", folder.path().join("bot.db").display());
    let world = World::new(address, folder.path()).await;
    let account = json!({"platform": "telegram", "token": "42:token-of-the-shop", "kind": "bot"});
    assert_eq!(ask(world.sandbox.address(), "POST", "/_/accounts", &[], &account.to_string()).0, 200);
    let handoff = "operators = { channel = \"support\", wait = \"10m\", back = \"12h\" }\n[states.menu]\n\
                   [[rules]]\nname = \"human\"\non = { text = \"оператор\" }\nhandoff = true\n";
    std::fs::write(folder.path().join("rules.toml"), rules().replace("[states.menu]\n", handoff)).unwrap();
    let config = "[bots.shop]\naccounts = [\"telegram\"]\nrules = \"rules.toml\"\n[accounts.telegram]\n\
                  platform = \"telegram\"\ntoken = { env = \"TOKEN\" }\n[channels.support]\naccount = \"telegram\"\n\
                  target = -900\n";
    std::fs::write(folder.path().join("rupor.toml"), config).unwrap();
    let file = folder.path().join("rupor.toml").display().to_string();
    let applied =
        world.rupor(&["apply", &file, "--yes"]).env("TOKEN", "42:token-of-the-shop").output().unwrap();
    assert!(applied.status.success(), "{}", String::from_utf8_lossy(&applied.stderr));
    let _node = world.node(world.ports[0]);
    let said = |chat: &str| world.told(Name::Telegram).get(chat).cloned().unwrap_or_default();
    write(&world, "telegram", 501, 501, "оператор");
    world.wait_for("the forward", || !said("-900").is_empty()).await;
    let head = said("-900").remove(0);
    assert!(head.starts_with("#A1 ") && head.contains(" · Telegram"), "{head}");
    write(&world, "telegram", -900, 900, "кто возьмёт?");
    write(&world, "telegram", -900, 900, "#A1 Здравствуйте, чем помочь?");
    world.wait_for("the operator's answer", || said("501").len() > 1).await;
    assert_eq!(
        said("501"),
        ["Передаю ваш вопрос человеку. Он ответит здесь же.", "Здравствуйте, чем помочь?"]
    );
    // The bot is silent while people talk: what is said goes to them.
    write(&world, "telegram", 501, 501, "раз");
    world.wait_for("the second forward", || said("-900").len() > 1).await;
    assert!(said("-900")[1].ends_with("раз"), "{:?}", said("-900"));
    write(&world, "telegram", -900, 900, "#A1 /close");
    world.wait_for("the end", || said("-900").len() > 2).await;
    write(&world, "telegram", 501, 501, "два");
    world.wait_for("the bot", || said("501").last().is_some_and(|text| text == "ответ два")).await;
    assert!(!said("501").contains(&"ответ раз".to_owned()), "{:?}", said("501"));
    write(&world, "telegram", -900, 900, "#A99 кому?");
    world.wait_for("the remark", || said("-900").contains(&"#A99: такой беседы нет".to_owned())).await;
    // A chat from before anybody listened is known by what is said there.
    write(&world, "telegram", -777, 900, "привет всем");
    world.wait_for("the group", || run(&world, &["chats"]).contains("-777")).await;
    let checked = world.rupor(&["check"]).stdout(Stdio::piped()).output().unwrap();
    let checked = String::from_utf8_lossy(&checked.stdout).into_owned();
    assert!(checked.contains("-777"), "{checked}");
    let log = run(&world, &["bot", "log", "shop", "--dialogue", "#A1"]);
    for words in ["#A1", "human", "оператор", "rule"] {
        assert!(log.contains(words), "{words}: {log}");
    }
    let all = run(&world, &["bot", "log", "shop"]);
    assert!(all.contains("answer to nobody") && all.contains("group"), "{all}");
    let other = folder.path().join("other.toml").display().to_string();
    std::fs::write(&other, rules().replace("ответ два", "иной ответ")).unwrap();
    let replayed = run(&world, &["bot", "replay", "shop", "--rules", &other]);
    assert!(replayed.contains("before: [\"ответ два\"]") && replayed.contains("иной ответ"), "{replayed}");
    assert_eq!(run(&world, &["bot", "forget", "shop", "501", "--account", "telegram"]).trim(), "forgotten");
    // Version 2 has nobody at the desk; the way back brings version 1 its people, as long as their channel is there.
    std::fs::write(folder.path().join("rules.toml"), rules()).unwrap();
    let apply = |config: &str| {
        std::fs::write(folder.path().join("rupor.toml"), config).unwrap();
        let mut apply = world.rupor(&["apply", &file, "--yes"]);
        let done = apply.env("TOKEN", "42:token-of-the-shop").output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    };
    let desk = || {
        let status: Value = serde_json::from_str(&run(&world, &["bot", "status", "--json"])).unwrap();
        status["bots"][0]["operators"].clone()
    };
    apply(config);
    assert_eq!(desk(), Value::Null);
    run(&world, &["bot", "activate", "shop", "1"]);
    assert!(desk().is_i64(), "{}", desk());
    run(&world, &["bot", "activate", "shop", "2"]);
    apply(config.split("[channels.support]").next().unwrap());
    let refused = world.rupor(&["bot", "activate", "shop", "1"]).output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("in version 1 people answer in the channel support") && desk().is_null(), "{said}");
    let log = run(&world, &["bot", "log", "shop", "--dialogue", "1"]);
    assert!(!log.contains("оператор"), "{log}");
    let nobody = world.rupor(&["bot", "forget", "shop", "501", "--account", "telegram"]).output().unwrap();
    assert!(String::from_utf8_lossy(&nobody.stderr).contains("nobody with the id 501 has written"));
}

/// What a command says that must succeed.
fn run(world: &World, args: &[&str]) -> String {
    let done = world.rupor(args).stdout(Stdio::piped()).output().unwrap();
    assert!(done.status.success(), "{args:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

/// What is visible in a chat of the sandbox, the oldest first.
fn visible(world: &World, platform: &str, chat: &str) -> Vec<Value> {
    let path = format!("/_/chats?platform={platform}&chat={chat}");
    let (status, answer) = ask(world.sandbox.address(), "GET", &path, &[], "");
    assert_eq!(status, 200, "{answer}");
    let body = answer.split_once("\r\n\r\n").map_or(answer.as_str(), |(_, body)| body);
    let start = body.find(['{', '[']).unwrap_or(0);
    let end = body.rfind(['}', ']']).map_or(body.len(), |at| at + 1);
    let answer: Value = serde_json::from_str(&body[start..end]).unwrap();
    answer[platform][0]["messages"].as_array().cloned().unwrap_or_default()
}

/// A platform where a post is decided about: the account, its desk, and who presses there.
struct AtDesk {
    platform: &'static str,
    account: &'static str,
    desk: &'static str,
    kind: &'static str,
}

impl AtDesk {
    /// Somebody at the desk presses a button of what stands there.
    fn press(&self, world: &World, button: &Value, name: &str, id: i64) {
        let mut press = button["press"].clone();
        match self.platform {
            "telegram" => press["callback_query"]["from"] = json!({"id": id, "first_name": name}),
            "max" => {
                let user = json!({"user_id": id, "first_name": name, "name": name});
                press["callback"]["user"] = user;
            }
            _ => press["object"]["user_id"] = json!(id),
        }
        let path = format!("/_/updates/{}", self.platform);
        let (status, answer) = ask(world.sandbox.address(), "POST", &path, &[], &press.to_string());
        assert_eq!(status, 200, "{}: {answer}", self.platform);
    }
}

/// A post that nobody is sure of is shown with two buttons where operators answer. Whoever presses decides, once.
async fn a_press_decides(at: &AtDesk) {
    let folder = tempfile::tempdir().unwrap();
    let address = format!("sqlite:{}", folder.path().join("bot.db").display());
    let world = World::new(address, folder.path()).await;
    let mut account = json!({"platform": at.platform, "token": "42:token-of-the-shop", "kind": at.kind});
    if at.platform == "vk" {
        account["id"] = json!("77");
    }
    assert_eq!(ask(world.sandbox.address(), "POST", "/_/accounts", &[], &account.to_string()).0, 200);
    let operators = "operators = { channel = \"support\", wait = \"10m\", back = \"12h\" }\n[states.menu]\n";
    std::fs::write(folder.path().join("rules.toml"), rules().replace("[states.menu]\n", operators)).unwrap();
    let config = format!(
        "[bots.shop]\naccounts = [\"desk\"]\nrules = \"rules.toml\"\n\
         [accounts.desk]\nplatform = \"{}\"\ntoken = {{ env = \"TOKEN\" }}\n{}\
         [channels.support]\naccount = \"desk\"\ntarget = {}\nchat_kind = \"group\"\nroute = {{ any = [\"kind:ad\"] }}\n\
         [accounts.out]\nplatform = \"telegram\"\ntoken = {{ env = \"OUT\" }}\n\
         [channels.found]\naccount = \"out\"\ntarget = -1009\nunsure = \"hold\"\n\
         route = {{ all = [{{ not = \"kind:lost\" }}] }}\n",
        at.platform, at.account, at.desk
    );
    std::fs::write(folder.path().join("rupor.toml"), config).unwrap();
    let file = folder.path().join("rupor.toml").display().to_string();
    let run = |args: &[&str]| {
        let mut command = world.rupor(args);
        command.env("TOKEN", "42:token-of-the-shop").env("OUT", "43:token-of-another").stdout(Stdio::piped());
        let done = command.output().unwrap();
        assert!(done.status.success(), "{args:?}: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap()
    };
    run(&["apply", &file, "--yes"]);
    let _node = world.node(world.ports[0]);
    let listens = || {
        at.platform != "vk" || world.said().contains("getLongPollServer") || {
            let rows = world.sandbox.core().ledger.rows(Name::Vk);
            rows.iter().any(|row| row.method == "groups.getLongPollServer")
        }
    };
    world.wait_for("the first poll", listens).await;
    for text in ["Собака. Фото", "Наша собака у подъезда"] {
        run(&["post", text]);
    }
    let desk = || visible(&world, at.platform, at.desk);
    // What is told to operators is a message too, so the second post may have any number.
    let asked = |words: &str| {
        let text = |message: &Value| message["text"].as_str().unwrap_or_default().to_owned();
        let found = desk().into_iter().find(|message| text(message).contains(words))?;
        let number = text(&found).split_once("Post ")?.1.split_once(',')?.0.to_owned();
        Some((number, found))
    };
    let (dog, door) = ("Собака. Фото", "Наша собака у подъезда");
    world.wait_for("both questions", || asked(dog).is_some() && asked(door).is_some()).await;
    let (one, first) = asked(dog).unwrap();
    let (two, second) = asked(door).unwrap();
    let text = first["text"].as_str().unwrap();
    assert!(text.contains("publish it?") && text.contains("Собака. Фото"), "{text}");
    let button = |message: &Value, n: usize| message["buttons"][0][n].clone();
    assert_eq!(
        (&button(&first, 0)["text"], &button(&first, 1)["text"]),
        (&json!("Publish"), &json!("Do not publish"))
    );
    let out = || world.told(Name::Telegram).get("-1009").cloned().unwrap_or_default();
    let ends = |id: &str, how: &str| {
        let mark = format!("Post {id} is {how}");
        let told = desk().into_iter().filter_map(|message| message["text"].as_str().map(str::to_owned));
        told.filter(|text| text.contains(&mark)).collect::<Vec<_>>()
    };
    at.press(&world, &button(&first, 0), "Анна", 900);
    world.wait_for("the post", || !out().is_empty()).await;
    world.wait_for("the end of the first", || !ends(&one, "approved").is_empty()).await;
    at.press(&world, &button(&second, 1), "Анна", 900);
    world.wait_for("the end of the second", || !ends(&two, "rejected").is_empty()).await;
    let notices = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let mut changes = world.sandbox.core().chats.subscribe();
    let heard = std::sync::Arc::clone(&notices);
    tokio::spawn(async move {
        loop {
            match changes.recv().await {
                Ok(change) => heard.lock().unwrap().extend(change.notice),
                Err(tokio::sync::broadcast::error::RecvError::Lagged(_)) => {}
                Err(_) => return,
            }
        }
    });
    // Somebody else presses later, and wants the opposite: they hear who was first, and nothing changes.
    at.press(&world, &button(&first, 1), "Борис", 901);
    let answered =
        || notices.lock().unwrap().iter().any(|text: &String| text.starts_with("Already approved: "));
    world.wait_for("the notice for the second press", answered).await;
    let waits = run(&["message", "list"]);
    assert!(waits.contains("no post waits for a person"), "{waits}");
    assert_eq!(out().len(), 1, "{:?}", out());
    assert_eq!((ends(&one, "approved").len(), ends(&two, "rejected").len()), (1, 1), "{:#?}", desk());
    let who =
        if at.platform == "vk" { "vk 900".to_owned() } else { format!("Анна ({} 900)", at.platform) };
    assert!(ends(&one, "approved")[0].contains(&who), "{:?}", ends(&one, "approved"));
    let events = run(&["events", "--json"]);
    let decided = events.lines().filter(|line| line.contains("\"approved\"") && line.contains(&who)).count();
    assert_eq!(decided, 1, "{events}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_press_in_the_operators_chat_decides_about_a_held_post_on_telegram() {
    a_press_decides(&AtDesk { platform: "telegram", account: "", desk: "-900", kind: "bot" }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_press_in_the_operators_chat_decides_about_a_held_post_on_max() {
    a_press_decides(&AtDesk { platform: "max", account: "", desk: "-900", kind: "bot" }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_press_in_the_operators_chat_decides_about_a_held_post_on_vk() {
    let account = "kind = \"community\"\ngroup_id = 77\n";
    let desk = "2000000001";
    a_press_decides(&AtDesk { platform: "vk", account, desk, kind: "community" }).await;
}

/// A shop's service: each request is handed over, and answered with what comes back; nothing comes: it hangs.
fn service() -> (u16, std::sync::mpsc::Receiver<String>, std::sync::mpsc::Sender<Option<&'static str>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (asks, asked) = std::sync::mpsc::channel();
    let (answer, answers) = std::sync::mpsc::channel::<Option<&'static str>>();
    std::thread::spawn(move || {
        let mut hanging = Vec::new();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let (mut request, mut piece) = (String::new(), [0; 4096]);
            while !request.contains("\r\n\r\n") || !request.ends_with('}') {
                match stream.read(&mut piece) {
                    Ok(n) if n > 0 => request += &String::from_utf8_lossy(&piece[..n]),
                    _ => break,
                }
            }
            let Ok(()) = asks.send(request) else { return };
            match answers.recv() {
                Ok(Some(text)) => {
                    let _ = stream.write_all(text.as_bytes());
                }
                Ok(None) => hanging.push(stream),
                Err(_) => return,
            }
        }
    });
    (port, asked, answer)
}

/// A node that dies between the question and the answer asks again, with the same key; an answer that is a page is none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shop_s_own_service_is_asked_through_a_kill_and_its_answer_fills_a_slot() {
    let folder = tempfile::tempdir().unwrap();
    let address = format!("sqlite:{}", folder.path().join("bot.db").display());
    let world = World::new(address, folder.path()).await;
    let account = json!({"platform": "max", "token": "42:token-of-the-shop", "kind": "bot"});
    assert_eq!(ask(world.sandbox.address(), "POST", "/_/accounts", &[], &account.to_string()).0, 200);
    let (port, asked, answer) = service();
    let asking = "[slots.status]\nkind = \"text\"\n[[rules]]\nname = \"order\"\non = { text = \"заказ\" }\n\
                  call = { service = \"orders\", take = [\"status\"] }\nreply = \"смотрю\"\n\
                  [[rules]]\nname = \"known\"\non = { event = \"orders.ok\" }\nreply = \"заказ {status}\"\n\
                  [[rules]]\nname = \"unknown\"\non = { event = \"orders.failed\" }\nreply = \"не знаю\"\n";
    std::fs::write(folder.path().join("rules.toml"), rules() + asking).unwrap();
    let config = format!(
        "[bots.shop]\naccounts = [\"max\"]\nrules = \"rules.toml\"\n[bots.shop.services.orders]\n\
         url = \"http://127.0.0.1:{port}/orders?key=hidden\"\nsecret = {{ env = \"SECRET\" }}\n[accounts.max]\n\
         platform = \"max\"\ntoken = {{ env = \"TOKEN\" }}\n"
    );
    std::fs::write(folder.path().join("rupor.toml"), config).unwrap();
    let file = folder.path().join("rupor.toml").display().to_string();
    let mut apply = world.rupor(&["apply", &file, "--yes"]);
    apply.env("TOKEN", "42:token-of-the-shop").env("SECRET", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
    let applied = apply.output().unwrap();
    assert!(applied.status.success(), "{}", String::from_utf8_lossy(&applied.stderr));
    let node = world.node(world.ports[0]);
    write(&world, "max", 502, 502, "заказ");
    let first = tokio::task::block_in_place(|| asked.recv_timeout(PATIENCE)).unwrap();
    answer.send(None).unwrap();
    node.kill();
    let _node = world.node(world.ports[0]);
    let second = tokio::task::block_in_place(|| asked.recv_timeout(PATIENCE)).unwrap();
    let id = |request: &str| {
        let line = request.lines().find(|line| line.to_lowercase().starts_with("webhook-id: "));
        line.unwrap_or_default().to_owned()
    };
    assert_eq!(id(&first), id(&second));
    assert!(id(&first).contains("_call_") && first.contains("webhook-signature: v1,"), "{first}");
    let json = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n{\"status\": \"в пути\"}";
    answer.send(Some(json)).unwrap();
    let told = || world.told(Name::Max).into_values().next().unwrap_or_default();
    world.wait_for("the answer of the service", || told().len() >= 2).await;
    assert_eq!(told(), ["смотрю", "заказ в пути"]);
    write(&world, "max", 502, 502, "заказ");
    tokio::task::block_in_place(|| asked.recv_timeout(PATIENCE)).unwrap();
    let html = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n<html>sorry</html>";
    answer.send(Some(html)).unwrap();
    world.wait_for("the failure", || told().len() >= 4).await;
    assert_eq!(told()[2..], ["смотрю", "не знаю"]);
    assert!(world.said().contains("its answer is text/html, not JSON"), "{}", world.said());
    let run = |args: &[&str]| {
        let done = world.rupor(args).stdout(Stdio::piped()).output().unwrap();
        assert!(done.status.success(), "{args:?}: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap()
    };
    let listed = run(&["bot", "status"]);
    assert!(listed.contains(&format!("http://127.0.0.1:{port}/orders?key=***")), "{listed}");
    assert!(listed.contains("its answer is text/html, not JSON") && !listed.contains("hidden"), "{listed}");
    let listed: Value = serde_json::from_str(&run(&["bot", "status", "--json"])).unwrap();
    let orders = &listed["services"][0];
    assert_eq!(
        (&orders["service"], &orders["called"], &orders["calls"]),
        (&json!("orders"), &json!(true), &json!(2))
    );
    assert_eq!((&orders["failures"], &orders["waiting"]), (&json!(1), &json!(0)), "{listed}");
}

/// Somebody sets a webhook for a bot that is polled: the node says what is wrong and what helps, and what people wrote
/// meanwhile is answered once the webhook is gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_that_is_set_while_polling_is_told_with_what_helps_and_nothing_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let address = format!("sqlite:{}", folder.path().join("bot.db").display());
    let world = World::new(address, folder.path()).await;
    let account = json!({"platform": "telegram", "token": "42:token-of-the-shop", "kind": "bot"});
    assert_eq!(ask(world.sandbox.address(), "POST", "/_/accounts", &[], &account.to_string()).0, 200);
    let config = "[bots.shop]\naccounts = [\"telegram\"]\nrules = \"rules.toml\"\n[accounts.telegram]\n\
                  platform = \"telegram\"\ntoken = { env = \"TOKEN\" }\n";
    std::fs::write(folder.path().join("rules.toml"), rules()).unwrap();
    std::fs::write(folder.path().join("rupor.toml"), config).unwrap();
    let file = folder.path().join("rupor.toml").display().to_string();
    let run = |args: &[&str]| {
        let mut command = world.rupor(args);
        let done = command.env("TOKEN", "42:token-of-the-shop").stdout(Stdio::piped()).output().unwrap();
        assert!(done.status.success(), "{args:?}: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap()
    };
    run(&["apply", &file, "--yes"]);
    let _node = world.node(world.ports[0]);
    let said = || world.told(Name::Telegram).get("501").cloned().unwrap_or_default();
    write(&world, "telegram", 501, 501, "раз");
    world.wait_for("the first answer", || said() == ["ответ раз"]).await;
    // An address that nobody answers at: what is written now waits at the platform.
    let hook = json!({"url": "http://127.0.0.1:9/elsewhere"}).to_string();
    let path = "/telegram/bot42:token-of-the-shop/setWebhook";
    let (status, answer) = ask(world.sandbox.address(), "POST", path, &[], &hook);
    assert_eq!(status, 200, "{answer}");
    let told = || run(&["bot", "status"]).contains("rupor bot hooks remove");
    world.wait_for("the conflict", told).await;
    assert!(world.said().contains("the platform refuses to be polled"), "{}", world.said());
    write(&world, "telegram", 501, 501, "два");
    run(&["bot", "hooks", "remove", "shop"]);
    world.wait_for("the second answer", || said() == ["ответ раз", "ответ два"]).await;
    assert!(!told(), "it hears again, and nobody is told otherwise");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn webhooks_are_set_shown_and_removed_at_the_platforms() {
    let folder = tempfile::tempdir().unwrap();
    let address = format!("sqlite:{}", folder.path().join("bot.db").display());
    let world = World::new(address, folder.path()).await;
    let mut config = "[bots.shop]\naccounts = [\"telegram\", \"max\", \"vk\"]\nrules = \"rules.toml\"\n\
                      receive = \"webhook\"\n"
        .to_owned();
    for (name, more) in [("telegram", ""), ("max", ""), ("vk", "kind = \"community\"\ngroup_id = 77\n")] {
        config += &format!("[accounts.{name}]\nplatform = \"{name}\"\ntoken = {{ env = \"TOKEN\" }}\n{more}");
    }
    let community =
        json!({"platform": "vk", "token": "42:token-of-the-shop", "kind": "community", "id": "77"});
    assert_eq!(ask(world.sandbox.address(), "POST", "/_/accounts", &[], &community.to_string()).0, 200);
    let other = "/vk/method/groups.addCallbackServer?group_id=77&url=https://crm.example.org/hooks/vk/1&title=crm\
                 &access_token=42:token-of-the-shop&v=5.199";
    let (status, answer) = ask(world.sandbox.address(), "GET", other, &[], "");
    assert!(status == 200 && answer.contains("server_id"), "{answer}");
    std::fs::write(folder.path().join("rules.toml"), rules()).unwrap();
    std::fs::write(folder.path().join("rupor.toml"), config).unwrap();
    let file = folder.path().join("rupor.toml").display().to_string();
    let run = |args: &[&str]| {
        let mut command = world.rupor(args);
        let done = command.env("TOKEN", "42:token-of-the-shop").stdout(Stdio::piped()).output().unwrap();
        assert!(done.status.success(), "{args:?}: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap()
    };
    run(&["apply", &file, "--yes"]);
    assert!(run(&["status"]).contains("rupor bot hooks set shop"), "nobody can call yet");
    let set = |url: &str| -> Value {
        serde_json::from_str(&run(&["bot", "hooks", "set", "shop", "--url", url, "--json"])).unwrap()
    };
    set("https://old.example.org");
    let set = set("https://bot.example.org");
    assert_eq!(set.as_array().unwrap().len(), 3);
    assert!(!run(&["status"]).contains("rupor bot hooks set shop"));
    let show = || serde_json::from_str::<Value>(&run(&["bot", "hooks", "show", "shop", "--json"])).unwrap();
    let foreign = json!("https://crm.example.org/hooks/vk/1");
    for (hook, set) in show().as_array().unwrap().iter().zip(set.as_array().unwrap()) {
        let mut urls = hook["urls"].as_array().unwrap().clone();
        urls.retain(|url| *url != foreign);
        assert_eq!(
            (&hook["ours"], urls),
            (&json!(true), vec![set["url"].clone()]),
            "the earlier one is gone: {hook}"
        );
    }
    let removed = run(&["bot", "hooks", "remove", "shop"]);
    assert_eq!(removed.trim(), "3 webhooks removed; 1 of other programs stay, --all removes them too");
    let left: Vec<Value> = show().as_array().unwrap().iter().map(|hook| hook["urls"].clone()).collect();
    assert_eq!(left, [json!([]), json!([]), json!([foreign])]);
    run(&["bot", "hooks", "remove", "shop", "--all"]);
    assert!(show().as_array().unwrap().iter().all(|hook| hook["urls"] == json!([])));
    let versions: Value = serde_json::from_str(&run(&["bot", "versions", "shop", "--json"])).unwrap();
    assert_eq!((&versions[0]["version"], &versions[0]["active"]), (&json!(1), &json!(true)));
    let unknown = world.rupor(&["bot", "activate", "shop", "7"]).output().unwrap();
    let said = String::from_utf8_lossy(&unknown.stderr).into_owned();
    assert!(
        !unknown.status.success() && said.contains("bot shop has no version 7 of its rules; there is 1"),
        "{said}"
    );
    assert!(run(&["bot", "status"]).contains("webhook"));
    assert!(run(&["chats"]).contains("no chat is known yet"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_on_sqlite_is_killed_and_every_message_is_answered_once_and_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let address = format!("sqlite:{}", folder.path().join("bot.db").display());
    answered_through_kills(World::new(address, folder.path()).await, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_nodes_on_postgres_are_killed_and_every_message_is_answered_once_and_in_order() {
    let server = std::env::var("RUPOR_TEST_POSTGRES_DURABLE").expect("`./test` starts a durable server");
    let (client, connection) = tokio_postgres::connect(&server, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let name = format!("bot_{}", uuid::Uuid::new_v4().simple());
    client.batch_execute(&format!("CREATE DATABASE {name}")).await.unwrap();
    let (base, _) = server.rsplit_once('/').unwrap();
    let folder = tempfile::tempdir().unwrap();
    answered_through_kills(World::new(format!("{base}/{name}"), folder.path()).await, 2).await;
}

/// Every update is told three times, in any order where it does not matter, while nodes die.
async fn answered_through_kills(world: World, n_nodes: usize) {
    let (dialogues, kills) = (from_env("RUPOR_BOT_DIALOGUES", 12), from_env("RUPOR_BOT_KILLS", 3));
    let store = open(&world).await;
    let ws = store.create_workspace("магазин").await.unwrap();
    let settings = AccountSettings {
        api_base: Some(world.sandbox.base(Name::Max).into()),
        ..AccountSettings::default()
    };
    let token = SecretString::from("42:token-of-the-shop");
    let new = NewAccount { platform: "max".into(), name: "max".into(), token, settings };
    let account = store.create_account(ws, new).await.unwrap();
    let new = NewBot {
        name: "shop".into(),
        accounts: vec![account],
        receive: Receive::Webhook,
        operators: None,
        services: Default::default(),
    };
    let bot = store.put_bot(ws, new).await.unwrap();
    store.put_bot_rules(ws, bot, &rules()).await.unwrap();
    let hash = platforms::secret::sha256(SECRET.as_bytes());
    store.set_bot_hook(ws, account, "random-part", Some(&hash), json!({})).await.unwrap();
    drop(store);

    let ports = world.ports[..n_nodes].to_vec();
    let sending = tokio::task::spawn_blocking(move || tell_everything(dialogues, &ports));
    let mut nodes: Vec<Node> = world.ports[..n_nodes].iter().map(|port| world.node(*port)).collect();
    let mut dice = rand::rngs::StdRng::seed_from_u64(7);
    for _ in 0..kills {
        tokio::time::sleep(Duration::from_millis(dice.random_range(300..1_500))).await;
        let n = dice.random_range(0..nodes.len());
        nodes.remove(n).kill();
        nodes.insert(n, world.node(world.ports[n]));
    }
    sending.await.unwrap();
    let wanted: Vec<String> = WORDS.map(|word| format!("ответ {word}")).to_vec();
    let all = || world.told(Name::Max).values().map(Vec::len).sum::<usize>() >= dialogues * WORDS.len();
    world.wait_for("the last answer", all).await;
    let told = world.told(Name::Max);
    assert_eq!(told.len(), dialogues);
    let mut sorted = wanted.clone();
    sorted.sort();
    for (chat, mut told) in told {
        let person = chat.parse::<usize>().unwrap() - 5_000;
        match is_shuffled(person) {
            true => {
                told.sort();
                assert_eq!(told, sorted, "chat {chat}\n{}", world.said());
            }
            false => assert_eq!(told, wanted, "chat {chat}\n{}", world.said()),
        }
    }
}

/// Calls that the platform has open at a time.
const CALLERS: usize = 8;

/// A platform that tells what it has to until somebody says 200; it tells everything three times. Of every second person the
/// first tellings come in any order.
fn tell_everything(dialogues: usize, ports: &[u16]) {
    let tell = |caller: usize| {
        let mut dice = rand::rngs::StdRng::seed_from_u64(3 + caller as u64);
        let mut told: Vec<Value> = Vec::new();
        let people: Vec<usize> = (0..dialogues).filter(|person| person % CALLERS == caller).collect();
        let mut orders: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for person in &people {
            let mut order: Vec<usize> = (0..WORDS.len()).collect();
            if is_shuffled(*person) {
                order.shuffle(&mut dice);
            }
            orders.insert(*person, order);
        }
        for place in 0..WORDS.len() {
            let mut people = people.clone();
            people.shuffle(&mut dice);
            for person in people {
                let n = orders.get(&person).map_or(place, |order| order[place]);
                told.push(update(person, n, WORDS[n]));
                deliver(told.last().unwrap(), ports, &mut dice);
                for _ in 0..2 {
                    let again = dice.random_range(0..told.len());
                    deliver(&told[again], ports, &mut dice);
                }
            }
        }
    };
    let tell = &tell;
    std::thread::scope(|scope| {
        let callers: Vec<_> = (0..CALLERS).map(|caller| scope.spawn(move || tell(caller))).collect();
        callers.into_iter().for_each(|caller| caller.join().unwrap());
    });
}

fn is_shuffled(person: usize) -> bool {
    person % 2 == 1
}

fn update(person: usize, n: usize, word: &str) -> Value {
    let (user, at) = (1_000 + person, 1_790_000_000_000_i64 + n as i64 * 1_000);
    json!({"update_type": "message_created", "timestamp": at, "message": {
        "timestamp": at, "sender": {"user_id": user, "first_name": "Анна", "is_bot": false},
        "recipient": {"chat_id": 5_000 + person, "chat_type": "dialog", "user_id": 42},
        "body": {"mid": format!("mid.{person}.{n}"), "seq": n, "text": word}}})
}

fn deliver(update: &Value, ports: &[u16], dice: &mut rand::rngs::StdRng) {
    let started = Instant::now();
    loop {
        let at = SocketAddr::from(([127, 0, 0, 1], ports[dice.random_range(0..ports.len())]));
        let secret = ("X-Max-Bot-Api-Secret", SECRET);
        let (status, answer) = ask(at, "POST", "/hooks/max/random-part", &[secret], &update.to_string());
        if status == 200 {
            return;
        }
        assert!(status == 0 || status >= 500, "{status} {answer}");
        assert!(started.elapsed() < PATIENCE, "nobody takes it: {status} {answer}");
        std::thread::park_timeout(Duration::from_millis(20));
    }
}

/// One request; status 0: nobody answered.
fn ask(at: SocketAddr, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> (u16, String) {
    let mut request = format!(
        "{method} {path} HTTP/1.1\r\nHost: {at}\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n",
        body.len()
    );
    for (name, value) in headers {
        request += &format!("{name}: {value}\r\n");
    }
    let answer = TcpStream::connect(at).and_then(|mut stream| {
        stream.set_read_timeout(Some(Duration::from_secs(30)))?;
        stream.write_all(format!("{request}\r\n{body}").as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    });
    let answer = answer.unwrap_or_default();
    let status = answer.split_whitespace().nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    (status, answer)
}
