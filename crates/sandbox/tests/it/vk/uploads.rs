//! Uploads: photos for walls and messages, documents and videos.

use serde_json::{Value, json};

use super::{GROUP, Part, USER, WALL, World};

async fn wall_server(world: &World) -> String {
    let server = world.ok("user", "photos.getWallUploadServer", json!({"group_id": GROUP})).await;
    assert_eq!((server["album_id"].clone(), server["user_id"].clone()), (json!(-14), json!(USER)));
    server["upload_url"].as_str().expect("an address").to_owned()
}

#[tokio::test]
async fn a_wall_photo_goes_through_three_steps() {
    let world = World::new().await;
    let url = wall_server(&world).await;
    for field in ["photo", "file0"] {
        let mut uploaded = world.upload(&url, &[(field, "кот.jpg", &world.picture("kit"))]).await;
        assert_eq!(world.last_row().method, "upload.wall_photo");
        assert!(uploaded["photo"].as_str().is_some_and(|list| list.starts_with("[{")), "{uploaded}");
        uploaded["group_id"] = GROUP.into();
        let saved = world.ok("user", "photos.saveWallPhoto", uploaded.clone()).await;
        let again = world.ok("user", "photos.saveWallPhoto", uploaded).await;
        assert_ne!(saved[0]["id"], again[0]["id"], "saving twice makes two photos");
        assert_eq!((saved[0]["owner_id"].clone(), saved[0]["album_id"].clone()), (json!(USER), json!(-14)));
        let original = saved[0]["orig_photo"]["url"].as_str().expect("an address");
        assert_eq!(world.get(original).await.body, world.picture("kit"));
        assert_eq!(
            world
                .ok("service", "photos.getById", json!({"photos": format!("{USER}_{}", saved[0]["id"])}))
                .await[0],
            saved[0]
        );
    }
}

#[tokio::test]
async fn the_upload_host_says_200_to_files_it_cannot_read() {
    let world = World::new().await;
    let url = wall_server(&world).await;
    let picture = world.picture("rex");
    let long = image::RgbImage::new(2100, 100);
    let mut strip = std::io::Cursor::new(Vec::new());
    long.write_to(&mut strip, image::ImageFormat::Png).expect("a picture");
    let bad: &[(&str, &[Part<'_>])] = &[
        ("not a picture", &[("photo", "a.jpg", b"hello")]),
        ("no extension", &[("photo", "photo", &picture)]),
        ("nothing", &[]),
        ("too long a strip", &[("photo", "a.png", strip.get_ref())]),
    ];
    for (why, parts) in bad {
        let mut uploaded = world.upload(&url, parts).await;
        assert_eq!(uploaded["photo"], "[]", "{why}");
        assert!(!world.last_row().accepted);
        uploaded["group_id"] = GROUP.into();
        let text = world.text("user", "photos.saveWallPhoto", uploaded).await;
        assert!(text.ends_with("photos_list is invalid"), "{why}: {text}");
    }
    let mut two = world.upload(&url, &[("photo", "a.jpg", &picture), ("photo2", "b.jpg", &picture)]).await;
    two["group_id"] = GROUP.into();
    let text = world.text("user", "photos.saveWallPhoto", two).await;
    assert!(text.ends_with("photo is undefined"), "the wall takes one file at a time: {text}");
}

#[tokio::test]
async fn saving_checks_what_the_host_said() {
    let world = World::new().await;
    let url = wall_server(&world).await;
    let mut good = world.upload(&url, &[("photo", "a.jpg", &world.picture("rex"))]).await;
    good["group_id"] = GROUP.into();
    let cases: &[(&str, Value, i64)] = &[
        ("server", json!(1), 118),
        ("hash", json!("x"), 121),
        ("group_id", json!(78), 121),
        ("photo", json!("[{\"photo\":\"x\"}]"), 121),
        ("photo", json!("[]"), 100),
        ("photo", json!("{"), 100),
    ];
    for (field, value, code) in cases {
        let mut changed = good.clone();
        changed[*field] = value.clone();
        assert_eq!(world.code("user", "photos.saveWallPhoto", changed).await, *code, "{field} {value}");
    }
    let messages = world.ok("community", "photos.getMessagesUploadServer", json!({})).await;
    let url = messages["upload_url"].as_str().expect("an address");
    let uploaded = world.upload(url, &[("photo", "a.jpg", &world.picture("rex"))]).await;
    assert_eq!(world.code("user", "photos.saveWallPhoto", uploaded).await, 100, "another kind of upload");
    let nowhere =
        world.upload(&url.replace("sid=", "sid=0"), &[("photo", "a.jpg", &world.picture("rex"))]).await;
    assert!(nowhere["error"].is_string());
}

#[tokio::test]
async fn documents_and_videos_are_kept_and_served() {
    let world = World::new().await;
    let server = world.ok("community", "docs.getWallUploadServer", json!({"group_id": GROUP})).await;
    let url = server["upload_url"].as_str().expect("an address");
    let uploaded = world.upload(url, &[("file", "отчёт.txt", "данные".as_bytes())]).await;
    let saved = world.ok("community", "docs.save", json!({"file": uploaded["file"], "title": "Отчёт"})).await;
    let doc = &saved["doc"];
    assert_eq!(
        (saved["type"].clone(), doc["ext"].clone(), doc["type"].clone()),
        (json!("doc"), json!("txt"), json!(1))
    );
    let bytes = world.get(doc["url"].as_str().expect("an address")).await.body;
    assert_eq!(bytes, "данные".as_bytes());
    assert!(world.upload(url, &[("file", "песня.mp3", b"ID3")]).await["error"].is_string());
    assert!(world.upload(url, &[]).await["error"].is_string());
    assert_eq!(world.code("community", "docs.save", json!({"file": "x"})).await, 100);

    let video = world.ok("user", "video.save", json!({"name": "Ролик", "group_id": GROUP})).await;
    let url = video["upload_url"].as_str().expect("an address");
    let uploaded = world.upload(url, &[("video_file", "a.mp4", b"....ftypmp42")]).await;
    assert_eq!(
        (uploaded["video_id"].clone(), uploaded["size"].clone()),
        (video["video_id"].clone(), json!(12))
    );
    let names = format!("doc{}_{},video{WALL}_{}", doc["owner_id"], doc["id"], video["video_id"]);
    let post = json!({"owner_id": WALL, "message": "x", "attachments": names});
    world.ok("user", "wall.post", post).await;
    let kinds: Vec<Value> = world.last_row().media.iter().map(|media| media["kind"].clone()).collect();
    assert_eq!(kinds, ["doc", "video"]);
    let listed = &world.last_row().media[1];
    assert_eq!(
        (&listed["kind"], &listed["bytes"]),
        (&json!("video"), &json!(12)),
        "the bytes of a video are known"
    );
    assert_eq!(listed["sha256"].as_str().map(str::len), Some(64));
}
