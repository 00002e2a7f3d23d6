//! Whatever comes in, an answer in VK's words goes out: no panic, no 500.

use serde_json::{Value, json};

use super::{GROUP, World};
use crate::wire::{call, parsed, raw};

/// Every method of the emulator.
const METHODS: &[&str] = &[
    "account.getProfileInfo",
    "account.setOffline",
    "account.setOnline",
    "docs.getById",
    "docs.getMessagesUploadServer",
    "docs.getUploadServer",
    "docs.getWallUploadServer",
    "docs.save",
    "execute",
    "groups.addCallbackServer",
    "groups.deleteCallbackServer",
    "groups.disableOnline",
    "groups.editCallbackServer",
    "groups.enableOnline",
    "groups.get",
    "groups.getById",
    "groups.getCallbackConfirmationCode",
    "groups.getCallbackServers",
    "groups.getCallbackSettings",
    "groups.getLongPollServer",
    "groups.getLongPollSettings",
    "groups.getMembers",
    "groups.getOnlineStatus",
    "groups.getTokenPermissions",
    "groups.isMember",
    "groups.setCallbackSettings",
    "groups.setLongPollSettings",
    "likes.add",
    "likes.delete",
    "messages.delete",
    "messages.edit",
    "messages.getByConversationMessageId",
    "messages.getById",
    "messages.getConversationMembers",
    "messages.getConversations",
    "messages.getConversationsById",
    "messages.getHistory",
    "messages.isMessagesFromGroupAllowed",
    "messages.markAsRead",
    "messages.pin",
    "messages.send",
    "messages.sendMessageEventAnswer",
    "messages.setActivity",
    "messages.unpin",
    "photos.getById",
    "photos.getMessagesUploadServer",
    "photos.getUploadServer",
    "photos.getWallUploadServer",
    "photos.save",
    "photos.saveMessagesPhoto",
    "photos.saveWallPhoto",
    "stats.trackVisitor",
    "users.get",
    "utils.checkLink",
    "utils.getServerTime",
    "utils.getShortLink",
    "utils.resolveScreenName",
    "video.get",
    "video.save",
    "wall.checkCopyrightLink",
    "wall.closeComments",
    "wall.createComment",
    "wall.delete",
    "wall.deleteComment",
    "wall.edit",
    "wall.editComment",
    "wall.get",
    "wall.getById",
    "wall.getComment",
    "wall.getComments",
    "wall.openComments",
    "wall.pin",
    "wall.post",
    "wall.repost",
    "wall.restore",
    "wall.search",
    "wall.unpin",
];

/// Every parameter that some method reads.
const PARAMETERS: &[&str] = &[
    "owner_id",
    "post_id",
    "posts",
    "domain",
    "offset",
    "count",
    "filter",
    "extended",
    "fields",
    "message",
    "attachments",
    "attachment",
    "from_group",
    "publish_date",
    "guid",
    "comment_id",
    "reply_to_comment",
    "peer_id",
    "peer_ids",
    "user_id",
    "user_ids",
    "chat_id",
    "random_id",
    "reply_to",
    "forward",
    "forward_messages",
    "keyboard",
    "template",
    "payload",
    "sticker_id",
    "message_id",
    "message_ids",
    "cmid",
    "cmids",
    "conversation_message_ids",
    "group_id",
    "group_ids",
    "server_id",
    "server_ids",
    "url",
    "title",
    "secret_key",
    "screen_name",
    "photos",
    "docs",
    "videos",
    "photo",
    "photos_list",
    "server",
    "hash",
    "file",
    "event_id",
    "event_data",
    "object",
    "query",
    "code",
    "item_id",
    "up_to_cmid",
    "start_message_id",
    "api_version",
    "lat",
    "long",
    "primary_attachments_mode",
];

#[tokio::test]
async fn no_value_of_any_parameter_breaks_any_method() {
    let world = World::new().await;
    let account = json!({"platform": "vk", "token": "full", "kind": "full", "id": GROUP});
    world.sandbox.add_account(&account).expect("a good account");
    world.post("пост").await;
    world.inject(&json!({"chat": 5, "from": 5, "text": "Привет"}));
    let values = [
        "",
        "0",
        "1",
        "-1",
        "-77",
        "5",
        "9223372036854775807",
        "-9223372036854775808",
        "99999999999999999999",
        "x",
        "ы\u{301}🐈",
        "{}",
        "[]",
        "[[",
        "{\"buttons\":[[1]]}",
        "null",
        ",,,",
        "1,2,x",
        "photo1_2",
        "photo-_",
        "wall-77_1",
        "\0",
        "%%%",
        "1e9",
        " 1 ",
        "{\"type\":1}",
        "[{\"photo\":5}]",
    ];
    for method in METHODS {
        for value in values {
            let mut parameters: Value = PARAMETERS
                .iter()
                .map(|name| ((*name).to_owned(), json!(value)))
                .collect::<serde_json::Map<_, _>>()
                .into();
            parameters["access_token"] = "full".into();
            parameters["v"] = "5.199".into();
            let answer = world.form(&format!("/vk/method/{method}"), &parameters).await;
            assert_eq!(answer.status, 200, "{method} with {value:?}");
            let body = answer.json();
            assert!(
                body.get("response").is_some() != body.get("error").is_some(),
                "{method} with {value:?}: {body}"
            );
        }
    }
}

#[tokio::test]
async fn odd_requests_get_plain_refusals() {
    let world = World::new().await;
    let cases = [
        ("GET /vk HTTP/1.1\r\n", 404),
        ("GET /vk/nothing HTTP/1.1\r\n", 404),
        ("GET /vk/cdn/impg/zz/a.jpg?size=1x1&sign=x HTTP/1.1\r\n", 403),
        ("GET /vk/cdn/doc/zz/a.txt HTTP/1.1\r\n", 404),
        ("GET /vk/lp/x?act=a_check HTTP/1.1\r\n", 200),
        ("GET /vk/lp/wh99999999999999999999 HTTP/1.1\r\n", 200),
        ("POST /vk/upload/wall_photo HTTP/1.1\r\ncontent-length: 0\r\n", 200),
        (
            "POST /vk/upload/wall_photo?sid=x HTTP/1.1\r\ncontent-type: multipart/form-data\r\ncontent-length: 3\r\n",
            200,
        ),
        ("GET /vk/method/%ff%fe?v=%zz&access_token=%00 HTTP/1.1\r\n", 200),
        ("GET /vk/method/a/b/c HTTP/1.1\r\n", 404),
    ];
    for (request, status) in cases {
        let whole = format!("{request}host: localhost\r\nconnection: close\r\n\r\nabc");
        let (bytes, _) = raw(&world.sandbox, whole.as_bytes()).await;
        assert_eq!(parsed(&bytes).status, status, "{request}");
    }
}

#[tokio::test]
async fn control_calls_with_nonsense_are_refused() {
    let world = World::new().await;
    for body in [
        json!({}),
        json!({"type": 5}),
        json!({"type": "message_new"}),
        json!({"chat": {}, "from": 5}),
        json!({"chat": 0}),
    ] {
        let answer = call(&world.sandbox, "POST", "/_/updates/vk", &body).await;
        assert!((400..500).contains(&answer.status), "{body}: {}", answer.status);
    }
    for (method, path) in
        [("PATCH", "/_/walls/-77/x"), ("PATCH", "/_/walls/-77/5"), ("DELETE", "/_/walls/x/5")]
    {
        let answer = call(&world.sandbox, method, path, &json!({"text": "x"})).await;
        assert!((400..500).contains(&answer.status), "{method} {path}");
    }
}
