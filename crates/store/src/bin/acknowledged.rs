//! Enqueues posts one after another and prints each id once the store has answered, until somebody ends it.
//! The durability tests kill it at random moments and look for every id it printed.

use std::io::Write;

use store::*;

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(address), Some(run)) = (arguments.next(), arguments.next()) else {
        return Err("usage: acknowledged ADDRESS RUN".into());
    };
    let address = Address::parse(&address)?;
    let store = Store::open(&address, Keyring::ephemeral([7; 32]), Clock::system()).await?;
    let ws = store.workspaces().await?.first().ok_or("no workspace")?.workspace_id;
    let channel = store.channels(ws).await?.first().ok_or("no channel")?.channel_id;
    let mut out = std::io::stdout().lock();
    for n in 0.. {
        let message = serde_json::json!({
            "source": "test", "origin_id": format!("{run}-{n}"), "payload": {"text": "Найдена кошка"},
            "content_hash": format!("{run}-{n}"), "channels": [channel],
        });
        let enqueued = store.enqueue(ws, vec![serde_json::from_value(message)?]).await?;
        writeln!(out, "{}", enqueued[0].deliveries[0].delivery_id)?;
        out.flush()?;
    }
    Ok(())
}
