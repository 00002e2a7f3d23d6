//! Every statement of the driver is one that the server understands.

use crate::world::*;

#[tokio::test]
async fn every_statement_can_be_prepared() {
    let scratch = Scratch::create().await;
    let client = connect(&scratch.url()).await;
    let mut n = 0;
    for sql in store::postgres::STATEMENTS.iter().copied().flatten() {
        if let Err(error) = client.prepare(sql).await {
            panic!("{}: {sql}", error.as_db_error().map_or(error.to_string(), |db| db.message().to_owned()));
        }
        n += 1;
    }
    assert!(n > 40, "{n} statements");
    scratch.drop_database().await;
}
