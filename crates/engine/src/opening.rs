//! Opening a database that another node may just be leaving.

use std::path::Path;
use std::time::Duration;

use store::{Address, Clock, Keyring, Store, StoreError};

/// How long a node that starts waits for the file of one that is ending, and how often it looks.
const LOCK_WAIT: Duration = Duration::from_secs(3);
const TRY_AGAIN: Duration = Duration::from_millis(50);

/// The lock of a holder that has just ended goes a moment after it: who comes next is not refused for that.
pub async fn open_when_free(address: &Address, key_path: &Path) -> store::Result<Store> {
    let asked = tokio::time::Instant::now();
    loop {
        match Store::open(address, Keyring::at(key_path)?, Clock::system()).await {
            Err(StoreError::InUse { .. }) if asked.elapsed() < LOCK_WAIT => {
                tokio::time::sleep(TRY_AGAIN).await;
            }
            opened => return opened,
        }
    }
}
