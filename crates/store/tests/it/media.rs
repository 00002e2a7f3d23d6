//! Bytes and handles: kept once, found again, thrown out when nobody shows them. And the receipts of doors.

use bytes::Bytes;
use domain::ids::EndpointId;
use domain::time::Span;
use secrecy::SecretString;
use serde_json::json;
use store::*;

use crate::world::*;

contract! {
    a_picture_that_ended_its_nodes_is_remembered,
    bytes_are_kept_once_and_read_back,
    a_handle_counts_until_it_expires,
    bytes_that_a_message_shows_are_not_thrown_out,
    bad_media_is_refused,
    a_workspace_does_not_see_anothers_bytes,
    the_same_request_gets_the_same_answer,
    what_a_door_turns_away_leaves_an_event,
}

pub(crate) fn media(byte: u8) -> NewMedia {
    NewMedia {
        sha256: format!("{byte:02x}").repeat(32),
        mime: "image/jpeg".into(),
        bytes: Bytes::from(vec![byte; 300]),
        width: Some(20),
        height: Some(15),
        picture_hash: Some("00ff".into()),
        source_url: Some(format!("https://vk.com/photo-1_{byte}")),
    }
}

async fn bytes_are_kept_once_and_read_back(w: &World) {
    let new = media(7);
    w.store.put_media_origin(w.ws, new.clone()).await.unwrap();
    w.seconds(5).await;
    w.store.put_media_origin(w.ws, new.clone()).await.unwrap();
    let kept = w.store.media_origin(w.ws, &new.sha256).await.unwrap().unwrap();
    assert_eq!((kept.mime.as_str(), kept.bytes_count, kept.width), ("image/jpeg", 300, Some(20)));
    assert_eq!(kept.last_used_at, START + Span::from_secs(5));
    let found = w.store.media_by_source(w.ws, "https://vk.com/photo-1_7").await.unwrap();
    assert_eq!(found, Some(kept));
    assert_eq!(w.store.media_bytes(w.ws, &new.sha256).await.unwrap(), Some(new.bytes));
    assert_eq!(w.store.media_bytes(w.ws, &media(8).sha256).await.unwrap(), None);
}

async fn a_handle_counts_until_it_expires(w: &World) {
    let account = w.account().await;
    let sha256 = media(7).sha256;
    let handle = |kind: &str, handle: &str, expires_in: Option<i64>| StoredHandle {
        sha256: sha256.clone(),
        kind: kind.into(),
        handle: handle.into(),
        expires_at: expires_in.map(|s| START + Span::from_secs(s)),
    };
    let both = vec![handle("photo", "раз", Some(60)), handle("document", "два", None)];
    w.store.put_media_handles(w.ws, account, both).await.unwrap();
    let found = async |kind: &str| {
        w.store.media_handle(w.ws, account, &sha256, kind).await.unwrap().map(|found| found.handle)
    };
    assert_eq!(found("photo").await.as_deref(), Some("раз"));
    w.seconds(60).await;
    assert_eq!((found("photo").await, found("document").await.as_deref()), (None, Some("два")));
    w.store.put_media_handles(w.ws, account, vec![handle("photo", "три", Some(120))]).await.unwrap();
    assert_eq!(found("photo").await.as_deref(), Some("три"));
}

async fn bytes_that_a_message_shows_are_not_thrown_out(w: &World) {
    let account = w.account().await;
    let (shown, unused) = (media(1), media(2));
    for new in [&shown, &unused] {
        w.store.put_media_origin(w.ws, new.clone()).await.unwrap();
    }
    let handle = StoredHandle {
        sha256: unused.sha256.clone(),
        kind: "photo".into(),
        handle: "h".into(),
        expires_at: None,
    };
    w.store.put_media_handles(w.ws, account, vec![handle]).await.unwrap();
    let payload = json!({"text": "", "media": [{"kind": "photo", "blob": shown.sha256}]});
    let post =
        NewPost { message: NewMessage { payload, ..message("раз", &[]) }, sketch: None, held: None };
    w.store.ingest(w.ws, vec![post], None).await.unwrap();
    let day = Span::from_hours(24);
    assert_eq!(w.store.collect_media(day, 10).await.unwrap(), CollectedMedia::default(), "too young");
    w.advance(Span::from_hours(48)).await;
    assert_eq!(w.store.collect_media(day, 10).await.unwrap(), CollectedMedia { media: 1, handles: 1 });
    assert!(w.store.media_bytes(w.ws, &unused.sha256).await.unwrap().is_none());
    assert!(w.store.media_bytes(w.ws, &shown.sha256).await.unwrap().is_some());
    w.store
        .retain(Whose::Everyone, Retention { deliveries: day, deduped: day, events: day }, 100, Walk::START)
        .await
        .unwrap();
    assert_eq!(w.store.collect_media(day, 10).await.unwrap().media, 1, "its message is gone");
}

