//! Uploads of every type: who gives the token, what the host answers, when a token can be sent.

use super::*;

#[tokio::test]
async fn an_image_gets_its_token_from_the_host() {
    let world = World::registered(json!({})).await;
    let (path, token) = world.upload_slot("image").await;
    assert_eq!(token, None);
    let answer = world.multipart(&path, "rex.jpg", &world.picture("rex")).await;
    assert!(answer.head.contains("content-type: application/json"), "{}", answer.head);
    let row = world.last_row();
    assert_eq!((&row["account"], &row["method"]), (&json!(TOKEN), &json!("POST /upload/{key}")));
    assert_eq!((&row["accepted"], &row["media"][0]["kind"]), (&json!(true), &json!("image")));
    let photos = answer.json()["photos"].clone();
    let token =
        photos.as_object().and_then(|photos| photos.values().next()).expect("one photo")["token"].clone();
    // The whole map works, and so does the token inside it, again and again.
    for payload in [json!({ "photos": photos }), json!({ "token": token }), json!({ "token": token })] {
        let message = world.sent(json!({ "attachments": [{ "type": "image", "payload": payload }] })).await;
        let image = &message["body"]["attachments"][0];
        assert_eq!((&image["type"], &image["payload"]["token"]), (&json!("image"), &token));
        assert!(image["payload"]["photo_id"].is_i64());
        let url = image["payload"]["url"].as_str().expect("an address");
        let served =
            world.raw("GET", url.strip_prefix(world.sandbox.origin()).expect("ours"), &[], b"").await;
        assert_eq!(served.body, world.picture("rex"));
    }
    let row = world.last_row();
    assert_eq!(row["media"][0]["bytes"], world.picture("rex").len());
    assert_eq!(row["media"][0]["sha256"].as_str().map(str::len), Some(64));
}

#[tokio::test]
async fn several_images_are_one_message() {
    let world = World::registered(json!({})).await;
    let mut images = Vec::new();
    for name in ["rex", "murka", "sharik"] {
        let token = world.uploaded("image", "a.jpg", &world.picture(name)).await;
        images.push(json!({ "type": "image", "payload": { "token": token } }));
    }
    let message = world.sent(json!({ "text": "альбом", "attachments": images })).await;
    assert_eq!(message["body"]["attachments"].as_array().map(Vec::len), Some(3));
    let row = world.last_row();
    assert_eq!(row["visible_id"], message["body"]["mid"]);
    assert_eq!(row["media"].as_array().map(Vec::len), Some(3));
    let shown = json!(world.sandbox.core().chats.messages(Name::Max, &GROUP.to_string()));
    assert_eq!(shown.as_array().map(Vec::len), Some(1));
    assert_eq!(shown[0]["media"].as_array().map(Vec::len), Some(3));
}

#[tokio::test]
async fn videos_and_audio_have_their_token_first_and_are_ready_when_the_bytes_are_here() {
    let world = World::registered(json!({})).await;
    for (kind, bytes) in [("video", &b"\0\0\0\x18ftypmp42"[..]), ("audio", b"ID3 sound")] {
        let (path, token) = world.upload_slot(kind).await;
        let token = token.expect("a token");
        let body = json!({ "text": "x", "attachments": [{ "type": kind, "payload": { "token": token } }] });
        let send = format!("/messages?chat_id={GROUP}");
        let not_ready = "Key: errors.process.attachment.video.not.processed";
        world.refused("POST", &send, body.clone(), 400, "attachment.not.ready", not_ready).await;
        let answer = world.multipart(&path, "a.bin", bytes).await;
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        assert_eq!((answer.status, text.contains("<retval>1</retval>")), (200, true), "{text}");
        let message = world.sent(body).await;
        assert_eq!(message["body"]["attachments"][0]["type"], kind);
    }
}

#[tokio::test]
async fn a_file_keeps_its_name_and_size() {
    let world = World::registered(json!({})).await;
    let (path, token) = world.upload_slot("file").await;
    assert_eq!(token, None);
    let answer = world.multipart(&path, "Листовка.pdf", b"%PDF-1.4").await.json();
    assert!(answer["fileId"].is_i64());
    let file = json!({ "type": "file", "payload": { "token": answer["token"] } });
    let message = world.sent(json!({ "attachments": [file] })).await;
    let kept = &message["body"]["attachments"][0];
    assert_eq!((&kept["filename"], &kept["size"]), (&json!("Листовка.pdf"), &json!(8)));
}

#[tokio::test]
async fn a_file_may_come_in_pieces_in_any_order() {
    let world = World::registered(json!({})).await;
    let (path, token) = world.upload_slot("video").await;
    let bytes: Vec<u8> = b"\0\0\0\x18ftyp".iter().copied().chain((0..=255).cycle().take(992)).collect();
    for (from, to, answer) in
        [(0, 400, "0-399/1000"), (700, 1000, "700-999/1000"), (400, 700, "<retval>1</retval>")]
    {
        let range = format!("bytes {from}-{}/1000", to - 1);
        let headers = [
            ("content-range", range.as_str()),
            ("content-type", "application/x-binary"),
            ("x-file-name", "clip.mp4"),
        ];
        let got = world.raw("POST", &path, &headers, &bytes[from..to]).await;
        assert_eq!(got.status, 200);
        assert!(String::from_utf8_lossy(&got.body).contains(answer), "{range}");
    }
    let video = json!({ "type": "video", "payload": { "token": token } });
    let message = world.sent(json!({ "attachments": [video] })).await;
    let url = message["body"]["attachments"][0]["payload"]["url"].as_str().expect("an address").to_owned();
    let served = world.raw("GET", url.strip_prefix(world.sandbox.origin()).expect("ours"), &[], b"").await;
    assert_eq!(served.body, bytes);
    let token = token.expect("a token");
    let about = world.ok("GET", &format!("/videos/{token}"), Value::Null).await;
    assert_eq!((&about["token"], &about["urls"]["mp4_720"]), (&json!(token), &json!(url)));
    world.refused("GET", "/videos/none", Value::Null, 404, "not.found", "Video none not found").await;
}

