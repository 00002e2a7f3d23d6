//! In whose hands the store is, and the key they turn. What is in the database stands in `facade`.

use crate::{Actor, Result, Store};

impl Store {
    /// The same store in the hands of somebody: the events of what it changes name them.
    pub fn by(&self, actor: Actor) -> Store {
        match self {
            Store::Sqlite(db) => Store::Sqlite(db.by(actor)),
            Store::Postgres(db) => Store::Postgres(db.by(actor)),
        }
    }

    /// Seals everything with the next key, in one transaction, and goes on with it; how many accounts there were.
    /// Nodes that can read the new file follow by themselves.
    pub async fn rotate_key(&self) -> Result<usize> {
        match self {
            Store::Sqlite(db) => db.rotate_key().await,
            Store::Postgres(db) => db.rotate_key().await,
        }
    }
}