async fn bad_media_is_refused(w: &World) {
    let traversal = NewMedia { sha256: format!("../{}", "a".repeat(61)), ..media(1) };
    assert!(matches!(w.store.put_media_origin(w.ws, traversal).await, Err(StoreError::Invalid { .. })));
    let empty = NewMedia { bytes: Bytes::new(), ..media(1) };
    assert!(matches!(w.store.put_media_origin(w.ws, empty).await, Err(StoreError::Invalid { .. })));
}

async fn a_workspace_does_not_see_anothers_bytes(w: &World) {
    w.store.put_media_origin(w.ws, media(7)).await.unwrap();
    let other = w.another_workspace("другой").await;
    assert!(other.store.media_bytes(other.ws, &media(7).sha256).await.unwrap().is_none());
    assert!(other.store.media_origin(other.ws, &media(7).sha256).await.unwrap().is_none());
}

async fn the_same_request_gets_the_same_answer(w: &World) {
    let secret = SecretString::from("длинный секрет двери");
    let new = NewEndpoint { name: "дверь".into(), kind: "push".into(), secret, settings: json!({}) };
    let door = w.store.create_endpoint(w.ws, new).await.unwrap();
    let ask = async |hash: &str| w.store.receipt(w.ws, door, "ключ", hash).await.unwrap();
    assert_eq!(ask("a").await, Receipt::New);
    let answer = json!({"message_id": 1});
    let kept = w.store.keep_receipt(w.ws, door, "ключ", "a", answer.clone()).await.unwrap();
    assert_eq!(kept, Receipt::Same(answer.clone()));
    assert_eq!((ask("a").await, ask("b").await), (Receipt::Same(answer), Receipt::Conflict));
    let late = w.store.keep_receipt(w.ws, door, "ключ", "b", json!({})).await.unwrap();
    assert_eq!(late, Receipt::Conflict, "the first answer stands");
    assert!(w.store.keep_receipt(w.ws, EndpointId(404), "ключ", "a", json!({})).await.is_err());
    w.advance(Span::from_hours(48)).await;
    assert_eq!(w.store.forget_receipts(Span::from_hours(24)).await.unwrap(), 1);
    assert_eq!(ask("b").await, Receipt::New);
}

async fn what_a_door_turns_away_leaves_an_event(w: &World) {
    w.store.reject_ingress(w.ws, EndpointId(7), "the key was used for another request").await.unwrap();
    let event = w.store.recent_events(w.ws, 1).await.unwrap().remove(0);
    assert_eq!(event.name, "ingress_rejected");
    assert_eq!(event.detail, json!({"endpoint": 7, "why": "the key was used for another request"}));
    let detail = json!({"why": "wrong secret", "times": 3});
    w.store.turn_away(w.ws, detail.clone(), None).await.unwrap();
    w.store.turn_away(w.ws, detail.clone(), Some("somebody guesses")).await.unwrap();
    let told = w.store.recent_events(w.ws, 3).await.unwrap();
    let mut told: Vec<_> = told.into_iter().map(|event| (event.name, event.detail)).collect();
    told.sort_by(|a, b| a.0.cmp(&b.0));
    let rejected = || ("ingress_rejected".to_owned(), detail.clone());
    let alert = ("alert".to_owned(), json!({"text": "somebody guesses", "why": "guessing"}));
    assert_eq!(told, [alert, rejected(), rejected()]);
}

async fn a_picture_that_ended_its_nodes_is_remembered(w: &World) {
    let begun = async || w.store.looks_begun(w.ws, "https://vk.com/photo-1_2").await.unwrap();
    assert_eq!(begun().await, 0);
    for n in 1..=3 {
        w.store.begin_look(w.ws, "https://vk.com/photo-1_2").await.unwrap();
        assert_eq!(begun().await, n);
    }
    let other = w.another_workspace("другой").await;
    assert_eq!(other.store.looks_begun(other.ws, "https://vk.com/photo-1_2").await.unwrap(), 0);
    w.store.end_look(w.ws, "https://vk.com/photo-1_2").await.unwrap();
    assert_eq!(begun().await, 0);
    w.store.begin_look(w.ws, "https://vk.com/photo-1_2").await.unwrap();
    w.advance(Span::from_hours(2)).await;
    w.store.forget_receipts(Span::from_hours(1)).await.unwrap();
    assert_eq!(begun().await, 0, "nobody shows it any more");
}
