//! The database's format, and what it refuses by itself.

use holm_store::{
    AccountId, EndReason, NodeId, Owner, PageQuery, Pause, SandboxId, SandboxState, Traffic,
};
use tokio::task::JoinSet;

use crate::support::{
    Bed, Directory, Place, at, both, contract, end, key, kind, record, running, topup,
};

contract! { on_disk:
    what_is_written_stays many_starts_are_one_migration
    a_database_from_before_is_brought_up_to_date a_newer_database_is_refused
    the_ledger_and_the_audit_log_only_grow an_entry_must_follow_the_last a_closed_store_says_so
    no_key_is_stored
}

async fn what_is_written_stays(bed: &Bed) {
    let id = crate::support::account(&*bed.store).await;
    bed.store.ledger_add(topup(id, 5)).await.unwrap();
    bed.store.close().await;
    let again = bed.place.open().await.unwrap();
    again.ping().await.unwrap();
    assert_eq!(again.ledger_balance(id).await.unwrap(), 5);
    again.close().await;
}

async fn many_starts_are_one_migration(bed: &Bed) {
    // Back to a database that never was one of ours.
    bed.store.close().await;
    let place = match &bed.place {
        Place::File(path) => Place::File(path.with_extension("new")),
        Place::Url(_) => {
            let raw = bed.place.raw("DROP SCHEMA public CASCADE; CREATE SCHEMA public");
            raw.await.unwrap();
            bed.place.clone()
        }
        Place::Memory | Place::Maps => unreachable!("memory has one user"),
    };
    let mut set = JoinSet::new();
    for _ in 0..8 {
        let place = place.clone();
        set.spawn(async move {
            let store = place.open().await.unwrap();
            let accounts = store.account_list(PageQuery::first(9)).await.unwrap();
            store.close().await;
            accounts.items.len()
        });
    }
    assert_eq!(set.join_all().await, [0; 8]);
}

async fn a_database_from_before_is_brought_up_to_date(bed: &Bed) {
    bed.store.close().await;
    let (place, initial) = match &bed.place {
        Place::File(path) => (
            Place::File(path.with_extension("old")),
            include_str!("../../src/sqlite/migrations/0001_initial.sql"),
        ),
        Place::Url(_) => {
            let raw = bed.place.raw("DROP SCHEMA public CASCADE; CREATE SCHEMA public");
            raw.await.unwrap();
            (bed.place.clone(), include_str!("../../src/postgres/migrations/0001_initial.sql"))
        }
        Place::Memory | Place::Maps => unreachable!("memory has no past"),
    };
    let (account, node) = (AccountId::random().unwrap(), NodeId::random().unwrap());
    let id = SandboxId::random().unwrap();
    place.raw(initial).await.unwrap();
    let rows = format!(
        "CREATE TABLE holm_schema (version BIGINT NOT NULL PRIMARY KEY, name TEXT NOT NULL,
             applied_at BIGINT NOT NULL);
         INSERT INTO holm_schema VALUES (1, 'initial', 0);
         INSERT INTO accounts VALUES ('{account}', 'a', 0, 3, NULL, NULL);
         INSERT INTO nodes VALUES ('{node}', 'b', 0);
         INSERT INTO sandboxes VALUES ('{id}', '{account}', '{node}', NULL, NULL, NULL, 'host',
             'small', 2, 4096, 8192, 1000, 100, 2, '{{}}', 900, 0, 'running', 0, 1, 2, NULL,
             NULL, 1, NULL, 2);"
    );
    place.raw(&rows).await.unwrap();
    let store = place.open().await.unwrap();
    let found = store.sandbox_get(Owner::Any, id).await.unwrap().unwrap();
    assert_eq!(found.network, serde_json::json!("none"), "it had loopback only");
    assert_eq!((found.secrets.len(), found.traffic), (0, Traffic::default()));
    assert_eq!((found.state, found.pause.clone()), (SandboxState::Running, Pause::default()));
    let mut paused = found.clone();
    paused.state = SandboxState::Paused;
    paused.pause.turned_at = Some(at(0));
    assert_eq!(store.sandbox_save(paused, vec![]).await.unwrap().state, SandboxState::Paused);
    assert_eq!(store.sandbox_alive(Owner::Any).await.unwrap(), 1);
    let limits = store.account_get(account).await.unwrap().unwrap().limits;
    assert_eq!((limits.max_sandboxes, limits.network), (Some(3), None));
    assert_eq!(store.secret_list(account).await.unwrap(), []);
    store.close().await;
}

async fn a_newer_database_is_refused(bed: &Bed) {
    bed.store.close().await;
    bed.place.raw("INSERT INTO holm_schema VALUES (1000, 'later', 0)").await.unwrap();
    let error = bed.place.open().await.err().unwrap();
    let text = error.to_string();
    assert!(text.contains("format 1000") && text.contains("newer"), "{text}");
    assert_eq!(kind(&Err::<(), _>(error)), "TooNew");
}

