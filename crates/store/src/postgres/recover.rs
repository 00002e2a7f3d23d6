//! Recovery: claims whose lease has ended.

use domain::delivery::Status;
use domain::ids::DeliveryId;

use super::{Again, As, Postgres, rows};
use crate::error::Result;
use crate::queue::{Recovered, Whose};

const RECOVER: &str = "SELECT delivery_id, status FROM recover_leases($1, $2)";

pub(super) const STATEMENTS: &[&str] = &[RECOVER];

impl Postgres {
    pub async fn recover(&self, whose: Whose, limit: usize) -> Result<Vec<Recovered>> {
        let workspace = match whose {
            Whose::Workspace(id) => Some(id.0),
            Whose::Everyone => None,
        };
        let limit = i32::try_from(limit).unwrap_or(i32::MAX);
        let rows = self.all(As::from(whose), Again::Safe, RECOVER, &[&workspace, &limit]).await?;
        let recovered = |row: &tokio_postgres::Row| {
            Ok(Recovered { delivery_id: DeliveryId(row.get(0)), status: rows::word(row, 1, Status::parse)? })
        };
        let recovered: Vec<Recovered> = rows.iter().map(recovered).collect::<Result<_>>()?;
        if !recovered.is_empty() {
            self.ring();
        }
        Ok(recovered)
    }
}