#[tokio::test]
async fn bare_bytes_are_taken_as_a_whole_file() {
    let world = World::registered(json!({})).await;
    let (path, _) = world.upload_slot("image").await;
    let headers = [("content-type", "image/jpeg")];
    let answer = world.raw("POST", &path, &headers, &world.picture("rex")).await;
    assert!(answer.json()["photos"].is_object());
}

#[tokio::test]
async fn an_upload_is_not_ready_for_as_many_sends_as_the_account_says() {
    let world = World::registered(json!({ "not_ready_sends": 2 })).await;
    let token = world.uploaded("file", "a.pdf", b"%PDF-1.4").await;
    let body = json!({ "text": "x", "attachments": [{ "type": "file", "payload": { "token": token } }] });
    let path = format!("/messages?chat_id={GROUP}");
    let not_ready = "Key: errors.process.attachment.file.not.processed";
    world.refused("POST", &path, body.clone(), 400, "attachment.not.ready", not_ready).await;
    let message = world.sent(json!({ "text": "x" })).await;
    let edit = format!("/messages?message_id={}", message["body"]["mid"].as_str().expect("an id"));
    world.unsuccessful("PUT", &edit, body.clone(), not_ready).await;
    world.ok("PUT", &edit, body.clone()).await;
    world.sent(body).await;
    assert_eq!(world.sandbox.core().chats.messages(Name::Max, &GROUP.to_string()).len(), 2);
}

#[tokio::test]
async fn pictures_can_be_given_by_address() {
    let world = World::registered(json!({})).await;
    let own = format!("{}/_/pictures/rex.jpg", world.sandbox.origin());
    let image = |url: &str| json!({ "attachments": [{ "type": "image", "payload": { "url": url } }] });
    let message = world.sent(image(&own)).await;
    assert!(message["body"]["attachments"][0]["payload"]["token"].is_string());
    let drawn = world.sandbox.core().pictures.jpeg("rex");
    assert_eq!(world.last_row()["media"][0]["bytes"], drawn.len());
    // The rest of the world is believed, not fetched.
    let message = world.sent(image("https://example.com/a.jpg")).await;
    assert_eq!(message["body"]["attachments"][0]["payload"]["url"], "https://example.com/a.jpg");
    assert_eq!(world.last_row()["media"][0]["url"], "https://example.com/a.jpg");
    let path = format!("/messages?chat_id={GROUP}");
    let page = format!("{}/_/stats", world.sandbox.origin());
    world.refused("POST", &path, image(&page), 400, "proto.payload", "Failed to upload image by `url`").await;
}

#[tokio::test]
async fn the_host_refuses_what_the_sheet_forbids() {
    let world = World::registered(json!({})).await;
    let forbidden = "File extension is forbidden";
    let table: &[(&str, &str, &[u8], &str)] = &[
        ("file", "virus.exe", b"MZ", forbidden),
        ("image", "a.pdf", b"%PDF-1.4", forbidden),
        ("image", "a.webp", b"RIFF....WEBPVP8 ", forbidden),
        ("video", "a.jpg", &[0xff, 0xd8, 0xff, 0xe0], forbidden),
        ("audio", "a.png", &[0x89, b'P', b'N', b'G'], forbidden),
        ("file", "empty.txt", b"", "File is empty"),
    ];
    for (kind, name, bytes, message) in table {
        let (path, _) = world.upload_slot(kind).await;
        let answer = world.multipart(&path, name, bytes).await;
        assert_eq!(
            (answer.status, answer.json()),
            (400, json!({ "code": "upload.error", "message": message })),
            "{name}"
        );
        assert_eq!(world.last_row()["accepted"], false);
    }
    let (path, _) = world.upload_slot("image").await;
    for range in ["bytes 5-1/10", "bytes 0-1/x", "pages 1-2/3", "bytes 0-0/1", "bytes 0-5/99999999999"] {
        let answer = world.raw("POST", &path, &[("content-range", range)], b"abc").await;
        assert_eq!((answer.status, answer.json()["code"].as_str()), (400, Some("upload.error")), "{range}");
    }
    let nowhere = world.raw("POST", "/max/upload/nothing", &[], b"abc").await;
    assert_eq!(nowhere.json()["message"], "Upload url is not valid");
    // `photo` is an old name that is no longer known.
    world
        .refused(
            "POST",
            "/uploads?type=photo",
            Value::Null,
            400,
            "proto.payload",
            "type: unknown upload type photo",
        )
        .await;
    world.refused("POST", "/uploads", Value::Null, 400, "proto.payload", "`type` must be specified").await;
}

#[tokio::test]
async fn an_upload_beyond_the_largest_is_refused_unread() {
    let world = World::registered(json!({})).await;
    let (path, _) = world.upload_slot("file").await;
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: 5000000000\r\n\r\n"
    );
    let (answer, _) = raw(&world.sandbox, head.as_bytes()).await;
    assert_eq!(parsed(&answer).json(), json!({ "code": "upload.error", "message": "File is too big" }));
}
