//! Files and variables as people get them right and wrong.

use domain::chat::ChatKind;
use domain::time::Span;
use serde_json::json;
use store::{Address, Clock, Keyring, Store};

use super::plan::{Absent, apply, plan};
use super::*;

/// Every variable is set to something that could be a token.
fn all_set(name: &str) -> Option<String> {
    match name {
        "RUPOR_PLATFORM_LIMITS" => None,
        name => Some(format!("123:{name}-0123456789")),
    }
}

fn parse(text: &str) -> Result<Config, ConfigError> {
    meaning::parse(text, "rupor.toml", Path::new("."), &all_set)
}

fn example() -> Config {
    parse(include_str!("../../../../rupor.example.toml")).unwrap()
}

/// A small file that works, with more lines inside the channel.
fn file(channel: &str) -> String {
    format!(
        "[accounts.bot]\nplatform = \"telegram\"\ntoken = \"env:TG_TOKEN\"\n\n[channels.lost]\naccount = \"bot\"\ntarget = -1001\n{channel}\n"
    )
}

#[track_caller]
fn refused(text: &str, expected: &str) {
    let said = parse(text).unwrap_err().to_string();
    assert_eq!(said, expected);
}

#[test]
fn the_example_loads_and_means_what_it_says() {
    let config = example();
    let names: Vec<&str> = config.workspaces.iter().map(|workspace| workspace.name.as_str()).collect();
    assert_eq!(names, ["default", "shop"]);
    let pets = &config.workspaces[0];
    assert_eq!((pets.accounts.len(), pets.channels.len(), pets.endpoints.len()), (4, 3, 1));
    let lost = pets.channels.iter().find(|channel| channel.name == "lost").unwrap();
    assert_eq!(lost.settings.dedup_ttl, Span::from_hours(72));
    assert_eq!(lost.settings.quiet_hours.as_deref(), Some("23:00-07:00"));
    assert_eq!(lost.settings.time_zone.as_deref(), Some("Europe/Moscow"));
    let sources: Vec<&str> = pets.sources.iter().map(|source| source.name.as_str()).collect();
    assert_eq!(sources, ["city/lostpets_example", "city/-7654321", "shelter"]);
    let read = engine::ingest::SourceSettings::of(&pets.sources[0].settings).unwrap();
    assert_eq!((read.city.as_deref(), read.utc_offset_minutes), (Some("Пермь"), 300));
    let news = &config.workspaces[1].channels[0].settings;
    assert_eq!((news.dedup, news.route.as_deref()), (store::DedupMode::Content, Some("{}")));
}

/// Every key that is commented out in the example would be taken, too.
#[test]
fn the_example_names_every_key() {
    let uncommented: String = include_str!("../../../../rupor.example.toml")
        .lines()
        .map(|line| match line.strip_prefix("# ") {
            Some(rest) if rest.split_once(" = ").is_some_and(|(key, _)| !key.contains(' ')) => rest,
            _ => line,
        })
        .fold(String::new(), |text, line| text + line + "\n");
    let config = parse(&uncommented).unwrap();
    let lost = config.workspaces[0].channels.iter().find(|channel| channel.name == "lost").unwrap();
    assert_eq!(lost.settings.settings["topic"], 12);
    for key in [
        "rate",
        "burst",
        "max_parallel",
        "retry_parallel",
        "api_base",
        "proxy",
        "paused",
        "tier",
        "extra_roots",
    ] {
        assert!(uncommented.contains(&format!("\n{key} = ")), "{key}");
    }
}

#[test]
fn mistakes_are_told_with_file_line_and_fix() {
    refused(
        &file("silnet = true"),
        "rupor.toml:8: unknown key `silnet`; did you mean `silent`? known are `account`, `target`, `preset`, `chat_kind`, `rate`, \
         `max_parallel`, `ambiguity`, `dedup`, `dedup_ttl`, `max_age`, `template`, `parse_mode`, `body_max`, `overflow`, \
         `max_media`, `route`, `quiet_hours`, `time_zone`, `silent`, `preview`, `topic`, `pin`, `from_group`, \
         `attach_media`, `protect`, `on_close`, `on_edit`, `on_gone`, `unsure`, `timeout`, `upload_timeout`, `enabled`, \
         `paused`, `tags`, `was`",
    );
    refused(
        &file("dedup_ttl = \"3 days\""),
        "rupor.toml:8: \"3 days\" is not a time; write a number with its unit, such as 500ms, 10s, 5m, 72h or 7d",
    );
    refused(
        &file("rate = 0"),
        "rupor.toml:8: 0 is not a rate; write how many a second, above 0, such as 0.5",
    );
    refused(
        &file("unsure = \"hold\""),
        "rupor.toml:5: channel lost: unsure = \"hold\" would never hold anything: searches are published at once, and \
         this channel has no route that asks for another kind; write one, such as any = [\"kind:found\"]",
    );
    refused(
        &file("dedup = \"kase\""),
        "rupor.toml:8: unknown value `kase`; did you mean `case`? known are `content`, `fingerprint`, `case`, `off`",
    );
    refused(
        &file("quiet_hours = \"night\""),
        "rupor.toml:8: \"night\" are not hours of a day; write from-until in hours and minutes, such as 23:00-07:00",
    );
    refused(
        &file("time_zone = \"Moscow\""),
        "rupor.toml:8: time zone \"Moscow\" is not known; write a name such as Europe/Moscow or UTC",
    );
    refused(
        &file("route = { any = [\"kind:lots\"] }"),
        "rupor.toml:8: route at `any[0]`: unknown value `lots` of `kind`; known are lost, found, sighting, reunited, \
         adoption, fundraising, news, ad, link, empty, other",
    );
}

