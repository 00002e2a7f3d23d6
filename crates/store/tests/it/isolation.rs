//! Workspaces never see each other.

use domain::delivery::Status;
use domain::time::Span;
use secrecy::SecretString;
use store::*;

use crate::world::*;

contract! {
    a_foreign_workspace_sees_and_moves_nothing,
    a_message_cannot_go_to_a_foreign_channel,
    equal_names_keys_and_hashes_do_not_meet,
}

async fn a_foreign_workspace_sees_and_moves_nothing(w: &World) {
    let other = w.another_workspace("чужие").await;
    let channels = w.channels(1).await;
    w.post("раз", &channels).await;
    let account = w.store.accounts(w.ws).await.unwrap()[0].account_id;
    assert!(other.claim(10).await.is_empty());
    let claim = w.claim_one().await;
    let stolen = Claim { workspace_id: other.ws, ..claim.clone() };
    assert_eq!(other.sent(&stolen).await, Finished::LostClaim);
    let reference = stolen.reference();
    assert_eq!(other.store.renew(vec![reference], Span::from_secs(60)).await.unwrap(), [false]);
    let part = PartProgress::Done { part: 0, provider_message_id: "1".into() };
    assert_eq!(other.store.record_parts(vec![(reference, part)]).await.unwrap(), [false]);
    let id = claim.delivery_id;
    let s = &other.store;
    let far = w.now().await + Span::from_hours(1);
    for refused in [
        s.delivery(other.ws, id).await.map(drop),
        s.cancel(other.ws, vec![id]).await.map(drop),
        s.requeue(other.ws, vec![id]).await.map(drop),
        s.payload(other.ws, claim.message_id).await.map(drop),
        s.pause_channel(other.ws, channels[0], far, "").await.map(drop),
        s.resume_channel(other.ws, channels[0]).await,
        s.disable_channel(other.ws, channels[0], DisabledBy::Operator).await,
        s.remove_channel(other.ws, channels[0]).await,
        s.close_channel_until(other.ws, channels[0], far).await,
        s.change_channel(other.ws, channels[0], ChannelSettings::default()).await,
        s.pause_account(other.ws, account, "").await,
        s.resume_account(other.ws, account).await,
        s.change_account(other.ws, account, AccountSettings::default()).await,
        s.set_account_token(other.ws, account, SecretString::from("чужой")).await,
        s.account_token(other.ws, account).await.map(drop),
        s.reserve(other.ws, account, 1).await.map(drop),
        s.create_channel(other.ws, new_channel(account)).await.map(drop),
    ] {
        assert!(matches!(refused, Err(StoreError::NotFound { .. })), "{refused:?}");
    }
    assert!(s.attempts(other.ws, id).await.unwrap().is_empty());
    assert!(s.deliveries(other.ws, DeliveryFilter::default(), 10).await.unwrap().is_empty());
    assert!(s.channels(other.ws).await.unwrap().is_empty());
    assert!(s.accounts(other.ws).await.unwrap().is_empty());
    assert!(s.lanes(other.ws).await.unwrap().is_empty());
    assert!(s.events(other.ws, 0, 10).await.unwrap().is_empty());
    w.seconds(60).await;
    assert!(s.recover(Whose::Workspace(other.ws), 10).await.unwrap().is_empty());
    assert_eq!(w.status(id).await, Status::Sending, "nothing has moved");
}

fn new_channel(account_id: domain::ids::AccountId) -> NewChannel {
    NewChannel {
        account_id, name: "чужой".into(), target: "@x".into(), settings: ChannelSettings::default()
    }
}

async fn a_message_cannot_go_to_a_foreign_channel(w: &World) {
    let other = w.another_workspace("чужие").await;
    let channels = w.channels(1).await;
    let refused = other.store.enqueue(other.ws, vec![message("раз", &channels)]).await.unwrap_err();
    assert!(matches!(refused, StoreError::NotFound { what: "channel", .. }), "{refused}");
    assert!(w.claim(10).await.is_empty());
}

async fn equal_names_keys_and_hashes_do_not_meet(w: &World) {
    let other = w.another_workspace("чужие").await;
    let mut ids = Vec::new();
    for world in [w, &other] {
        let channels = world.channels(1).await;
        let keyed = NewMessage { idempotency_key: Some("ключ".into()), ..message("раз", &channels) };
        let enqueued = world.enqueue(vec![keyed]).await.remove(0);
        assert!(enqueued.created);
        assert_eq!(enqueued.deliveries[0].status, Status::Queued);
        ids.push(enqueued.message_id);
    }
    assert_ne!(ids[0], ids[1]);
}
