//! A conversation of maxoxide with the sandbox. Its own limiter and retries are off: the sandbox's answers are what is looked at.

use std::time::Duration;

use maxoxide::types::{
    AnswerCallbackBody, Button, EditChatBody, KeyboardPayload, NewAttachment, NewMessageBody, PinMessageBody,
    Update, UploadType,
};
use maxoxide::{Bot, MaxError, RateLimitConfig, RetryPolicy, reqwest};
use serde_json::{Value, json};

const TOKEN: &str = "maxoxide-client-token";

fn group(n: i64) -> i64 {
    -73_000_000_000_000 - n
}

async fn step<T, E: std::fmt::Debug>(name: &str, call: impl Future<Output = Result<T, E>>) -> T {
    // The limit of 30 requests a second is on: a pause keeps the conversation below it.
    tokio::time::sleep(Duration::from_millis(40)).await;
    let result = call.await.unwrap_or_else(|error| panic!("{name}: {error:?}"));
    println!("ok {name}");
    result
}

async fn control(origin: &str, path: &str, body: Value) {
    let answer =
        reqwest::Client::new().post(format!("{origin}/_/{path}")).body(body.to_string()).send().await;
    let answer = answer.expect("the sandbox answers");
    assert!(answer.status().is_success(), "{}", answer.text().await.unwrap_or_default());
}

#[tokio::main]
async fn main() {
    let origin = std::env::var("SANDBOX").expect("SANDBOX is the origin of a sandbox");
    let bot = Bot::builder(TOKEN)
        .base_url(format!("{origin}/max"))
        .rate_limits(RateLimitConfig::disabled())
        .retry_policy(RetryPolicy::disabled())
        .build()
        .expect("a bot");
    let me = step("get_me", bot.get_me()).await;
    let picture = |name: &str| {
        let url = format!("{origin}/_/pictures/{name}.jpg");
        async move { reqwest::get(url).await.expect("a picture").bytes().await.expect("its bytes").to_vec() }
    };

    let post = step("send_html_to_chat", bot.send_html_to_chat(group(1), "<b>Пропал</b> пёс")).await;
    assert_eq!(post.text(), Some("Пропал пёс"));
    let mut images = Vec::new();
    for name in ["rex", "murka"] {
        let token = step(
            "upload_bytes",
            bot.upload_bytes(UploadType::Image, picture(name).await, "a.jpg", "image/jpeg"),
        )
        .await;
        images.push(NewAttachment::image(token));
    }
    let mut album = NewMessageBody::text("Два фото");
    album.attachments = Some(images);
    let album = step("album", bot.send_message_to_chat(group(2), album)).await;
    let sent = bot.send_image_bytes_to_chat(
        group(3),
        picture("rex").await,
        "a.jpg",
        "image/jpeg",
        Some("Фото".into()),
    );
    step("send_image_bytes_to_chat", sent).await;
    let clip = std::env::temp_dir().join(format!("rupor-maxoxide-{}.mp4", std::process::id()));
    let bytes = [&b"\0\0\0\x18ftypmp42"[..], &vec![7; 2_500_000]].concat();
    std::fs::write(&clip, bytes).expect("writes");
    let sent = bot.send_video_to_chat(group(4), &clip, "clip.mp4", "video/mp4", Some("Видео".into()));
    step("send_video_to_chat in pieces", sent).await;
    std::fs::remove_file(&clip).expect("removes");
    let sent =
        bot.send_file_bytes_to_chat(group(5), b"%PDF-1.4".to_vec(), "leaflet.pdf", "application/pdf", None);
    step("send_file_bytes_to_chat", sent).await;

    let edited =
        step("edit_message", bot.edit_message(post.message_id(), NewMessageBody::text("Найден"))).await;
    assert!(edited.success);
    let read = step("get_message", bot.get_message(post.message_id())).await;
    assert_eq!(read.text(), Some("Найден"));
    let list = step("get_messages", bot.get_messages(group(2), Some(5), None, None)).await;
    assert_eq!(list.messages.len(), 1);
    let pin = PinMessageBody { message_id: album.message_id().to_owned(), notify: Some(false) };
    assert!(step("pin_message", bot.pin_message(group(2), pin)).await.success);
    let pinned = step("get_pinned_message", bot.get_pinned_message(group(2))).await;
    assert_eq!(pinned.message.message_id(), album.message_id());
    assert!(step("unpin_message", bot.unpin_message(group(2))).await.success);
    step("get_chat", bot.get_chat(group(2))).await;
    step("get_my_membership", bot.get_my_membership(group(2))).await;
    step("get_members", bot.get_members(group(2), Some(10), None)).await;
    step("get_admins", bot.get_admins(group(2))).await;
    let title = EditChatBody { title: Some("Поиск питомцев".into()), ..EditChatBody::default() };
    step("edit_chat", bot.edit_chat(group(2), title)).await;
    step("send_typing_on", bot.send_typing_on(group(2))).await;
    step("get_subscriptions", bot.get_subscriptions()).await;
    assert!(step("delete_message", bot.delete_message(post.message_id())).await.success);

    // Long polling, a message of a user, a pressed button and the answer to it.
    let user = 500_400;
    control(
        &origin,
        "updates/max",
        json!({ "account": TOKEN, "chat": me.user_id ^ user, "from": user, "text": "Видели пса?" }),
    )
    .await;
    let updates = step("get_updates", bot.get_updates(None, Some(10), None)).await;
    assert!(
        matches!(&updates.updates[0], Update::MessageCreated { message, .. } if message.text() == Some("Видели пса?"))
    );
    let keyboard = KeyboardPayload { buttons: vec![vec![Button::callback("Это мой", "mine")]] };
    let mut question = NewMessageBody::text("Это ваш пёс?");
    question.attachments = Some(vec![NewAttachment::inline_keyboard(keyboard)]);
    let question = step("send_message_to_user", bot.send_message_to_user(user, question)).await;
    let press = json!({
        "account": TOKEN, "update_type": "message_callback",
        "callback": { "payload": "mine", "user": { "user_id": user } },
        "message": { "body": { "mid": question.message_id() } },
    });
    control(&origin, "updates/max", press).await;
    let updates = step("get_updates", bot.get_updates(updates.marker, Some(10), None)).await;
    let Update::MessageCallback { callback, .. } = &updates.updates[0] else {
        panic!("no callback: {updates:?}")
    };
    assert_eq!(callback.payload.as_deref(), Some("mine"));
    let answer = AnswerCallbackBody {
        callback_id: callback.callback_id.clone(),
        message: Some(NewMessageBody::text("Ура, нашёлся!")),
        notification: None,
    };
    assert!(step("answer_callback", bot.answer_callback(answer)).await.success);
    let after = step("get_message after the answer", bot.get_message(question.message_id())).await;
    assert_eq!(after.text(), Some("Ура, нашёлся!"));

    // The third message within a second to one chat.
    tokio::time::sleep(Duration::from_millis(1100)).await;
    bot.send_text_to_chat(group(6), "1").await.expect("the first");
    bot.send_text_to_chat(group(6), "2").await.expect("the second");
    match bot.send_text_to_chat(group(6), "3").await {
        Err(MaxError::Api(error)) => assert!(error.is_rate_limited(), "{error:?}"),
        other => panic!("no flood answer: {other:?}"),
    }
    println!("maxoxide: done");
}