#[test]
fn names_are_looked_up_and_all_mistakes_come_at_once() {
    let text = "[accounts.bot]\nplatform = \"telegram\"\ntoken = { file = \"нет.txt\" }\n\n\
                [channels.a]\naccount = \"bto\"\ntarget = 1\n\n[channels.b]\naccount = \"bot\"\ntarget = \"чат\"\n\n\
                [sources.w]\nkind = \"vk\"\n";
    let said = parse(text).unwrap_err().to_string();
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines[0].starts_with("rupor.toml:3: secret file нет.txt: "), "{said}");
    assert_eq!(lines[1], "rupor.toml:6: account \"bto\" is not in this file; known are bot");
    assert!(lines[2].starts_with("rupor.toml:9: channel b: telegram: bad target \"чат\""), "{said}");
    assert!(lines[3].starts_with("rupor.toml:13: source w: a vk source needs groups"), "{said}");
}

#[test]
fn a_kind_of_source_that_nobody_reads_is_refused_with_those_that_are_read() {
    refused(
        &file("[sources.w]\nkind = \"telegram\"\ngroups = [1]\n"),
        "rupor.toml:9: unknown kind of source \"telegram\"; known are vk, feed",
    );
}

#[test]
fn a_secret_in_the_file_is_refused_and_not_repeated() {
    let said = parse(&file("").replace("env:TG_TOKEN", "77:canary")).unwrap_err().to_string();
    assert!(said.starts_with("rupor.toml:3: write where the secret is"), "{said}");
    assert!(!said.contains("canary"), "{said}");
    let unset = meaning::parse(&file(""), "r.toml", Path::new("."), &|_| None).unwrap_err().to_string();
    assert_eq!(unset, "r.toml:3: variable TG_TOKEN is not set; set it to the token, or name another one");
}

#[test]
fn broken_toml_is_told_with_its_line() {
    let said = parse("[accounts.bot\nplatform = 1").unwrap_err().to_string();
    assert!(said.starts_with("rupor.toml:1: "), "{said}");
    let missing = from_file(Path::new("/нет/rupor.toml"), &all_set).unwrap_err().to_string();
    assert!(missing.contains("cannot be read"), "{missing}");
}

#[test]
fn rates_are_a_little_below_what_the_platform_allows() {
    let group = file("rate = 5").replace("-1001", "-77");
    let rates = |config: Config| {
        let workspace = &config.workspaces[0];
        (workspace.accounts[0].settings.rate, workspace.channels[0].settings.rate)
    };
    assert_eq!(rates(parse(&group).unwrap()), (Some(29.4), Some(20.0 / 60.0 * 0.98)));
    assert_eq!(rates(parse(&file("")).unwrap()).1, Some(20.0 / 60.0 * 0.98), "-1001 is a group");
    let off = |name: &str| match name {
        "RUPOR_PLATFORM_LIMITS" => Some("off".to_owned()),
        name => all_set(name),
    };
    let lifted = meaning::parse(&group, "rupor.toml", Path::new("."), &off).unwrap();
    assert_eq!(rates(lifted), (None, Some(5.0)));
}

#[test]
fn a_rate_above_what_the_platform_allows_is_said() {
    let notes = |text: &str| parse(text).unwrap().notes;
    assert_eq!(notes(&file("rate = 0.1")), Vec::<String>::new());
    assert_eq!(
        notes(&file("rate = 50")),
        ["channel lost: rate is 50/s, but the platform allows the chat 20/min; 19.6/min is used"]
    );
    let fast = file("").replace("platform = \"telegram\"", "platform = \"telegram\"\nrate = 100");
    assert_eq!(
        notes(&fast),
        ["account bot: rate is 100/s, but the platform allows the account 30/s; 29.4/s is used"]
    );
}

