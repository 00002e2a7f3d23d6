//! The check against the sandbox: right and wrong tokens, rights, targets.

use sandbox::{Name, Options, Sandbox};
use serde_json::json;

use super::*;

const TOKEN: &str = "7700:AAF-canary_0123456789abcdef";

async fn sandbox() -> Sandbox {
    let sandbox = Sandbox::start(Options::default()).await.unwrap();
    sandbox
        .add_account(
            &json!({"platform": "telegram", "token": TOKEN, "name": "Рупор", "username": "rupor_bot"}),
        )
        .unwrap();
    sandbox.add_account(&json!({"platform": "max", "token": "max-token", "name": "Рупор"})).unwrap();
    sandbox
        .add_account(&json!({"platform": "vk", "token": "vk-token", "kind": "user", "name": "Анна"}))
        .unwrap();
    sandbox
        .add_chat(
            &json!({"platform": "telegram", "id": "-1001234567890", "type": "channel", "title": "Потеряшки"}),
        )
        .unwrap();
    sandbox
}

/// The findings of a file, asked of the sandbox.
async fn check(sandbox: &Sandbox, file: &str, variables: &[(&str, &str)]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rupor.toml");
    std::fs::write(&path, file).unwrap();
    let get =
        |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
    let config = config::from_file(&path, &get).unwrap();
    let bases = ApiBases::from_env(|name| {
        let platform = Name::ALL
            .into_iter()
            .find(|platform| name == format!("RUPOR_{}_API", platform.as_str().to_uppercase()));
        platform.map(|platform| sandbox.base(platform))
    });
    let network = Network::default();
    let mut findings = Vec::new();
    for about in subjects_of_config(&config) {
        findings.extend(subject(&network, &bases, &about).await);
    }
    text(&findings, Language::En)
}

const FILE: &str = r#"
[accounts.bot]
platform = "telegram"
token = "env:TG"

[channels.lost]
account = "bot"
target = -1001234567890

[channels.nowhere]
account = "bot"
target = "@nobody_here"
"#;

