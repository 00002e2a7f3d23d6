//! Where it is told: reminders, quiet hours, and ways that are in trouble themselves.

use super::*;

async fn way_settings(w: &World, change: impl Fn(&mut AlertExtras)) {
    for channel in w.store.channels(w.ws).await.unwrap().into_iter().filter(|channel| channel.is_of_alerts())
    {
        let mut settings = channel.settings.clone();
        let mut extras: AlertExtras = serde_json::from_value(settings.settings["alerts"].clone()).unwrap();
        change(&mut extras);
        settings.settings["alerts"] = json!(extras);
        w.store.change_channel(w.ws, channel.channel_id, settings).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_needs_somebody_is_told_again_and_what_heals_is_silent_at_night() {
    let w = &mut World::sqlite().await;
    way_settings(w, |extras| extras.remind = Some("1h".into())).await;
    let channel = w.channel().await;
    w.store.disable_channel(w.ws, channel, DisabledBy::Auto).await.unwrap();
    w.raised("channel_shut", &[]).await;
    w.advance(59).await;
    assert_eq!(w.look().await, (Vec::new(), Vec::new()), "not yet");
    for _ in 0..2 {
        w.advance(61).await;
        let (chat, heard) = w.look().await;
        assert_eq!((chat.len(), heard.len()), (1, 1), "{chat:?}");
        assert!(chat[0].starts_with("🔴 still, for "), "{}", chat[0]);
        assert_eq!(heard[0]["type"], "alert.reminder");
    }
    w.store.resume_channel(w.ws, channel).await.unwrap();
    w.cleared("channel_shut").await;

    // All day is night: what heals by itself waits for the morning, what needs somebody does not.
    way_settings(w, |extras| extras.quiet_hours = Some("00:00-23:59".into())).await;
    w.advance(
        i64::from(u8::from(
            jiff::Timestamp::from_microsecond(w.store.now().await.unwrap().0)
                .unwrap()
                .to_string()
                .contains("T23:59"),
        )) * 2,
    )
    .await;
    w.post(40).await;
    let settings = store::ChannelSettings {
        max_parallel: 500,
        dedup: store::DedupMode::Off,
        ..store::ChannelSettings::default()
    };
    w.store.change_channel(w.ws, channel, settings).await.unwrap();
    let accounts = w.store.accounts(w.ws).await.unwrap();
    let bot = accounts.iter().find(|account| account.name == "bot").unwrap();
    let wide = store::AccountSettings { max_parallel: 1_000, retry_parallel: 1_000, ..bot.settings.clone() };
    w.store.change_account(w.ws, bot.account_id, wide).await.unwrap();
    w.store.hold_workspace(w.ws, false).await.unwrap();
    let busy = Failure::new(Category::Transient, Scope::Delivery, "503", "занят");
    for claim in w.claim(500, Span::from_secs(60)).await {
        w.end(&claim, Outcome::Failed(busy.clone())).await;
    }
    assert_eq!(w.look().await, (Vec::new(), Vec::new()), "it heals by itself");
    w.agree("failures", true).await;
    w.store.hold_all(Some("пожар")).await.unwrap();
    w.raised("held", &[]).await;
    way_settings(w, |extras| extras.quiet_hours = None).await;
    let (chat, _) = w.look().await;
    assert!(chat.len() == 1 && chat[0].starts_with("🟡"), "the morning: {chat:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_way_that_is_itself_the_trouble_leaves_it_to_the_other_and_nothing_loops() {
    let w = &mut World::sqlite().await;
    w.arm(json!({"platform": "telegram", "chat": OPS, "kind": "kicked"}));
    let channel = w.channel().await;
    w.store.disable_channel(w.ws, channel, DisabledBy::Auto).await.unwrap();
    w.watch.look().await.unwrap();
    w.pump().await;
    // The chat refused the first alert; the webhook heard it, and then of the chat itself.
    let mut kinds = Vec::new();
    for _ in 0..4 {
        let (chat, heard) = w.look().await;
        assert!(chat.is_empty(), "{chat:?}");
        kinds.extend(heard.into_iter().map(|call| call["data"]["kind"].as_str().unwrap().to_owned()));
    }
    kinds.sort();
    assert_eq!(kinds, ["channel_kicked", "channel_shut"], "each once");
    let messages = w.store.recent_messages(w.ws, 100).await.unwrap();
    assert!(messages.len() <= 3, "alerts about alerts: {}", messages.len());
}

/// Whatever its receiver does, a webhook costs the other ways nothing; once it hears again it hears each alert once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_that_hangs_fails_or_sends_inwards_leaves_the_chat_to_tell() {
    for (manner, code) in
        [(Manner::Fails, "500"), (Manner::Hangs, "timeout"), (Manner::Redirects, "webhook.redirect")]
    {
        let w = &mut World::sqlite().await;
        let channels = w.store.channels(w.ws).await.unwrap();
        let hook = channels.into_iter().find(|channel| channel.platform == "webhook").unwrap();
        let mut settings = hook.settings.clone();
        settings.settings["timeout"] = json!("1s");
        w.store.change_channel(w.ws, hook.channel_id, settings).await.unwrap();
        *w.manner.lock().unwrap() = manner;
        let channel = w.channel().await;
        w.store.disable_channel(w.ws, channel, DisabledBy::Auto).await.unwrap();
        w.watch.look().await.unwrap();
        let to_hook = DeliveryFilter { channel_id: Some(hook.channel_id), ..DeliveryFilter::default() };
        let attempts = async || {
            let row = w.store.deliveries(w.ws, to_hook.clone(), 10).await.unwrap().remove(0);
            w.store.attempts(w.ws, row.delivery_id).await.unwrap()
        };
        w.pump_until(async || !w.chat().is_empty() && !attempts().await.is_empty()).await;
        let tried = attempts().await;
        let said = format!("{tried:?}");
        assert!(said.contains(code), "{manner:?}: {said}");
        assert_eq!(w.chat().len(), 1, "{manner:?}: {:?}", w.chat());
        assert!(w.heard.lock().unwrap().is_empty());
        // The chat hears of the webhook too; nothing is said of that by the webhook itself, and nothing loops.
        for _ in 0..3 {
            w.watch.look().await.unwrap();
        }
        let told = w.store.recent_messages(w.ws, 100).await.unwrap().len();
        assert!(told <= 2, "{manner:?}: alerts about alerts: {told}");
        *w.manner.lock().unwrap() = Manner::Hears;
        w.advance(10).await;
        w.store.resume_channel(w.ws, hook.channel_id).await.unwrap();
        if manner == Manner::Redirects {
            // Refused for good: what was told meanwhile is not told again.
            continue;
        }
        w.pump().await;
        let heard = w.heard.lock().unwrap().clone();
        let opened = heard.iter().filter(|call| call["data"]["kind"] == "channel_shut").count();
        assert_eq!(opened, 1, "{manner:?}: {heard:?}");
    }
}

/// What no way took is told again, what one took is not, and another trouble of the ledger is another one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn telling_without_the_ledger_goes_on_until_somebody_has_heard() {
    let w = &mut World::sqlite().await;
    w.watch.look().await.unwrap();
    let illness = |kind| store::Illness { kind, words: "it is away".into(), lasts: Duration::from_secs(9) };
    w.arm(json!({"platform": "telegram", "chat": OPS, "kind": "kicked"}));
    *w.manner.lock().unwrap() = Manner::Fails;
    w.watch.direct.tell(&illness("the database does not answer")).await;
    assert!(w.watch.direct.told().is_empty(), "nobody has heard");
    assert_eq!(w.news(), (Vec::new(), Vec::new()));
    // One of two is enough.
    *w.manner.lock().unwrap() = Manner::Hears;
    for _ in 0..2 {
        w.watch.direct.tell(&illness("the database does not answer")).await;
    }
    let (chat, heard) = w.news();
    assert_eq!((chat.len(), heard.len()), (0, 1), "{chat:?} {heard:?}");
    w.sandbox.core().faults.clear();
    w.watch.direct.tell(&illness(store::STANDS_STILL)).await;
    let (chat, heard) = w.news();
    assert_eq!((chat.len(), heard.len()), (1, 1), "{chat:?} {heard:?}");
    assert_eq!(heard[0]["data"]["kind"], "standstill");
    let told: Vec<&str> = w.watch.direct.told().into_keys().collect();
    assert_eq!(told, ["database", "standstill"], "both are to be written down");
}
