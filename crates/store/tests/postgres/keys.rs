//! The key of several nodes on one database.

use secrecy::{ExposeSecret, SecretString};
use store::*;

use crate::world::*;

async fn node(scratch: &Scratch, key: &std::path::Path) -> Store {
    let address = Address::parse(&scratch.url()).unwrap();
    Store::open(&address, Keyring::at(key).unwrap(), Clock::system()).await.unwrap()
}

fn account(name: &str) -> NewAccount {
    let token = SecretString::from(format!("1:{name}"));
    NewAccount { platform: "telegram".into(), name: name.into(), token, settings: AccountSettings::default() }
}

#[tokio::test]
async fn nodes_follow_a_rotated_key_while_they_run() {
    let scratch = Scratch::create().await;
    let folder = tempfile::tempdir().unwrap();
    // Two nodes of one machine, and one elsewhere that got the next key beforehand.
    let (here, far) = (folder.path().join("rupor.key"), folder.path().join("far.key"));
    let first = node(&scratch, &here).await;
    std::fs::copy(&here, &far).unwrap();
    let (second, third) = (node(&scratch, &here).await, node(&scratch, &far).await);
    let ws = first.create_workspace("приют").await.unwrap();
    let one = first.create_account(ws, account("один")).await.unwrap();
    let next = Keyring::at(&here).unwrap().prepare().unwrap();
    std::fs::copy(next, folder.path().join("far.key.next")).unwrap();
    assert_eq!(first.rotate_key().await.unwrap(), 1);
    for store in [&first, &second, &third] {
        assert_eq!(store.account_token(ws, one).await.unwrap().expose_secret(), "1:один");
    }
    // What the others seal from now on, everybody opens.
    let two = second.create_account(ws, account("два")).await.unwrap();
    third.set_account_token(ws, one, SecretString::from("1:новый")).await.unwrap();
    for store in [&first, &second, &third, &node(&scratch, &here).await, &node(&scratch, &far).await] {
        assert_eq!(store.account_token(ws, two).await.unwrap().expose_secret(), "1:два");
        assert_eq!(store.account_token(ws, one).await.unwrap().expose_secret(), "1:новый");
    }
    drop((first, second, third));
    scratch.drop_database().await;
}

#[tokio::test]
async fn a_token_or_address_that_changes_during_a_rotation_is_not_put_back() {
    let scratch = Scratch::create().await;
    let folder = tempfile::tempdir().unwrap();
    let store = node(&scratch, &folder.path().join("rupor.key")).await;
    let ws = store.create_workspace("приют").await.unwrap();
    let one = store.create_account(ws, account("один")).await.unwrap();
    let feed = |key: &str| NewSource {
        kind: "feed".into(),
        name: "лента".into(),
        address: format!("https://feed.example/rss?key={key}"),
        account_id: None,
        settings: serde_json::json!({}),
    };
    let source = store.create_source(ws, feed("first")).await.unwrap();
    // What a rotation has read, while somebody changes one of the two.
    let client = connect(&scratch.url()).await;
    let rotate = "
SELECT rotate_key(c.key_check, c.key_check, ARRAY[a.account_id], ARRAY[$1::bytea], ARRAY[a.addresses_sealed], ARRAY[$1::bytea],
                  ARRAY[a.addresses_sealed], ARRAY[a.fingerprint], 0, ARRAY[s.source_id], ARRAY[$2::bytea], ARRAY[$2::bytea])
  FROM control AS c, accounts AS a, pull_sources AS s";
    let sealed = "SELECT a.token_sealed, s.address_sealed FROM accounts AS a, pull_sources AS s";
    let read = async || {
        let row = client.query_one(sealed, &[]).await.unwrap();
        (row.get::<_, Vec<u8>>(0), row.get::<_, Vec<u8>>(1))
    };
    let shown = client.query_one("SELECT address FROM pull_sources", &[]).await.unwrap();
    assert_eq!(shown.get::<_, &str>(0), "https://feed.example/rss?key=***");
    let (token, address) = read().await;
    client.query_one(rotate, &[&token, &address]).await.expect("nothing changed");
    store.set_account_token(ws, one, SecretString::from("1:новый")).await.unwrap();
    let refused = client.query_one(rotate, &[&token, &address]).await.unwrap_err();
    assert_eq!(refused.code().unwrap().code(), "RU006");
    let (token, address) = read().await;
    store.change_source(ws, source, feed("second")).await.unwrap();
    let refused = client.query_one(rotate, &[&token, &address]).await.unwrap_err();
    assert_eq!(refused.code().unwrap().code(), "RU006");
    assert_eq!(store.rotate_key().await.unwrap(), 1);
    assert_eq!(store.account_token(ws, one).await.unwrap().expose_secret(), "1:новый");
    assert_eq!(store.sources(ws).await.unwrap()[0].address, feed("second").address);
    drop((client, store));
    scratch.drop_database().await;
}

#[tokio::test]
async fn tokens_rotate_under_load_without_one_that_does_not_open() {
    let scratch = Scratch::create().await;
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("rupor.key");
    let (writer, rotator) = (node(&scratch, &key).await, node(&scratch, &key).await);
    let ws = writer.create_workspace("приют").await.unwrap();
    let writing = async {
        for n in 0..30 {
            writer.create_account(ws, account(&n.to_string())).await.unwrap();
        }
    };
    let rotating = async {
        for _ in 0..5 {
            rotator.rotate_key().await.unwrap();
        }
    };
    tokio::join!(writing, rotating);
    let reader = node(&scratch, &key).await;
    let accounts = reader.accounts(ws).await.unwrap();
    assert_eq!(accounts.len(), 30);
    for row in accounts {
        for store in [&writer, &rotator, &reader] {
            let token = store.account_token(ws, row.account_id).await.unwrap();
            assert_eq!(token.expose_secret(), format!("1:{}", row.name));
        }
    }
    drop((writer, rotator, reader));
    scratch.drop_database().await;
}