#[tokio::test]
async fn a_tier_limits_the_accounts_that_name_it() {
    let tiers = "[tiers.slow]\nrate = 0.5\nburst = 2\nmax_parallel = 3\nretry_parallel = 1\n\n";
    let named = |tier: &str| file("").replace("token =", &format!("tier = \"{tier}\"\ntoken ="));
    let config = parse(&format!("{tiers}{}", named("slow"))).unwrap();
    let settings = &config.workspaces[0].accounts[0].settings;
    assert_eq!((settings.tier.as_str(), settings.burst, settings.max_parallel), ("slow", 2, 3));
    let store = empty_store().await;
    apply(&store, &config, Absent::Remove).await.unwrap();
    let ws = store.workspaces().await.unwrap()[0].workspace_id;
    let id = store.accounts(ws).await.unwrap()[0].account_id;
    let limit = store.platform_limit(ws, id).await.unwrap();
    assert_eq!(limit, Some(store::PlatformLimit { rate: Some(0.5), burst: 2 }));
    assert_eq!(plan(&store, &config, Absent::Remove).await.unwrap().steps, []);
    apply(&store, &parse(&file("")).unwrap(), Absent::Remove).await.unwrap();
    assert_eq!(store.platform_limit(ws, id).await.unwrap(), None);
    refused(
        &named("quick"),
        "rupor.toml:3: there is no tier quick; write [tiers.quick], or use standard or paid",
    );
}

/// The variables of a quick start.
fn variables(pairs: &'static [(&'static str, &'static str)]) -> impl Fn(&str) -> Option<String> {
    move |name| pairs.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
}