async fn the_ledger_and_the_audit_log_only_grow(bed: &Bed) {
    let mut wanted = record(both(&*bed.store).await);
    wanted.price_per_second = 1;
    let id = wanted.account_id;
    bed.store.ledger_add(topup(id, 500)).await.unwrap();
    let sandbox = running(&*bed.store, wanted, 0).await;
    end(&*bed.store, sandbox, EndReason::Destroyed, 10).await;
    let event = holm_store::AuditEvent {
        id: holm_store::AuditId::random().unwrap(),
        at: at(0),
        account_id: None,
        key_id: None,
        action: "key.refused".to_owned(),
        target: None,
        outcome: holm_store::Outcome::Refused,
        detail: serde_json::Value::Null,
    };
    bed.store.audit_add(event).await.unwrap();
    let before = bed.store.ledger_list(id, PageQuery::first(9)).await.unwrap();
    let mut statements = vec![
        "UPDATE ledger SET amount = 1",
        "UPDATE ledger SET created_at = created_at",
        "DELETE FROM ledger",
        "UPDATE audit SET action = 'x'",
        "DELETE FROM audit",
    ];
    match &bed.place {
        Place::Url(_) => statements.extend(["TRUNCATE ledger", "TRUNCATE audit"]),
        _ => statements.extend([
            "INSERT OR REPLACE INTO ledger SELECT id, account_id, seq + 2, kind, 9, \
             balance_after + 9, sandbox_id, from_at, to_at, reference, created_at \
             FROM ledger WHERE seq = 1",
            "INSERT OR REPLACE INTO ledger SELECT * FROM ledger",
        ]),
    }
    for statement in statements {
        let error = bed.place.raw(statement).await.expect_err(statement);
        let refused = error.contains("append-only") || error.contains("must follow");
        assert!(refused, "{statement}: {error}");
    }
    assert_eq!(bed.store.ledger_list(id, PageQuery::first(9)).await.unwrap(), before);
}

async fn an_entry_must_follow_the_last(bed: &Bed) {
    let id = crate::support::account(&*bed.store).await;
    bed.store.ledger_add(topup(id, 500)).await.unwrap();
    for (number, amount, balance) in [(2, 5, 500), (3, 5, 505), (1, 5, 505), (2, -5, 505)] {
        let statement = format!(
            "INSERT INTO ledger (id, account_id, seq, kind, amount, balance_after, created_at) \
             VALUES ('led_x', '{id}', {number}, 'topup', {amount}, {balance}, 0)"
        );
        let error = bed.place.raw(&statement).await.expect_err(&statement);
        assert!(error.contains("must follow"), "{error}");
    }
    assert_eq!(bed.store.ledger_balance(id).await.unwrap(), 500);
}

async fn a_closed_store_says_so(bed: &Bed) {
    bed.store.close().await;
    bed.store.close().await;
    let error = bed.store.ping().await.unwrap_err();
    assert!(error.is_temporary(), "{error:?}");
    assert_eq!(error.to_string(), "the service's store does not answer");
}

/// Looks at everything that was written for the key itself.
async fn no_key_is_stored(bed: &Bed) {
    let id = crate::support::account(&*bed.store).await;
    let (new, hash, text) = key(id);
    bed.store.key_create(new, hash).await.unwrap();
    let secret = &text.reveal()[text.prefix().len()..];
    let Place::File(path) = &bed.place else {
        // All columns of all keys as one text.
        let find = format!(
            "DO $$ BEGIN IF EXISTS (SELECT 1 FROM api_keys k WHERE k::text LIKE '%{}%') THEN \
             RAISE EXCEPTION 'found'; END IF; END $$",
            &secret[..8]
        );
        return bed.place.raw(&find).await.unwrap();
    };
    let mut looked_at = 0;
    for entry in std::fs::read_dir(path.parent().unwrap()).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        looked_at += bytes.len();
        let found = bytes.windows(8).any(|window| window == &secret.as_bytes()[..8]);
        assert!(!found, "a part of the key is in a file");
    }
    assert!(looked_at > 4096);
}

#[test]
fn sqlite_files_are_the_owners_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let directory = Directory::new();
    let path = directory.0.join("holm.db");
    // Made by somebody careless before.
    std::fs::write(&path, "").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let store = Place::File(path).open().await.unwrap();
        crate::support::account(&*store).await;
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&directory.0).unwrap() {
            let entry = entry.unwrap();
            let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
            assert_eq!(mode, 0o600, "{:?}", entry.file_name());
            names.push(entry.file_name().into_string().unwrap());
        }
        names.sort();
        assert_eq!(names, ["holm.db", "holm.db-shm", "holm.db-wal"]);
        store.close().await;
    });
}
