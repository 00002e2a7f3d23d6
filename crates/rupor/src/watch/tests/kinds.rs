//! Every kind of trouble: told once in a chat and at a webhook, with what helps, and once that it is over. On both
//! databases; `rupor status --check`, `/readyz` and, on PostgreSQL, `raise_alerts` say the same at every step.

use domain::campaign::CampaignStatus;

use super::*;
use crate::operate::trouble::KINDS;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_kind_of_trouble_is_told_once_on_sqlite() {
    every_kind_is_told_once_and_its_end_once(&mut World::sqlite().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_kind_of_trouble_is_told_once_on_postgres() {
    World::on_postgres(every_kind_is_told_once_and_its_end_once).await;
}

async fn every_kind_is_told_once_and_its_end_once(w: &mut World) {
    refusals(w).await;
    operators(w).await;
    lateness(w).await;
    storms(w).await;
    sources(w).await;
    bots(w).await;
    waits(w).await;
    campaigns(w).await;
    machines(w).await;
    let told: Vec<&str> = w.raised.iter().map(String::as_str).collect();
    // The database itself and a standstill have tests of their own.
    let elsewhere = |kind: &str| kind == "database" || kind == "standstill";
    let missing: Vec<&str> =
        KINDS.iter().map(|(kind, _)| *kind).filter(|kind| !told.contains(kind) && !elsewhere(kind)).collect();
    assert!(missing.is_empty(), "{missing:?} were not made");
    assert!(told.len() >= 15, "{told:?}");
    let open = w.store.snapshot(w.ws).await.unwrap().open_alerts;
    assert_eq!(open, 0);
}

/// What the platform says.
async fn refusals(w: &mut World) {
    w.arm(json!({"platform": "telegram", "chat": POSTS, "kind": "kicked"}));
    w.post(1).await;
    w.pump().await;
    w.raised(
        "channel_kicked",
        &["channel lost", "add the bot to the chat again", "rupor channel resume lost"],
    )
    .await;
    w.mended().await;
    w.cleared("channel_kicked").await;

    w.post(1).await;
    let rights = Failure::new(Category::Permanent, Scope::Channel, "no_rights", "not enough rights");
    for claim in w.claim(1, Span::from_secs(60)).await {
        w.end(&claim, Outcome::Failed(rights.clone())).await;
    }
    w.raised("channel_no_rights", &["channel lost", "right to post"]).await;
    w.mended().await;
    w.cleared("channel_no_rights").await;

    w.arm(json!({"platform": "telegram", "chat": POSTS, "kind": "chat_not_found"}));
    w.post(1).await;
    w.pump().await;
    w.raised("channel_failing", &["channel lost", "check the target"]).await;
    w.mended().await;
    w.cleared("channel_failing").await;

    // A token that is revoked is one trouble with its name, however many posts meet it.
    w.post(8).await;
    let refused = Failure::new(Category::Permanent, Scope::Platform, "401", "Unauthorized");
    for claim in w.claim(8, Span::from_secs(60)).await {
        w.end(&claim, Outcome::Failed(refused.clone())).await;
    }
    w.raised("account_paused", &["account bot", "revoked", "new token", "rupor account resume bot"]).await;
    let accounts = w.store.accounts(w.ws).await.unwrap();
    let bot = accounts.iter().find(|account| account.name == "bot").unwrap().account_id;
    w.store.resume_account(w.ws, bot).await.unwrap();
    w.pump().await;
    w.cleared("account_paused").await;
}

/// What people do.
async fn operators(w: &mut World) {
    let channel = w.channel().await;
    w.store.disable_channel(w.ws, channel, DisabledBy::Auto).await.unwrap();
    w.raised("channel_shut", &["channel lost is shut", "rupor channel resume lost"]).await;
    w.store.resume_channel(w.ws, channel).await.unwrap();
    w.cleared("channel_shut").await;

    w.store.hold_all(Some("пожар")).await.unwrap();
    w.raised("held", &["all sending is stopped", "пожар", "rupor release"]).await;
    w.store.hold_all(None).await.unwrap();
    w.cleared("held").await;

    w.store.hold_workspace(w.ws, true).await.unwrap();
    w.raised("workspace_held", &["all sending of workspace default is stopped", "rupor release"]).await;
    w.store.hold_workspace(w.ws, false).await.unwrap();
    w.cleared("workspace_held").await;

    w.store.lose_history("the database was restored from a backup").await.unwrap();
    w.raised("history_lost", &["restored from a backup", "rupor release"]).await;
    w.store.hold_all(None).await.unwrap();
    w.cleared("history_lost").await;

    // What somebody wanted so is shown, and told to nobody.
    w.store.disable_channel(w.ws, channel, DisabledBy::Operator).await.unwrap();
    assert_eq!(w.look().await, (Vec::new(), Vec::new()));
    w.agree("channel_disabled", false).await;
    w.store.resume_channel(w.ws, channel).await.unwrap();
    w.store.pause_channel(w.ws, channel, Timestamp::NEVER, "ремонт").await.unwrap();
    assert_eq!(w.look().await, (Vec::new(), Vec::new()));
    w.store.resume_channel(w.ws, channel).await.unwrap();
}

/// What should have gone.
async fn lateness(w: &mut World) {
    let accounts = w.store.accounts(w.ws).await.unwrap();
    let new = store::NewChannel {
        account_id: accounts.iter().find(|account| account.name == "bot").unwrap().account_id,
        name: "тихий".into(),
        target: "-1009751000003".into(),
        settings: store::ChannelSettings::default(),
    };
    let quiet = w.store.create_channel(w.ws, new).await.unwrap();
    w.post_to(quiet, 2).await;
    w.advance(20).await;
    w.raised("stuck", &["channel тихий", "nobody takes them", "rupor run"]).await;
    w.cleared("stuck").await;

    w.post(3).await;
    w.advance(20).await;
    let claims = w.claim(1, Span::from_secs(60)).await;
    let sent = Sent { provider_message_id: Some("1".into()), raw: Value::Null };
    w.end(&claims[0], Outcome::Sent(sent)).await;
    w.raised("lag", &["channel lost: 2 posts wait", "rate"]).await;
    w.cleared("lag").await;

    w.post(1).await;
    for _ in 0..3 {
        assert_eq!(w.claim(1, Span::from_millis(1)).await.len(), 1);
        while w.store.recover(Whose::Workspace(w.ws), 10).await.unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let channel = w.channel().await;
        w.store.resume_channel(w.ws, channel).await.unwrap();
    }
    w.raised("leases_missed", &["3 sendings broke off halfway", "logs of the nodes"]).await;
    w.advance(11).await;
    w.cleared("leases_missed").await;
}

/// Many at once are one trouble.
async fn storms(w: &mut World) {
    w.pump().await;
    w.news();
    let channel = w.channel().await;
    let settings = store::ChannelSettings { max_parallel: 500, ..store::ChannelSettings::default() };
    let settings = store::ChannelSettings { dedup: store::DedupMode::Off, ..settings };
    w.store.change_channel(w.ws, channel, settings).await.unwrap();
    let accounts = w.store.accounts(w.ws).await.unwrap();
    let bot = accounts.iter().find(|account| account.name == "bot").unwrap();
    let wide = store::AccountSettings { max_parallel: 1_000, retry_parallel: 1_000, ..bot.settings.clone() };
    w.store.change_account(w.ws, bot.account_id, wide).await.unwrap();

    w.post(40).await;
    let busy = Failure::new(Category::Transient, Scope::Delivery, "503", "занят");
    for claim in w.claim(500, Span::from_secs(60)).await {
        w.end(&claim, Outcome::Failed(busy.clone())).await;
    }
    w.raised("failures", &["channel lost: 40 attempts failed", "rupor check"]).await;
    let channel = w.channel().await;
    w.store.resume_channel(w.ws, channel).await.unwrap();
    w.pump().await;
    w.advance(11).await;
    w.cleared("failures").await;

    w.post(1_000).await;
    let refused = Failure::new(Category::Permanent, Scope::Delivery, "too_long", "слишком длинно");
    loop {
        let claims = w.claim(500, Span::from_secs(60)).await;
        if claims.is_empty() {
            break;
        }
        let ends = claims.iter().map(|claim| Finish {
            claim: claim.reference(),
            ending: FinishKind::Outcome(Outcome::Failed(refused.clone())),
            chance: Chance::NONE,
        });
        w.store.commit(ends.collect()).await.unwrap();
    }
    w.raised(
        "dead_letters",
        &["channel lost: 1000 deliveries were not sent", "too long", "rupor delivery requeue"],
    )
    .await;
    w.advance(25 * 60).await;
    w.cleared("dead_letters").await;

    w.post(1).await;
    let claims = w.claim(1, Span::from_secs(60)).await;
    let away =
        Failure::new(Category::Transient, Scope::Platform, "500", "сервер упал").retry_after(7_200_000);
    w.end(&claims[0], Outcome::Failed(away)).await;
    let accounts = w.store.accounts(w.ws).await.unwrap();
    let bot = accounts.iter().find(|account| account.name == "bot").unwrap();
    assert!(bot.cooldown_until > w.store.now().await.unwrap());
    // The same token speaks of trouble, and the platform asked it to be silent: the webhook tells alone.
    let (chat, heard) = w.look().await;
    assert_eq!((chat.len(), heard.len()), (0, 1), "{chat:?} {heard:?}");
    assert_eq!(heard[0]["data"]["kind"], "account_rests");
    w.agree("account_rests", true).await;
    w.raised.push("account_rests".into());
    for account in w.store.accounts(w.ws).await.unwrap() {
        w.store.resume_account(w.ws, account.account_id).await.unwrap();
    }
    let (chat, heard) = w.look().await;
    assert_eq!((chat.len(), heard.len()), (2, 1), "{chat:?} {heard:?}");
    assert_eq!(heard[0]["type"], "alert.cleared");
}

async fn sources(w: &mut World) {
    let new = NewSource {
        kind: "feed".into(),
        name: "лента".into(),
        address: "https://example.org/feed".into(),
        account_id: None,
        settings: json!({}),
    };
    let id = w.store.create_source(w.ws, new).await.unwrap();
    w.poll(id, PollHealth::Failed("the server answered 500; look whether it is up".into())).await;
    w.raised("source_failing", &["source лента", "answered 500", "rupor check"]).await;
    w.poll(id, PollHealth::Well).await;
    w.cleared("source_failing").await;
}

/// What the platform or a person is waited for.
async fn waits(w: &mut World) {
    w.post(1).await;
    let claims = w.claim(1, Span::from_secs(60)).await;
    let flood =
        Failure::new(Category::Transient, Scope::Channel, "429", "Too Many Requests").retry_after(7_200_000);
    w.end(&claims[0], Outcome::Failed(flood)).await;
    w.raised("channel_waits", &["channel lost"]).await;
    w.advance(130).await;
    w.pump().await;
    w.cleared("channel_waits").await;

    let words = "Найдена кошка";
    let message = json!(domain::message::Message::text(words));
    let post = store::NewPost {
        message: NewMessage::new("test", "held", "held", message),
        sketch: None,
        held: Some(store::Held {
            channels: vec![w.channel().await],
            why: "it may be an advertisement".into(),
        }),
    };
    let kept = w.store.ingest(w.ws, vec![post], None).await.unwrap();
    w.raised("posts_wait", &["rupor message approve"]).await;
    w.store.reject(w.ws, kept[0].message_id).await.unwrap();
    w.cleared("posts_wait").await;
}

/// A campaign that its guard has stopped, as the loop of campaigns leaves it.
async fn campaigns(w: &mut World) {
    let accounts = w.store.accounts(w.ws).await.unwrap();
    let account = accounts.iter().find(|account| account.name == "bot").unwrap().account_id;
    let words =
        NewMessage::new("test", "рассылка", "рассылка", json!(domain::message::Message::text("привет")));
    let message_id = w.store.enqueue(w.ws, vec![words]).await.unwrap()[0].message_id;
    let new = store::NewCampaign {
        name: "осень".into(),
        accounts: vec![account],
        audience_id: None,
        settings: json!({}),
        seed: "семя".into(),
        min_gap: Span::ZERO,
        deadline: Span::ZERO,
        variants: vec![store::Variant { name: "a".into(), weight: 1, message_id }],
    };
    let id = w.store.create_campaign(w.ws, new).await.unwrap();
    let to = async |w: &World, next: CampaignStatus, why: &str| {
        let all = w.store.campaigns(w.ws).await.unwrap();
        let version = all.iter().find(|campaign| campaign.campaign_id == id).unwrap().version;
        assert!(w.store.move_campaign(w.ws, id, version, next, why).await.unwrap(), "{next:?}");
    };
    to(w, CampaignStatus::Preparing, "").await;
    assert!(w.store.freeze_campaign(w.ws, id, store::FreezeStep::default()).await.unwrap());
    to(w, CampaignStatus::Running, "").await;
    to(w, CampaignStatus::Paused, "guard: 12 % of 100 failed, 10 % are allowed").await;
    w.raised("campaign_guard", &["campaign осень", "12 % of 100 failed", "rupor campaign resume осень"])
        .await;
    to(w, CampaignStatus::Running, "").await;
    w.cleared("campaign_guard").await;
    w.store
        .rest_part(w.ws, id, account, Some("guard: 3 cooldowns of this account in ten minutes"))
        .await
        .unwrap();
    w.raised(
        "campaign_guard",
        &[
            "the part of account bot in campaign осень was stopped",
            "rupor campaign resume осень --account bot",
        ],
    )
    .await;
    w.store.rest_part(w.ws, id, account, None).await.unwrap();
    w.cleared("campaign_guard").await;
    // An operator's pause is meant.
    to(w, CampaignStatus::Paused, "обед").await;
    assert_eq!(w.look().await, (Vec::new(), Vec::new()));
}

/// What the machine says of its database.
async fn machines(w: &mut World) {
    for (kind, slow, words) in [
        ("disk", false, "200 MiB are left on the disk of the database; make room"),
        ("database_slow", true, "the database took 3.0 s for a small question; look at its load"),
    ] {
        w.watch.pretend = Some(crate::operate::facts::Ailment {
            words: words.into(),
            only_soon: true,
            slow,
            ..crate::operate::facts::Ailment::default()
        });
        w.raised(kind, &[]).await;
        w.watch.pretend = None;
        w.cleared(kind).await;
    }
}

/// What people meet at a bot: made in the mailbox itself, as a node would leave it.
async fn bots(w: &mut World) {
    let accounts = w.store.accounts(w.ws).await.unwrap();
    let account = accounts.iter().find(|account| account.name == "bot").unwrap().account_id;
    let (accounts, receive) = (vec![account], store::Receive::Webhook);
    let new = store::NewBot {
        name: "shop".into(),
        accounts,
        receive,
        operators: None,
        services: Default::default(),
    };
    w.store.put_bot(w.ws, new).await.unwrap();
    w.raised("bot_deaf", &["was never told where to call", "rupor bot hooks set shop"]).await;
    w.store.set_bot_hook(w.ws, account, "k1", None, json!({})).await.unwrap();
    w.cleared("bot_deaf").await;
    let hear = async |w: &World, key: String| {
        let of = store::UpdateOf::Person { user_id: "70".into(), address: "70".into(), name: None };
        let update = store::Update { key, kind: "text".into(), at: None, body: json!({"text": "?"}), of };
        w.store.bot_receive(w.ws, account, vec![update], None).await.unwrap();
    };
    // One turn over everything that waits, with this verdict for each message.
    let answer = async |w: &World, verdict: &str, mode: store::DialogueMode, state: Value| loop {
        let turns = w.store.bot_claim_turns(1, Span::from_secs(60)).await.unwrap();
        let Some(turn) = turns.first() else { break };
        let (mut taken, _) = engine::bot::take(turn, None, w.store.now().await.unwrap());
        let log = |event| store::NewLog { event, rule: None, verdict: verdict.into(), detail: json!({}) };
        taken.logs = (0..turn.events.len()).map(log).collect();
        (taken.mode, taken.state) = (mode, state.clone());
        assert!(w.store.bot_commit_turns(w.ws, vec![taken]).await.unwrap()[0]);
    };
    let bot = store::DialogueMode::Bot;

    hear(w, "1".into()).await;
    w.advance(2).await;
    w.raised("bot_waits", &["1 message waits", "rupor bot status"]).await;
    answer(w, "rule", bot, json!({})).await;
    w.cleared("bot_waits").await;

    for n in 0..50 {
        hear(w, format!("lost {n}")).await;
    }
    answer(w, "fallback", bot, json!({})).await;
    w.raised("bot_lost", &["did not understand 50 of 51", "rupor bot explain"]).await;
    w.advance(61).await;
    w.cleared("bot_lost").await;

    hear(w, "error".into()).await;
    answer(w, "error", bot, json!({})).await;
    w.raised("bot_errors", &["broke at 1 message", "rupor bot activate shop"]).await;
    w.advance(61).await;
    w.cleared("bot_errors").await;

    hear(w, "human".into()).await;
    let since = w.store.now().await.unwrap();
    answer(w, "rule", store::DialogueMode::Human, json!({"waits_since": since})).await;
    w.advance(31).await;
    w.raised("bot_handoffs", &["1 person waits for a human", "#A17"]).await;
    hear(w, "back".into()).await;
    answer(w, "rule", bot, json!({})).await;
    w.cleared("bot_handoffs").await;

    w.advance(2).await;
    w.store.bot_account_problem(w.ws, account, Some("409: another program polls")).await.unwrap();
    w.raised("bot_deaf", &["bot shop does not hear account bot", "409", "rupor bot hooks show shop"]).await;
    hear(w, "heard".into()).await;
    w.cleared("bot_deaf").await;
    answer(w, "rule", bot, json!({})).await;
}
