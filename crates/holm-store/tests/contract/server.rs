//! What a PostgreSQL server does that a file does not: makes wait, sends back, hangs up. The
//! other side is played by hand, so that it stands still where it should.

use tokio::task::JoinHandle;
use tokio_postgres::Client;

use crate::support::{
    Bed, Place, account, both, key, kind, on_postgres, record, reservation, topup,
};

/// A client beside the store's.
async fn another(bed: &Bed) -> Client {
    let Place::Url(url) = &bed.place else { unreachable!("it is PostgreSQL") };
    let connecting = tokio_postgres::connect(url, tokio_postgres::NoTls).await;
    let (client, driver) = connecting.unwrap();
    tokio::spawn(driver);
    client
}

/// Returns when somebody waits for a lock that `client` has. `call` is who should.
async fn until_one_waits<T>(client: &Client, call: &JoinHandle<T>) {
    const WAITING: &str = "SELECT COUNT(*) FROM pg_stat_activity
         WHERE datname = current_database() AND wait_event_type = 'Lock'";
    while client.query_one(WAITING, &[]).await.unwrap().get::<_, i64>(0) == 0 {
        assert!(!call.is_finished(), "it did not wait");
    }
}

/// One that is under way holds a reserve with that key up, which then sees it.
#[test]
fn a_reserve_waits_for_a_revoke() {
    on_postgres(|bed| Box::pin(reserve_beside_a_revoke(bed)));
}

async fn reserve_beside_a_revoke(bed: &Bed) {
    let client = another(bed).await;
    let place = both(&*bed.store).await;
    let (new, hash, _) = key(place.0);
    bed.store.key_create(new.clone(), hash).await.unwrap();
    client.batch_execute("BEGIN").await.unwrap();
    let revoke = format!("UPDATE api_keys SET revoked_at = 1 WHERE id = '{}'", new.id);
    client.batch_execute(&revoke).await.unwrap();
    let mut wanted = record(place);
    wanted.key_id = Some(new.id);
    let reserve = tokio::spawn(bed.store.sandbox_reserve(reservation(wanted)));
    until_one_waits(&client, &reserve).await;
    client.batch_execute("COMMIT").await.unwrap();
    assert_eq!(kind(&reserve.await.unwrap()), "KeyUnusable");
}

/// The server ends one of two that wait for each other; a store's call then runs again.
#[test]
fn a_deadlock_is_run_again() {
    on_postgres(|bed| Box::pin(reserve_in_a_deadlock(bed)));
}

async fn reserve_in_a_deadlock(bed: &Bed) {
    // Only the store's side looks for a deadlock, so it is the one that is sent back.
    const LOOK: &str = "DO $$ BEGIN
         EXECUTE format('ALTER DATABASE %I SET deadlock_timeout = 3000', current_database());
         END $$";
    bed.place.raw(LOOK).await.unwrap();
    let store = bed.place.open().await.unwrap();
    let client = another(bed).await;
    client.batch_execute("SET deadlock_timeout = '1h'").await.unwrap();
    let place = both(&*store).await;
    let lock = |table: &str, id: &dyn std::fmt::Display| {
        format!("SELECT 1 FROM {table} WHERE id = '{id}' FOR NO KEY UPDATE")
    };
    client.batch_execute("BEGIN").await.unwrap();
    client.batch_execute(&lock("nodes", &place.1)).await.unwrap();
    let reserve = tokio::spawn(store.sandbox_reserve(reservation(record(place))));
    until_one_waits(&client, &reserve).await;
    // It has the account and waits for the node. Now each waits for the other, until the server
    // sends the store's side back, and this one goes on.
    client.batch_execute(&lock("accounts", &place.0)).await.unwrap();
    until_one_waits(&client, &reserve).await;
    client.batch_execute("COMMIT").await.unwrap();
    reserve.await.unwrap().unwrap();
    store.close().await;
}

/// The server was started anew: calls find connections that are none any more.
#[test]
fn broken_connections_are_replaced() {
    on_postgres(|bed| Box::pin(calls_after_a_hang_up(bed)));
}

async fn calls_after_a_hang_up(bed: &Bed) {
    const HANG_UP: &str = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
         WHERE datname = current_database() AND pid <> pg_backend_pid()";
    let client = another(bed).await;
    let id = account(&*bed.store).await;
    for round in 1..=10 {
        let pings = (0..4).map(|_| bed.store.ping());
        for result in tokio::task::JoinSet::from_iter(pings).join_all().await {
            result.unwrap();
        }
        client.batch_execute(HANG_UP).await.unwrap();
        let entry = bed.store.ledger_add(topup(id, 1)).await.unwrap();
        assert_eq!(entry.number, round, "once, and not lost");
    }
}
