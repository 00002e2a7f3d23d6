//! The texts that explain stuck deliveries, word for word.

use domain::time::Span;

use super::*;
use crate::operate::tests::World;

#[track_caller]
fn check(explained: &Explanation, expected: expect_test::Expect) {
    expected.assert_eq(&explained.page(Language::En));
}

#[tokio::test]
async fn a_kicked_bot_is_explained() {
    let world = World::new().await;
    let channel = world.channel("lost").await;
    let (failed, waiting) = (world.post(channel).await, world.post(channel).await);
    world.seconds(5);
    world.answered(403, "Forbidden: bot was kicked from the channel chat", None).await;
    world.seconds(90);
    check(
        &world.show(failed).await,
        expect_test::expect![[r#"
            delivery 1 failed, and is not tried again
              cause: the bot was removed from the chat by an administrator there (kicked: Forbidden: bot was kicked from the channel chat)
              since: 2026-11-15 12:00:05 UTC (1 min 30 s ago)
              next:  this one stays failed; the channel tries again by itself at 2026-11-15 12:10:05 UTC (in 8 min 30 s) and is shut after 3 failures in a row; 1 delivery waits and is kept
              help:  add the bot to the chat again, as an administrator who may post
                     $ rupor channel resume lost --with-failed
        "#]],
    );
    check(
        &world.show(waiting).await,
        expect_test::expect![[r#"
        delivery 2 waits: channel lost is paused
          cause: the bot was removed from the chat by an administrator there (kicked) (failure 1 of 3)
          since: 2026-11-15 12:00:05 UTC (1 min 30 s ago)
          next:  the channel tries again by itself at 2026-11-15 12:10:05 UTC (in 8 min 30 s) and is shut after 3 failures in a row; 1 delivery waits and is kept
          help:  add the bot to the chat again, as an administrator who may post
                 $ rupor channel resume lost --with-failed
    "#]],
    );
    expect_test::expect![[r#"
        workspace default · 2026-11-15 12:01:35 UTC · node running

        channel  platform  state   waiting  late by  done in  sent  failed  rate
        lost     telegram  paused  1        -        1 s      0     1       1/s

        trouble

        channel lost is paused
          cause: the bot was removed from the chat by an administrator there (kicked) (failure 1 of 3)
          since: 2026-11-15 12:00:05 UTC (1 min 30 s ago)
          next:  the channel tries again by itself at 2026-11-15 12:10:05 UTC (in 8 min 30 s) and is shut after 3 failures in a row; 1 delivery waits and is kept
          help:  add the bot to the chat again, as an administrator who may post
                 $ rupor channel resume lost --with-failed
    "#]].assert_eq(&world.status().await);
}

#[tokio::test]
async fn the_same_trouble_is_told_in_russian_and_to_programs_in_english() {
    let world = World::new().await;
    let channel = world.channel("lost").await;
    world.post(channel).await;
    world.post(channel).await;
    world.answered(403, "Forbidden: bot was kicked from the channel chat", None).await;
    expect_test::expect![[r#"
        пространство default · 2026-11-15 12:00:00 UTC · узел работает

        канал  площадка  состояние  ждут  опоздание  осталось  отправлено  не вышло  темп
        lost   telegram  на паузе   1     -          1 с       0           1         1/s

        неполадки

        канал lost на паузе
          причина:    администратор чата удалил бота (kicked) (отказ 1 из 3)
          с:          2026-11-15 12:00:00 UTC (0 с назад)
          дальше:     канал попробует сам: 2026-11-15 12:10:00 UTC (через 10 мин); после 3 отказов подряд он закроется; в очереди 1 отправка, она сохранится
          что делать: снова добавьте бота в чат администратором с правом писать
                      $ rupor channel resume lost --with-failed
    "#]].assert_eq(&world.status_in(Language::Ru).await);
    let known = crate::operate::facts::gather(&world.store, "default", Some(true)).await.unwrap();
    let json = serde_json::json!(crate::operate::status::status(&known)).to_string();
    assert!(json.contains("channel lost is paused"), "{json}");
}

#[tokio::test]
async fn what_was_queued_again_and_sent_is_no_trouble_any_more() {
    use crate::operate::verb::Verb;
    let world = World::new().await;
    let channel = world.channel("lost").await;
    world.post(channel).await;
    world.answered(403, "Forbidden: bot was kicked from the channel chat", None).await;
    assert!(!world.status().await.contains("no trouble"));
    let (workspace, channel) = ("default".into(), "lost".into());
    world.perform(Verb::ResumeChannel { workspace, channel, with_failed: true }).await.unwrap();
    world.seconds(2);
    let sent = domain::outcome::Sent { provider_message_id: Some("7".into()), raw: serde_json::Value::Null };
    world.end(domain::outcome::Outcome::Sent(sent)).await;
    assert!(world.status().await.contains("no trouble"), "{}", world.status().await);
    let line = "lost     telegram  open   0        -        -        1     0       1/s";
    assert!(world.status().await.contains(line), "nothing is left that failed: {}", world.status().await);
}

#[tokio::test]
async fn a_channel_that_was_shut_is_explained() {
    let world = World::new().await;
    let channel = world.channel("lost").await;
    for _ in 0..3 {
        world.post(channel).await;
        world.answered(400, "Bad Request: chat not found", None).await;
        world.seconds(3_600);
    }
    let waiting = world.post(channel).await;
    check(
        &world.show(waiting).await,
        expect_test::expect![[r#"
            delivery 4 waits: channel lost is shut after repeated failures
              cause: there is no such chat, or the bot cannot see it (chat_not_found) (3 failures in a row)
              since: 2026-11-15 12:00:00 UTC (3 h ago)
              next:  nothing is sent until somebody resumes the channel; new posts keep queueing; 1 delivery waits and is kept
              help:  check the target in the configuration and that the bot is in that chat; then `$ rupor apply`, or with variables alone start `$ rupor run` again
                     $ rupor channel resume lost --with-failed
        "#]],
    );
}

#[tokio::test]
async fn a_revoked_token_is_explained() {
    let world = World::new().await;
    let channel = world.channel("lost").await;
    let id = world.post(channel).await;
    world.answered(401, "Unauthorized", None).await;
    world.seconds(7_200);
    check(
        &world.show(id).await,
        expect_test::expect![[r#"
            delivery 1 waits: account bot (telegram) is paused
              cause: the platform does not accept the token: it was revoked, or is not the right one (401: Unauthorized)
              since: 2026-11-15 12:00:00 UTC (2 h ago)
              next:  nothing by itself: what waits is kept, new posts keep queueing, until the account is resumed
              help:  get a new token where this one was issued and put it where the configuration looks for it; then `$ rupor apply`, or with variables alone start `$ rupor run` again
                     $ rupor account resume bot
        "#]],
    );
    expect_test::expect![[r#"
        workspace default · 2026-11-15 14:00:00 UTC · node running

        channel  platform  state           waiting  late by     done in  sent  failed  rate
        lost     telegram  account paused  1        1 h 59 min  1 s      0     0       1/s

        trouble

        account bot (telegram) is paused
          cause: the platform does not accept the token: it was revoked, or is not the right one (401: Unauthorized)
          since: 2026-11-15 12:00:00 UTC (2 h ago)
          next:  nothing by itself: what waits is kept, new posts keep queueing, until the account is resumed
          help:  get a new token where this one was issued and put it where the configuration looks for it; then `$ rupor apply`, or with variables alone start `$ rupor run` again
                 $ rupor account resume bot
    "#]].assert_eq(&world.status().await);
}

#[tokio::test]
async fn a_flood_is_explained() {
    let world = World::new().await;
    let channel = world.channel("lost").await;
    let (id, behind) = (world.post(channel).await, world.post(channel).await);
    world.answered(429, "Too Many Requests: retry after 35", Some(35)).await;
    world.seconds(5);
    check(
        &world.show(id).await,
        expect_test::expect![[r#"
        delivery 1 waits: channel lost is paused
          cause: the platform asks to slow down (flood limit) (429)
          since: 2026-11-15 12:00:00 UTC (5 s ago)
          next:  the channel tries again by itself at 2026-11-15 12:00:35 UTC (in 30 s); 2 deliveries wait and are kept
          help:  nothing to do: the wait is obeyed; if it happens often, lower `rate` in the configuration
    "#]],
    );
    assert_eq!(world.show(behind).await.cause, world.show(id).await.cause);
    expect_test::expect![[r#"
        workspace default · 2026-11-15 12:00:05 UTC · node running

        channel  platform  state   waiting  late by  done in  sent  failed  rate
        lost     telegram  paused  2        -        2 s      0     0       1/s

        trouble

        channel lost is paused
          cause: the platform asks to slow down (flood limit) (429)
          since: 2026-11-15 12:00:00 UTC (5 s ago)
          next:  the channel tries again by itself at 2026-11-15 12:00:35 UTC (in 30 s); 2 deliveries wait and are kept
          help:  nothing to do: the wait is obeyed; if it happens often, lower `rate` in the configuration
    "#]].assert_eq(&world.status().await);
}

#[tokio::test]
async fn a_flood_of_a_day_is_told_with_its_end_and_resume_ends_it() {
    use crate::operate::verb::Verb;
    let world = World::new().await;
    let channel = world.channel("lost").await;
    world.post(channel).await;
    world.answered(429, "Too Many Requests: retry after 86400", Some(86_400)).await;
    world.seconds(60);
    let said = world.status().await;
    assert!(said.contains("at 2026-11-16 12:00:00 UTC (in 23 h 59 min)"), "{said}");
    assert!(said.contains("$ rupor channel resume lost"), "{said}");
    let (workspace, channel) = ("default".into(), "lost".into());
    world.perform(Verb::ResumeChannel { workspace, channel, with_failed: false }).await.unwrap();
    assert!(world.status().await.contains("no trouble"), "{}", world.status().await);
    let sent = domain::outcome::Sent { provider_message_id: Some("7".into()), raw: serde_json::Value::Null };
    world.end(domain::outcome::Outcome::Sent(sent)).await;
}

#[tokio::test]
async fn a_captcha_is_told_although_nothing_waits() {
    let world = World::new().await;
    let channel = world.channel("lost").await;
    let id = world.post(channel).await;
    let captcha = domain::outcome::Failure::new(
        domain::outcome::Category::Transient,
        domain::outcome::Scope::Platform,
        "vk:14",
        "Captcha needed",
    );
    world.end(domain::outcome::Outcome::Failed(captcha.retry_after(3_600_000))).await;
    world.store.cancel(world.ws, vec![id]).await.unwrap();
    let said = world.status().await;
    assert!(said.contains("VK wants a captcha solved"), "{said}");
    assert!(said.contains("it goes on by itself at 2026-11-15 13:00:00 UTC"), "{said}");
    assert!(said.contains("$ rupor account resume bot"), "{said}");
}

#[tokio::test]
async fn a_hung_server_is_explained() {
    let world = World::new().await;
    let channel = world.channel("lost").await;
    let id = world.post(channel).await;
    world.hung().await;
    world.seconds(1);
    check(
        &world.show(id).await,
        expect_test::expect![[r#"
            delivery 1 waits to be tried again
              cause: the server took the request and did not answer in time (timeout: no answer within 10 s); nobody knows whether it was shown, so it may appear twice
              since: 2026-11-15 12:00:00 UTC (1 s ago)
              next:  it is tried again at 2026-11-15 12:00:02 UTC (in 1 s); if nobody knows about that one either, it is given up and can be queued again by hand
              help:  nothing to do if it passes; if it lasts, look whether the platform has an outage, or run `$ rupor check`
        "#]],
    );
    world.seconds(9);
    world.hung().await;
    check(
        &world.show(id).await,
        expect_test::expect![[r#"
            delivery 1 was given up
              cause: the server took the request and did not answer in time (timeout: no answer within 10 s); nobody knows whether readers see it
              since: 2026-11-15 12:00:10 UTC (0 s ago)
              next:  nothing: it stays as it is until somebody queues it again
              help:  look into the channel: if it is not there, queue it again
                     $ rupor delivery requeue 1
        "#]],
    );
    expect_test::expect![[r#"
        workspace default · 2026-11-15 12:00:10 UTC · node running

        channel  platform  state  waiting  late by  done in  sent  failed  rate
        lost     telegram  open   0        -        -        0     1       1/s

        trouble

        channel lost: 1 delivery was not sent lately
          cause: the last one: the server took the request and did not answer in time (timeout)
          since: 2026-11-15 12:00:10 UTC (0 s ago)
          next:  nothing: they stay as they are until somebody queues them again
          help:  $ rupor delivery list --status dead --channel lost
                 $ rupor delivery requeue --status dead --channel lost
    "#]]
    .assert_eq(&world.status().await);
}

#[tokio::test]
async fn a_request_that_is_out_and_a_queue_are_explained() {
    let world = World::new().await;
    let channel = world.channel("lost").await;
    let (out, next) = (world.post(channel).await, world.post(channel).await);
    world.claim().await;
    world.seconds(20);
    check(
        &world.show(out).await,
        expect_test::expect![[r#"
            delivery 1 is being sent: the request is out, the answer is not here
              cause: attempt 1 is under way
              since: 2026-11-15 12:00:00 UTC (20 s ago)
              next:  if there is no answer by 2026-11-15 12:01:00 UTC (in 40 s), it is taken up again
              help:  nothing to do; `$ rupor status` shows whether the node runs
        "#]],
    );
    check(
        &world.show(next).await,
        expect_test::expect![[r#"
        delivery 2 waits in line
          since: 2026-11-15 12:00:00 UTC (20 s ago)
          next:  it is sent in its turn, within seconds if the queue is short
    "#]],
    );
}

#[tokio::test]
async fn a_pause_by_an_operator_names_its_reason_and_its_end() {
    let world = World::new().await;
    let channel = world.channel("lost").await;
    let id = world.post(channel).await;
    let until = world.store.now().await.unwrap() + Span::from_secs(1_800);
    world.store.pause_channel(world.ws, channel, until, "ремонт").await.unwrap();
    check(
        &world.show(id).await,
        expect_test::expect![[r#"
        delivery 1 waits: channel lost is paused
          cause: ремонт
          since: 2026-11-15 12:00:00 UTC (0 s ago)
          next:  the channel tries again by itself at 2026-11-15 12:30:00 UTC (in 30 min); 1 delivery waits and is kept
          help:  $ rupor channel resume lost
    "#]],
    );
}

#[tokio::test]
async fn a_source_that_fails_is_explained() {
    let world = World::new().await;
    let new = store::NewSource {
        kind: "vk".into(),
        name: "city".into(),
        address: "-77".into(),
        account_id: None,
        settings: serde_json::json!({}),
    };
    let source_id = world.store.create_source(world.ws, new).await.unwrap();
    world.store.due_sources("node", store::Seats::any(10), Span::from_secs(60)).await.unwrap();
    let next_poll_at = world.store.now().await.unwrap() + Span::from_secs(300);
    let health = store::PollHealth::Failed(
        "vk: the wall is closed; join the community with the reading account".into(),
    );
    let poll = store::FinishedPoll { source_id, owner: "node".into(), cursor: None, next_poll_at, health };
    assert!(world.store.finish_poll(world.ws, poll).await.unwrap());
    world.seconds(60);
    expect_test::expect![[r#"
        workspace default · 2026-11-15 12:01:00 UTC · node running

        channel  platform  state  waiting  late by  done in  sent  failed  rate
        no channels yet: write them into rupor.toml and run `rupor apply`

        trouble

        source city (vk) cannot be read
          cause: vk: the wall is closed; join the community with the reading account
          since: 2026-11-15 12:00:00 UTC (1 min ago)
          next:  it is tried again at 2026-11-15 12:05:00 UTC (in 4 min); the other sources are not touched, and what was posted meanwhile is caught up
          help:  $ rupor check
    "#]].assert_eq(&world.status().await);
}

#[test]
fn spans_are_said_in_two_units() {
    let said = [0, 1, 59, 60, 61, 3_600, 3_660, 86_400, 90_000].map(|s| how_long(Span::from_secs(s)));
    assert_eq!(said, ["0 s", "1 s", "59 s", "1 min", "1 min 1 s", "1 h", "1 h 1 min", "1 d", "1 d 1 h"]);
    assert_eq!(how_long(Span::from_millis(-5)), "0 s");
}

#[test]
fn names_are_quoted_where_a_shell_needs_it() {
    assert_eq!(
        ["lost", "потеряшки", "два слова", "it's", "-x"].map(quoted),
        ["lost", "потеряшки", "'два слова'", r"'it'\''s'", "'-x'"]
    );
}