#[test]
fn the_quick_start_needs_three_variables() {
    let config =
        from_env(&variables(&[("TG_ENABLED", "true"), ("TG_TOKEN", "1:abc"), ("TG_CHAT", "-1001234567890")]))
            .unwrap();
    let workspace = &config.workspaces[0];
    assert_eq!(workspace.name, "default");
    let channel = &workspace.channels[0];
    assert_eq!((channel.target.as_str(), channel.settings.rate), ("-1001234567890", Some(0.98)));
    assert_eq!(channel.settings.parse_mode.as_deref(), Some("HTML"));
    assert_eq!(
        (channel.settings.dedup, channel.settings.dedup_ttl),
        (store::DedupMode::Case, Span::from_hours(72))
    );
    assert_eq!(channel.settings.route.as_deref(), Some(r#"{"any":["kind:lost"]}"#));
    assert_eq!((channel.settings.max_media, &channel.settings.settings["timeout"]), (10, &json!("10s")));
}

#[test]
fn the_quick_start_knows_all_three_platforms_and_the_walls() {
    let config = from_env(&variables(&[
        ("VK_TOKEN", "vk1.a.token"),
        ("VK_GROUPS", "-1, lostpets ,"),
        ("VK_OUT_ENABLED", "1"),
        ("VK_OUT_OWNER_ID", "-55"),
        ("VK_OUT_ATTACH_MEDIA", "false"),
        ("MAX_ENABLED", "yes"),
        ("MAX_TOKEN", "max-token"),
        ("MAX_CHAT", "-70"),
        ("MAX_RATE_PER_SEC", "9"),
        ("DEDUP_ENABLED", "false"),
        ("DEDUP_STRICT_NO_PHONE", "true"),
    ]))
    .unwrap();
    let workspace = &config.workspaces[0];
    let names: Vec<&str> = workspace.accounts.iter().map(|account| account.name.as_str()).collect();
    assert_eq!(names, ["vk", "vk_out", "max"]);
    assert_eq!(workspace.accounts[0].token, workspace.accounts[1].token, "one shared budget");
    assert_eq!(workspace.channels[0].settings.settings["attach_media"], false);
    assert_eq!(workspace.channels[0].settings.dedup, store::DedupMode::Off);
    assert_eq!(workspace.channels[1].settings.rate, Some(1.96), "MAX allows two a second");
    assert_eq!(
        config.notes,
        ["MAX_RATE_PER_SEC is 9/s, but the platform allows the chat 2/s; 1.96/s is used"]
    );
    let rates: Vec<Option<f64>> = workspace.accounts.iter().map(|account| account.settings.rate).collect();
    assert_eq!(rates, [Some(2.94), Some(2.94), Some(29.4)], "a little below what the platforms allow");
    let sources: Vec<&str> = workspace.sources.iter().map(|source| source.address.as_str()).collect();
    assert_eq!(sources, ["-1", "lostpets"]);
    assert_eq!(workspace.sources[0].settings["strict_no_phone"], true);
}

#[test]
fn bad_variables_are_named_with_the_fix() {
    let said = from_env(&variables(&[
        ("VK_GROUPS", "lostpets"),
        ("TG_ENABLED", "true"),
        ("TG_TOKEN", "not a token"),
        ("TG_CHAT", "-100"),
        ("TG_RATE_PER_SEC", "fast"),
        ("TG_HTTP_TIMEOUT", "10"),
        ("MAX_ENABLED", "maybe"),
        ("VK_OUT_ENABLED", "true"),
        ("VK_OUT_TOKEN", "x"),
        ("VK_OUT_OWNER_ID", "@wall"),
        ("RUPOR_PLATFORM_LIMITS", "none"),
    ]))
    .unwrap_err()
    .to_string();
    expect_test::expect![[r#"
        RUPOR_PLATFORM_LIMITS: "none" is neither on nor off; write on, or off for rehearsals
        VK_TOKEN: is not set, but VK_GROUPS names walls to read; set it to a service or user token
        TG_RATE_PER_SEC: "fast" is not a rate; write how many a second, above 0, such as 0.5
        TG_HTTP_TIMEOUT: "10" is not a time; write a number with its unit, such as 500ms, 10s, 5m, 72h or 7d
        TG_TOKEN: telegram: the token is empty or has characters that no telegram token has; copy it again from where it was issued
        VK_OUT_OWNER_ID: "@wall" cannot be used; write the numeric id of the wall, negative for groups, such as -123456, or its address
        MAX_ENABLED: "maybe" is neither true nor false; write true or false"#]]
    .assert_eq(&said);
}

async fn empty_store() -> Store {
    let address = Address::parse("sqlite::memory:").unwrap();
    Store::open(&address, Keyring::ephemeral([7; 32]), Clock::system()).await.unwrap()
}

#[tokio::test]
async fn applying_twice_says_nothing_to_do() {
    let store = empty_store().await;
    let config = example();
    let planned = plan(&store, &config, Absent::Remove).await.unwrap();
    expect_test::expect![[r#"
        create  workspace default/default
        create  account   default/bot: telegram
        create  account   default/community: vk
        create  account   default/max: max
        create  account   default/reader: vk
        create  channel   default/lost: -1001234567890 on bot
        create  channel   default/max: -71234567890123 on max
        create  channel   default/wall: -1234567 on community
        create  endpoint  default/site: push
        create  source    default/city/lostpets_example: vk lostpets_example
        create  source    default/city/-7654321: vk -7654321
        create  source    default/shelter: feed https://shelter.example/feed.xml
        create  workspace shop/shop
        create  account   shop/bot: telegram
        create  channel   shop/news: @shop_example on bot
    "#]]
    .assert_eq(&planned.to_string());
    assert_eq!(store.workspaces().await.unwrap().len(), 0, "a plan changes nothing");
    assert_eq!(apply(&store, &config, Absent::Remove).await.unwrap(), planned);
    assert_eq!(apply(&store, &config, Absent::Remove).await.unwrap().steps, []);
}

#[tokio::test]
async fn the_secret_of_a_door_is_changed_by_applying_the_new_one() {
    let store = empty_store().await;
    let door = |variable: &str, more: &str| {
        let text = format!("[endpoints.site]\nkind = \"push\"\nsecret = {{ env = \"{variable}\" }}\n{more}");
        parse(&(file("") + &text)).unwrap()
    };
    apply(&store, &door("FIRST_SECRET", ""), Absent::Remove).await.unwrap();
    let second = door("SECOND_SECRET", "rate = 9\n");
    let done = apply(&store, &second, Absent::Remove).await.unwrap();
    assert_eq!(done.to_string(), "change  endpoint  default/site: new secret rate none → 9\n");
    assert_eq!(plan(&store, &second, Absent::Remove).await.unwrap().steps, []);
    let opens =
        async |name: &str| store.endpoint_by_secret(&all_set(name).unwrap().into()).await.unwrap().is_some();
    assert!(opens("SECOND_SECRET").await && opens("FIRST_SECRET").await, "the old one opens for a day more");
    // Within the overlap the old configuration changes nothing back.
    let back = plan(&store, &door("FIRST_SECRET", "rate = 9\n"), Absent::Remove).await.unwrap();
    assert_eq!(back.steps, []);
}

#[tokio::test]
async fn keys_and_passwords_in_addresses_stand_in_no_plan_and_no_answer() {
    let store = empty_store().await;
    let source = |key: &str| {
        let url = format!("https://u:canary@shelter.example/feed?token={key}");
        format!("[sources.shelter]\nkind = \"feed\"\nurl = \"{url}\"\n")
    };
    let base = |password: &str| {
        let url = format!("api_base = \"https://bot:{password}@api.example/x\"");
        file("").replace("\"env:TG_TOKEN\"", &format!("\"env:TG_TOKEN\"\n{url}"))
    };
    let first = parse(&(base("canary-1") + &source("canary-1"))).unwrap();
    let second = parse(&(base("canary-2") + &source("canary-2"))).unwrap();
    let done = [apply(&store, &first, Absent::Remove).await, apply(&store, &second, Absent::Remove).await];
    let told = done.map(|plan| format!("{plan:?} {}", plan.as_ref().unwrap())).join("\n");
    assert!(told.contains("feed https://***@shelter.example/feed?token=***"), "{told}");
    assert!(told.contains("credentials of an address changed"), "{told}");
    let ws = store.workspaces().await.unwrap()[0].workspace_id;
    let account = store.accounts(ws).await.unwrap().remove(0);
    assert_eq!(account.settings.api_base.as_ref().unwrap().expose(), "https://bot:canary-2@api.example/x");
    let events = store.events(ws, 0, 100).await.unwrap();
    let seen = format!("{told} {} {account:?} {events:?} {first:?}", serde_json::json!(account));
    // A source's own row keeps its address as it is; nothing that is shown does.
    assert!(!seen.replace(&format!("{:?}", first.workspaces[0].sources), "").contains("canary"), "{seen}");
    // The private way to a node carries it whole.
    let crossed: crate::config::Config =
        serde_json::from_str(&serde_json::to_string(&second).unwrap()).unwrap();
    assert_eq!(crossed, second);
}

#[tokio::test]
async fn changes_pauses_and_removals_are_planned_and_done() {
    let store = empty_store().await;
    let first = parse(&(file("") + "[channels.b]\naccount = \"bot\"\ntarget = -1002\n")).unwrap();
    apply(&store, &first, Absent::Remove).await.unwrap();
    let second = parse(&file("rate = 0.25\ndedup_ttl = \"5h\"\npin = true\npaused = true")).unwrap();
    let kept = plan(&store, &second, Absent::Disable).await.unwrap();
    assert!(
        kept.to_string().starts_with("disable channel   default/b: not in the configuration\n"),
        "{kept}"
    );
    let done = apply(&store, &second, Absent::Remove).await.unwrap();
    expect_test::expect![[r#"
        remove  channel   default/b: nothing waits for it
        change  channel   default/lost: dedup_ttl 3d → 5h, rate 0.327 → 0.25, pin false → true
        pause   channel   default/lost
    "#]]
    .assert_eq(&done.to_string());
    assert_eq!(done.removals(), 1);
    assert_eq!(plan(&store, &second, Absent::Remove).await.unwrap().steps, []);
    let ws = store.workspaces().await.unwrap()[0].workspace_id;
    let channels = store.channels(ws).await.unwrap();
    assert_eq!((channels.len(), channels[0].settings.rate), (1, Some(0.25)));
    assert_eq!(channels[0].paused_until, domain::time::Timestamp::NEVER);
}

#[tokio::test]
async fn another_target_token_or_account_is_seen() {
    let store = empty_store().await;
    apply(&store, &parse(&file("")).unwrap(), Absent::Remove).await.unwrap();
    let moved = parse(&file("").replace("-1001", "-1005").replace("TG_TOKEN", "TG_NEW")).unwrap();
    let done = apply(&store, &moved, Absent::Remove).await.unwrap();
    expect_test::expect![[r#"
        change  account   default/bot: a new token
        change  channel   default/lost: target -1001 → -1005; what waits will go there, and what the old chat refused is queued again
    "#]]
    .assert_eq(&done.to_string());
    assert_eq!(plan(&store, &moved, Absent::Remove).await.unwrap().steps, []);
}

#[tokio::test]
async fn a_renamed_channel_is_the_same_channel() {
    let store = empty_store().await;
    apply(&store, &parse(&file("")).unwrap(), Absent::Remove).await.unwrap();
    let ws = store.workspaces().await.unwrap()[0].workspace_id;
    let before = store.channels(ws).await.unwrap().remove(0);
    // By the same sender and chat, whatever it is called.
    let renamed = file("").replace("[channels.lost]", "[channels.searches]");
    let done = apply(&store, &parse(&renamed).unwrap(), Absent::Remove).await.unwrap();
    expect_test::expect![[r#"
        change  channel   default/searches: it was called lost; its queue and history stay
    "#]]
    .assert_eq(&done.to_string());
    // By the name it had, when its chat changes as well.
    let moved =
        file("was = \"searches\"").replace("[channels.lost]", "[channels.dogs]").replace("-1001", "-1009");
    let done = apply(&store, &parse(&moved).unwrap(), Absent::Remove).await.unwrap();
    expect_test::expect![[r#"
        change  channel   default/dogs: it was called searches; its queue and history stay
        change  channel   default/dogs: target -1001 → -1009; what waits will go there, and what the old chat refused is queued again
    "#]]
    .assert_eq(&done.to_string());
    assert_eq!(done.removals(), 0);
    let after = store.channels(ws).await.unwrap();
    assert_eq!((after.len(), after[0].channel_id, after[0].name.as_str()), (1, before.channel_id, "dogs"));
    assert_eq!(after[0].target, "-1009");
    // The word may stay in the file.
    assert_eq!(plan(&store, &parse(&moved).unwrap(), Absent::Remove).await.unwrap().steps, []);
}

#[tokio::test]
async fn what_a_removed_channel_drops_is_counted_first() {
    let store = empty_store().await;
    let first = parse(&(file("") + "[channels.b]\naccount = \"bot\"\ntarget = -1002\n")).unwrap();
    apply(&store, &first, Absent::Remove).await.unwrap();
    let ws = store.workspaces().await.unwrap()[0].workspace_id;
    let b = store.channels(ws).await.unwrap().into_iter().find(|channel| channel.name == "b").unwrap();
    for text in ["раз", "два", "три"] {
        let payload = json!({"text": text});
        let item = json!({"source": "проверка", "origin_id": text, "payload": payload, "content_hash": text,
                          "channels": [b.channel_id]});
        store.enqueue(ws, vec![serde_json::from_value(item).unwrap()]).await.unwrap();
    }
    let planned = plan(&store, &parse(&file("")).unwrap(), Absent::Remove).await.unwrap();
    assert_eq!(planned.to_string(), "remove  channel   default/b: 3 waiting posts will be dropped\n");
}

#[tokio::test]
async fn a_new_token_resumes_the_account_that_the_old_one_stopped() {
    let store = empty_store().await;
    apply(&store, &parse(&file("")).unwrap(), Absent::Remove).await.unwrap();
    let ws = store.workspaces().await.unwrap()[0].workspace_id;
    let id = store.accounts(ws).await.unwrap()[0].account_id;
    let new = |name: &str| parse(&file("").replace("TG_TOKEN", name)).unwrap();
    store.pause_account(ws, id, "401: Unauthorized").await.unwrap();
    let done = apply(&store, &new("TG_NEW"), Absent::Remove).await.unwrap();
    expect_test::expect![[r#"
        change  account   default/bot: a new token
        resume  account   default/bot: its token is new
    "#]]
    .assert_eq(&done.to_string());
    assert!(!store.accounts(ws).await.unwrap()[0].paused);
    store.pause_account(ws, id, "paused by an operator").await.unwrap();
    apply(&store, &new("TG_NEWER"), Absent::Remove).await.unwrap();
    assert!(store.accounts(ws).await.unwrap()[0].paused, "what a person paused stays so");
}

#[tokio::test]
async fn an_account_that_leaves_the_file_is_paused_and_comes_back() {
    let store = empty_store().await;
    let both = parse(&(file("") + "[accounts.old]\nplatform = \"max\"\ntoken = \"env:MAX\"\n")).unwrap();
    apply(&store, &both, Absent::Remove).await.unwrap();
    let gone = apply(&store, &parse(&file("")).unwrap(), Absent::Remove).await.unwrap();
    assert_eq!(gone.to_string(), "pause   account   default/old: not in the configuration\n");
    let back = apply(&store, &both, Absent::Remove).await.unwrap();
    assert_eq!(back.to_string(), "resume  account   default/old: in the configuration again\n");
}

#[tokio::test]
async fn what_an_operator_paused_or_shut_stays_so_unless_the_file_says_otherwise() {
    let store = empty_store().await;
    apply(&store, &parse(&file("")).unwrap(), Absent::Remove).await.unwrap();
    let ws = store.workspaces().await.unwrap()[0].workspace_id;
    let id = store.channels(ws).await.unwrap()[0].channel_id;
    store.disable_channel(ws, id, store::DisabledBy::Operator).await.unwrap();
    assert_eq!(plan(&store, &parse(&file("")).unwrap(), Absent::Remove).await.unwrap().steps, []);
    let enabled = apply(&store, &parse(&file("enabled = true")).unwrap(), Absent::Remove).await.unwrap();
    assert_eq!(enabled.to_string(), "enable  channel   default/lost\n");
}

#[tokio::test]
async fn sources_are_made_changed_and_removed() {
    let store = empty_store().await;
    let with = |more: &str| {
        let reader = "[accounts.vk]\nplatform = \"vk\"\ntoken = \"env:VK\"\n";
        let source = format!("[sources.w]\nkind = \"vk\"\naccount = \"vk\"\n{more}\n");
        parse(&(file("") + reader + &source)).unwrap()
    };
    apply(&store, &with("groups = [-1, \"lostpets\"]"), Absent::Remove).await.unwrap();
    let changed = with("groups = [-1]\ninterval = \"30s\"\nenabled = false");
    let kept = plan(&store, &changed, Absent::Disable).await.unwrap();
    assert!(
        kept.to_string().contains("disable source    default/w/lostpets: not in the configuration"),
        "{kept}"
    );
    let done = apply(&store, &changed, Absent::Remove).await.unwrap();
    expect_test::expect![[r#"
        remove  source    default/w/lostpets: not in the configuration
        change  source    default/w/-1: poll_seconds none → 30
        disable source    default/w/-1
    "#]]
    .assert_eq(&done.to_string());
    assert_eq!(done.removals(), 0, "nobody is asked about a source: nothing waits for it");
    assert_eq!(plan(&store, &changed, Absent::Remove).await.unwrap().steps, []);
    let ws = store.workspaces().await.unwrap()[0].workspace_id;
    let sources = store.sources(ws).await.unwrap();
    assert_eq!((sources.len(), sources[0].enabled, sources[0].address.as_str()), (1, false, "-1"));
    assert!(sources[0].account_id.is_some());
}

#[test]
fn a_bot_whose_rules_or_transcripts_fail_is_not_applied() {
    let folder = tempfile::tempdir().unwrap();
    let parse = || {
        let text = "[accounts.shop]\nplatform = \"telegram\"\ntoken = \"env:TG_TOKEN\"\n\n\
                    [bots.shop]\naccounts = [\"shop\"]\nrules = \"shop.toml\"\n";
        meaning::parse(text, "rupor.toml", folder.path(), &all_set)
            .map(|_| ())
            .map_err(|error| error.to_string())
    };
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    let rule =
        "start = \"menu\"\n[[rules]]\nname = \"hi\"\non = { text = \"привет\" }\nreply = \"Здравствуйте!\"\n";
    write("shop.toml", &format!("{rule}[states.island]\nsay = \"Тут никого\"\nend = true\n"));
    let said = parse().unwrap_err();
    assert!(said.contains("shop.toml:6: nobody can reach the state `island`"), "{said}");
    write("shop.toml", rule);
    write("hi.dialogue", "> привет\n‹ Привет!\n");
    let said = parse().unwrap_err();
    assert!(said.contains("hi.dialogue:2: expected «Привет!», but the bot said «Здравствуйте!»"), "{said}");
    write("hi.dialogue", "> привет\n‹ Здравствуйте!\n");
    assert_eq!(parse(), Ok(()));
}

#[test]
fn operators_whose_account_no_bot_hears_are_told_before_anything_is_applied() {
    let folder = tempfile::tempdir().unwrap();
    let rules = "start = \"menu\"\noperators = { channel = \"support\" }\n[[rules]]\nname = \"hi\"\n\
                 on = { text = \"привет\" }\nreply = \"Здравствуйте!\"\n";
    std::fs::write(folder.path().join("shop.toml"), rules).unwrap();
    let parse = |accounts: &str| {
        let account =
            |name: &str| format!("[accounts.{name}]\nplatform = \"telegram\"\ntoken = \"env:TG_TOKEN\"\n");
        let text = format!(
            "{}{}[channels.support]\naccount = \"staff\"\ntarget = -900\n\
             [bots.shop]\naccounts = {accounts}\nrules = \"shop.toml\"\n",
            account("shop"),
            account("staff")
        );
        let parsed = meaning::parse(&text, "rupor.toml", folder.path(), &all_set);
        parsed.map(|_| ()).map_err(|error| error.to_string())
    };
    let said = parse("[\"shop\"]").unwrap_err();
    let wanted = "rupor.toml:10: operators answer for bot shop in channel support, and no bot hears its account staff: \
                  their answers would reach nobody; add \"staff\" to the accounts of the bot";
    assert!(said.contains(wanted), "{said}");
    assert_eq!(parse("[\"shop\", \"staff\"]"), Ok(()));
}

#[test]
fn a_keyboard_has_to_fit_the_platforms_that_a_bot_is_on() {
    let folder = tempfile::tempdir().unwrap();
    let buttons: Vec<String> = (0..8).map(|n| format!("[\"Тема {n}\"]")).collect();
    let rules =
        format!("subscribe = \"never\"\n[states.start]\nsay = \"Темы\"\nbuttons = [{}]", buttons.join(", "));
    std::fs::write(folder.path().join("shop.toml"), rules).unwrap();
    let parse = |platform: &str, more: &str| {
        let text = format!(
            "[accounts.shop]\nplatform = \"{platform}\"\ntoken = \"env:TG_TOKEN\"\n{more}\
             [bots.shop]\naccounts = [\"shop\"]\nrules = \"shop.toml\"\n"
        );
        let parsed = meaning::parse(&text, "rupor.toml", folder.path(), &all_set);
        parsed.map(|_| ()).map_err(|error| error.to_string())
    };
    assert_eq!(parse("telegram", ""), Ok(()));
    let said = parse("vk", "kind = \"community\"\ngroup_id = 77\n").unwrap_err();
    assert!(said.contains("shop.toml:2: state start: VK cannot show these buttons"), "{said}");
}

#[test]
fn callbacks_are_an_account_and_a_channel_of_their_own() {
    let with = |rest: &str| file("") + "\n[callbacks]\n" + rest;
    let config = parse(&with("url = \"https://shop.example/rupor\"\noutcomes = [\"dead\"]")).unwrap();
    let workspace = &config.workspaces[0];
    let channel = workspace.channels.iter().find(|channel| channel.name == "callbacks/webhook").unwrap();
    assert_eq!(
        (channel.account.as_str(), &channel.settings.settings["outcomes"]),
        ("callbacks/webhook", &serde_json::json!(["dead"]))
    );
    let account = workspace.accounts.iter().find(|account| account.name == channel.account).unwrap();
    assert_eq!(account.settings.tier, store::TIER_CALLBACKS);
    assert!(config.notes.iter().any(|note| note.contains("[callbacks] has no secret")), "{:?}", config.notes);
    for (rest, problem) in [
        (
            "url = \"https://shop.example/\"\noutcomes = [\"failed\"]",
            "\"failed\" is not one; known are sent, failed_permanent, dead",
        ),
        ("url = \"https://shop.example/\"\noutcomes = []", "nothing would be told"),
        ("url = \"ftp://shop.example/\"", "http"),
        ("url = \"http://10.0.0.1/\"", "https"),
    ] {
        let found = parse(&with(rest)).unwrap_err().to_string();
        assert!(found.contains(problem), "{rest}: {found}");
    }
}

/// The way of alerts among the channels of a configuration: account, target and settings.
fn told_at(config: &Config) -> (String, String, store::ChannelSettings) {
    let of_alerts = |channel: &&Channel| channel.account.starts_with("alerts/");
    let channel = config.workspaces[0].channels.iter().find(of_alerts).unwrap();
    (channel.account.clone(), channel.target.clone(), channel.settings.clone())
}

#[test]
fn alerts_are_told_where_the_channel_is_that_they_name() {
    let telegram = "topic = 12\nsilent = true\n";
    for (platform, target, more, kind) in [
        ("vk", "701", "chat_kind = \"private\"\n", ChatKind::Private),
        ("vk", "2000000001", "chat_kind = \"group\"\n", ChatKind::Group),
        ("vk", "\"user:701\"", "", ChatKind::Private),
        ("max", "\"user:701\"", "", ChatKind::Private),
        ("max", "-70", "chat_kind = \"group\"\n", ChatKind::Group),
        ("telegram", "-1001234567890", telegram, ChatKind::Channel),
    ] {
        let text = format!(
            "[accounts.bot]\nplatform = \"{platform}\"\ntoken = \"env:TOKEN\"\n[channels.ops]\naccount = \"bot\"\n\
             target = {target}\n{more}[channels.lost]\naccount = \"bot\"\ntarget = -5\n[alerts]\nchannel = \"ops\"\n"
        );
        let (account, at, settings) = told_at(&parse(&text).unwrap());
        assert_eq!((account.as_str(), at.as_str()), ("alerts/bot", target.trim_matches('"')));
        assert_eq!(settings.chat_kind, kind, "{platform} {target}");
        let extras = &settings.settings;
        assert_eq!(extras["alerts"]["node"], true);
        let expected = if more == telegram { (json!(12), true) } else { (json!(null), false) };
        assert_eq!((extras["topic"].clone(), extras["silent"] == true), expected, "{extras}");
    }
}

#[test]
fn a_chat_of_alerts_in_a_variable_is_read_like_any_other() {
    let read = |name: &'static str, chat: &'static str| {
        from_env(&move |asked: &str| match asked {
            "TG_TOKEN" => Some("1:abc".to_owned()),
            "VK_OUT_TOKEN" | "MAX_TOKEN" => Some("vk1.a.token".to_owned()),
            asked => (asked == name).then(|| chat.to_owned()),
        })
    };
    for (name, chat, target, kind) in [
        ("RUPOR_ALERT_TG_CHAT", "https://t.me/ops_of_shelter", "@ops_of_shelter", ChatKind::Channel),
        ("RUPOR_ALERT_TG_CHAT", "701", "701", ChatKind::Private),
        ("RUPOR_ALERT_VK_OUT_CHAT", "701", "701", ChatKind::Private),
        ("RUPOR_ALERT_VK_OUT_CHAT", "2000000001", "2000000001", ChatKind::Group),
        ("RUPOR_ALERT_VK_OUT_CHAT", "user:701", "user:701", ChatKind::Private),
        ("RUPOR_ALERT_MAX_CHAT", "user:701", "user:701", ChatKind::Private),
    ] {
        let config = read(name, chat).unwrap();
        let (_, at, settings) = told_at(&config);
        assert_eq!((at.as_str(), settings.chat_kind), (target, kind), "{name}={chat}");
        assert_eq!(config.notes, Vec::<String>::new(), "{name}={chat}");
    }
    let forgotten = read("RUPOR_ALERT_TG_CHAT", "-1234567890").unwrap();
    assert_eq!(
        forgotten.notes,
        [
            "RUPOR_ALERT_TG_CHAT: -1234567890 looks like an id without its -100; for a channel or supergroup write \
          -1001234567890"
        ]
    );
    let wall = read("RUPOR_ALERT_VK_OUT_CHAT", "-123").unwrap_err().to_string();
    assert!(wall.contains("RUPOR_ALERT_VK_OUT_CHAT: \"-123\" is a wall, which everybody may read"), "{wall}");
}