#[tokio::test]
async fn a_good_token_and_its_rights_are_green_and_a_wrong_target_is_red() {
    let sandbox = sandbox().await;
    expect_test::expect![[r#"
        ok   account bot: telegram as @rupor_bot; plain http to a private host, no certificate; about 30 messages a second in all, 1 a second per chat, 20 a minute per group
        ok   channel lost: -1001234567890 «Потеряшки»: may post
        FAIL channel nowhere: @nobody_here: Bad Request: chat not found
             fix: let the account post there (in a channel: as an administrator), or correct the target; then `$ rupor apply`, or with variables alone start `$ rupor run` again
    "#]].assert_eq(&check(&sandbox, FILE, &[("TG", TOKEN)]).await);
}

/// What `rupor apply` and the start of a node warn of.
#[tokio::test]
async fn an_alert_chat_where_the_bot_may_not_post_is_told_before_it_is_needed() {
    let sandbox = sandbox().await;
    for (id, status) in
        [("-1001234567891", "kicked"), ("-1001234567892", "member"), ("-1001234567893", "left")]
    {
        let chat = json!({"platform": "telegram", "id": id, "type": "channel", "title": "Дежурные", "bot_status": status});
        sandbox.add_chat(&chat).unwrap();
    }
    let base = sandbox.base(Name::Telegram);
    let bases = ApiBases::from_env(|name| (name == "RUPOR_TELEGRAM_API").then(|| base.clone()));
    for (target, words) in [
        ("-1001234567891", vec!["alerts cannot be told there", "channel ops"]),
        ("-1001234567892", vec!["alerts cannot be told there", "channel ops"]),
        ("-1001234567893", vec!["alerts cannot be told there", "channel ops"]),
        ("-1009999999999", vec!["alerts cannot be told there", "channel ops", "chat not found"]),
        ("-1001234567890", vec![]),
    ] {
        let file = format!(
            "[accounts.bot]\nplatform = \"telegram\"\ntoken = \"env:TG\"\n[channels.lost]\naccount = \"bot\"\n\
             target = -1001234567899\n[channels.ops]\naccount = \"bot\"\ntarget = {target}\n[alerts]\nchannel = \"ops\"\n"
        );
        let config =
            config::from_text(&file, "rupor.toml", &|name| (name == "TG").then(|| TOKEN.to_owned())).unwrap();
        let told = alert_ways(&config, &bases).await;
        assert_eq!(told.len(), usize::from(!words.is_empty()), "{target}: {told:?}");
        for word in words {
            assert!(told[0].contains(word), "{target}: {word:?} is not in {told:?}");
        }
    }
}

#[tokio::test]
async fn a_revoked_token_is_red_with_the_fix_and_never_shown() {
    let sandbox = sandbox().await;
    let said = check(&sandbox, FILE, &[("TG", "1:another")]).await;
    expect_test::expect![[r#"
        FAIL account bot: the platform does not accept the token: it was revoked, or is not the right one (401: Unauthorized)
             fix: get a new token where this one was issued and put it where the configuration looks for it; then `$ rupor apply`, or with variables alone start `$ rupor run` again
    "#]].assert_eq(&said);
    assert!(!said.contains("another"), "{said}");
}

#[tokio::test]
async fn all_three_platforms_are_asked() {
    let sandbox = sandbox().await;
    let file = "[accounts.a]\nplatform = \"max\"\ntoken = \"env:MAX\"\n[accounts.b]\nplatform = \"vk\"\ntoken = \"env:VK\"\n";
    expect_test::expect![[r#"
        ok   account a: max as @id414065875_bot; plain http to a private host, no certificate; 30 requests a second in all, 2 messages a second per chat
        ok   account b: vk as Анна; plain http to a private host, no certificate; 3 requests a second; about 500 posts a day per wall

        All 2 checks passed.
    "#]]
        .assert_eq(&check(&sandbox, file, &[("MAX", "max-token"), ("VK", "vk-token")]).await);
}

#[tokio::test]
async fn a_server_that_is_not_there_is_red() {
    let sandbox = sandbox().await;
    // Nothing listens on the port of a sandbox that has ended.
    let gone = Sandbox::start(Options::default()).await.unwrap();
    let base = gone.base(Name::Telegram);
    gone.shutdown().await;
    let file = FILE.replace("token = \"env:TG\"", &format!("token = \"env:TG\"\napi_base = \"{base}\""));
    let said = check(&sandbox, &file, &[("TG", TOKEN)]).await;
    assert!(said.starts_with("FAIL account bot: the platform's server cannot be reached (refused"), "{said}");
    assert!(said.contains("fix: check the network"), "{said}");
}

#[tokio::test]
async fn a_wrong_address_of_the_api_is_told_before_the_token() {
    let sandbox = sandbox().await;
    let base = format!("{}/nowhere", sandbox.base(Name::Telegram));
    let file = FILE.replace("token = \"env:TG\"", &format!("token = \"env:TG\"\napi_base = \"{base}\""));
    let said = check(&sandbox, &file, &[("TG", TOKEN)]).await;
    assert!(said.starts_with("FAIL account bot: nobody there knows this address"), "{said}");
    let fix = format!("fix: check the address of the API first: {base} is not the platform's own");
    assert!(said.contains(&fix) && said.contains("copy the token again"), "{said}");
}

#[tokio::test]
async fn the_database_and_its_clock_are_looked_at() {
    let world = crate::operate::tests::World::new().await;
    world.store.hold_all(Some("после восстановления")).await.unwrap();
    let findings = database(&world.store, "sqlite:test").await;
    let said = text(&findings, Language::En);
    assert!(said.starts_with("ok   database sqlite:test: can be read"), "{said}");
    assert!(said.contains("FAIL clock:"), "a clock in the hand is not the machine's: {said}");
    assert!(
        said.contains(
            "FAIL sending: all sending is stopped: после восстановления\n     fix: $ rupor release"
        ),
        "{said}"
    );
    assert_eq!(verdict(&findings, Language::En).unwrap_err().to_string(), "2 checks failed of 3");
}

#[tokio::test]
async fn walls_are_read() {
    let sandbox = sandbox().await;
    sandbox.put_on_wall(-77, json!([{"text": "Пропал кот"}])).unwrap();
    let file = "[accounts.b]\nplatform = \"vk\"\ntoken = \"env:VK\"\n\
                [sources.w]\nkind = \"vk\"\naccount = \"b\"\ngroups = [-77, \"nobody_has_this_name\"]\n";
    let said = check(&sandbox, file, &[("VK", "vk-token")]).await;
    assert!(said.contains("ok   source w/-77: wall -77 can be read, 1 post"), "{said}");
    assert!(
        said.contains("FAIL source w/nobody_has_this_name: wall nobody_has_this_name cannot be read"),
        "{said}"
    );
}

/// What `rupor check` says of a desk on this account.
async fn desk(sandbox: &Sandbox, account: &str, target: &str, token: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let rules = folder.path().join("rules.toml");
    let written = "engine = 1\nstart = \"menu\"\nfallback = [\"?\"]\noperators = { channel = \"desk\" }\n[states.menu]\n";
    std::fs::write(&rules, written).unwrap();
    let file = format!(
        "[accounts.bot]\n{account}token = \"env:TOKEN\"\n[channels.desk]\naccount = \"bot\"\ntarget = {target}\n\
         [bots.shop]\naccounts = [\"bot\"]\nrules = {:?}\n",
        rules.display().to_string()
    );
    check(sandbox, &file, &[("TOKEN", token)]).await
}

#[tokio::test]
async fn a_bot_in_privacy_mode_or_without_the_right_to_read_does_not_hear_its_operators() {
    let sandbox = Sandbox::start(Options { any_token: true, ..Options::default() }).await.unwrap();
    let account = json!({"platform": "telegram", "token": "5:private", "kind": "bot", "privacy": true});
    sandbox.add_account(&account).unwrap();
    for (id, status) in [("-1001000000001", "member"), ("-1001000000002", "administrator")] {
        let chat = json!({"platform": "telegram", "id": id, "type": "supergroup", "title": "Д", "bot_status": status});
        sandbox.add_chat(&chat).unwrap();
    }
    let of_telegram = async |target| desk(&sandbox, "platform = \"telegram\"\n", target, "5:private").await;
    let said = of_telegram("-1001000000001").await;
    assert!(
        said.contains(
            "FAIL channel desk: -1001000000001: operators are not heard there: privacy mode: the bot hears only"
        ),
        "{said}"
    );
    assert!(
        said.contains("fix: make it an administrator of the group, or switch privacy off at @BotFather"),
        "{said}"
    );
    let said = of_telegram("-1001000000002").await;
    assert!(said.contains("ok   channel desk: -1001000000002"), "an administrator hears all: {said}");

    for (id, permissions) in
        [("-70000000000001", json!(["write"])), ("-70000000000002", json!(["read_all_messages", "write"]))]
    {
        let chat =
            json!({"platform": "max", "id": id, "type": "chat", "title": "Д", "permissions": permissions});
        sandbox.add_chat(&chat).unwrap();
    }
    let of_max = async |target| desk(&sandbox, "platform = \"max\"\n", target, "max-token").await;
    let said = of_max("-70000000000001").await;
    assert!(said.contains("operators are not heard there: without the right read_all_messages"), "{said}");
    assert!(said.contains("fix: make it an administrator of the chat with this right"), "{said}");
    let said = of_max("-70000000000002").await;
    assert!(said.contains("ok   channel desk: -70000000000002"), "{said}");

    let said = desk(&sandbox, "platform = \"vk\"\n", "-77", "vk-token").await;
    assert!(said.contains("operators are not heard there: nobody is heard on a wall"), "{said}");
}

#[tokio::test]
async fn operators_who_are_not_heard_are_red() {
    let sandbox = sandbox().await;
    let folder = tempfile::tempdir().unwrap();
    let rules = folder.path().join("rules.toml");
    let written = "engine = 1\nstart = \"menu\"\nfallback = [\"?\"]\noperators = { channel = \"lost\" }\n[states.menu]\n";
    std::fs::write(&rules, written).unwrap();
    let file =
        format!("{FILE}\n[bots.shop]\naccounts = [\"bot\"]\nrules = {:?}\n", rules.display().to_string());
    let said = check(&sandbox, &file, &[("TG", TOKEN)]).await;
    let wanted = "FAIL channel lost: -1001234567890: operators are not heard there: posts of a channel name nobody who wrote them\n     \
                  fix: use a group\n";
    assert!(said.contains(wanted), "{said}");
}
