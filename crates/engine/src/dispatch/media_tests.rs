//! Posts with pictures against the sandbox: what their uploads cost, and what becomes of a handle that is refused.

use domain::delivery::Status;
use domain::ids::AccountId;
use domain::message::Message;
use sandbox::{Name, pictures::Pictures};
use store::{AccountSettings, ChannelSettings, StoredHandle};

use super::tests::World;

const TELEGRAM_CHAT: &str = "-1001234567890";
const VK_WALL: &str = "-200000001";
const MAX_CHAT: &str = "-70000000000001";

impl World {
    /// Keeps a picture, and returns a message that shows it.
    async fn picture(&self, name: &str, text: &str) -> Message {
        let bytes = Pictures::new(7).jpeg(name);
        let files = vec![("photo.jpg".into(), bytes)];
        let media = crate::ingest::keep_bytes(&self.store, self.workspace, files).await.unwrap();
        Message { media, ..Message::text(text) }
    }

    async fn sender(&self, platform: Name, rate: Option<f64>) -> AccountId {
        let mut settings = AccountSettings { rate, max_parallel: 16, ..AccountSettings::default() };
        if platform == Name::Vk {
            settings.kind = "user".into();
        }
        self.account(platform, settings).await
    }

    async fn handle(&self, account: AccountId, message: &Message) -> Option<StoredHandle> {
        let blob = message.media[0].blob.clone().unwrap();
        self.store.media_handle(self.workspace, account, &blob, "photo").await.unwrap()
    }

    /// What a reader of the chat sees: texts, and how many pictures each has.
    fn shown(&self, platform: Name, chat: &str) -> Vec<usize> {
        let messages = self.sandbox.core().chats.messages(platform, chat);
        messages.iter().map(|message| message.media.len()).collect()
    }
}

#[tokio::test]
async fn a_picture_whose_handle_is_refused_is_uploaded_again_in_the_same_attempt() {
    let w = World::new().await;
    for (platform, chat) in [(Name::Telegram, TELEGRAM_CHAT), (Name::Max, MAX_CHAT)] {
        let account = w.sender(platform, None).await;
        let channel = w.channel(account, chat, ChannelSettings::default()).await;
        let message = w.picture("кот", "Пропал кот").await;
        let node = w.node();
        let ids = w.post(&format!("{platform:?} 1"), &message, &[channel]).await;
        w.until_ended(&ids).await;
        let good = w.handle(account, &message).await.unwrap();
        // The platform has forgotten what it was given.
        let worn = StoredHandle { handle: worn(&good.handle), ..good.clone() };
        w.store.put_media_handles(w.workspace, account, vec![worn.clone()]).await.unwrap();
        let again = Message { text: "Кота ещё ищут".into(), ..message.clone() };
        let ids = w.post(&format!("{platform:?} 2"), &again, &[channel]).await;
        let delivery = w.until_ended(&ids).await.remove(0);
        assert_eq!(delivery.status, Status::Sent, "{platform:?}: {delivery:#?}");
        assert_eq!((delivery.counters.attempt, delivery.counters.charged), (1, 0), "{platform:?}");
        assert_eq!(w.shown(platform, chat), [1, 1], "{platform:?}: with its picture, and once");
        assert_eq!(node.meters.handles_refused_by(platform.as_str()), 1);
        let now = w.handle(account, &message).await.unwrap();
        assert_ne!(now.handle, worn.handle, "{platform:?}: the refused one is not kept");
        node.stop().await;
    }
}

fn worn(handle: &str) -> String {
    let mut handle: serde_json::Value = serde_json::from_str(handle).unwrap();
    handle["value"] = "forgotten".into();
    handle.to_string()
}

#[tokio::test]
async fn a_handle_is_kept_for_as_long_as_its_platform_keeps_it() {
    let w = World::new().await;
    let message = w.picture("пёс", "Пропал пёс").await;
    for (platform, chat, lasts) in
        [(Name::Telegram, TELEGRAM_CHAT, false), (Name::Vk, VK_WALL, true), (Name::Max, MAX_CHAT, true)]
    {
        let account = w.sender(platform, None).await;
        let channel = w.channel(account, chat, ChannelSettings::default()).await;
        let node = w.node();
        let ids = w.post(&format!("{platform:?}"), &message, &[channel]).await;
        w.until_ended(&ids).await;
        let kept = w.handle(account, &message).await.unwrap();
        assert_eq!(kept.expires_at.is_some(), lasts, "{platform:?}: {kept:?}");
        node.stop().await;
    }
}

/// Three posts with three pictures each are 3 × (3 × 2 + 1) calls to VK.
#[tokio::test]
async fn every_call_of_an_upload_is_paid_for_from_the_budget_of_its_account() {
    let w = World::new().await;
    let rate = 20.0;
    let account = w.sender(Name::Vk, Some(rate)).await;
    let mut ids = Vec::new();
    for n in 0..3 {
        let channel = w.channel(account, &format!("-20000000{n}"), ChannelSettings::default()).await;
        let mut message = w.picture(&format!("{n} первая"), &format!("Пропала кошка №{n}")).await;
        for name in ["вторая", "третья"] {
            message.media.extend(w.picture(&format!("{n} {name}"), "").await.media);
        }
        ids.extend(w.post(&n.to_string(), &message, &[channel]).await);
    }
    let node = w.node();
    for delivery in w.until_ended(&ids).await {
        assert_eq!(delivery.status, Status::Sent, "{delivery:#?}");
    }
    node.stop().await;
    let rows = w.sandbox.core().ledger.rows(Name::Vk);
    let calls: Vec<i64> =
        rows.iter().filter(|row| !row.method.starts_with("upload.")).map(|row| row.at).collect();
    assert_eq!(calls.len(), 21);
    let took = calls.last().unwrap() - calls.first().unwrap();
    let due = (calls.len() - 1) as f64 * 1_000.0 / rate;
    assert!(took as f64 > due * 0.8, "{} calls within {took} ms, {due} ms are due", calls.len());
}

/// While an album of ten goes up, a text for another wall of the same account gets its turn.
#[tokio::test]
async fn a_text_does_not_wait_for_the_album_of_another_channel() {
    let w = World::new().await;
    let account = w.sender(Name::Vk, Some(10.0)).await;
    let album = w.channel(account, "-200000001", ChannelSettings::default()).await;
    let words = w.channel(account, "-200000002", ChannelSettings::default()).await;
    let mut message = w.picture("0", "Ищем дом").await;
    for n in 1..10 {
        message.media.extend(w.picture(&n.to_string(), "").await.media);
    }
    let node = w.node();
    let first = w.post("альбом", &message, &[album]).await;
    w.until(first[0], |delivery| delivery.status == Status::Sending).await;
    let second = w.post("слова", &Message::text("Найдена собака"), &[words]).await;
    w.until_ended(&second).await;
    assert_eq!(w.delivery(first[0]).await.status, Status::Sending, "the album is still going up");
    w.until_ended(&first).await;
    assert_eq!(w.shown(Name::Vk, "-200000001"), [10]);
    node.stop().await;
}
