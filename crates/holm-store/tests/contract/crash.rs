//! A process that is killed in the middle of its work leaves whole transactions only, and all
//! those that it was told are done.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};

use holm_store::{EndReason, Owner, PageQuery, SandboxState, Store};

use crate::support::{
    Bed, Place, at, block_on, both, ending, on_postgres, on_sqlite, record, running, topup,
};

#[test]
fn sqlite() {
    if !victim() {
        on_sqlite(|bed| Box::pin(killed_while_charging(bed)));
    }
}

#[test]
fn postgres() {
    on_postgres(|bed| Box::pin(killed_while_charging(bed)));
}

/// Says to this program that it is the one to be killed, and where the database is.
const VICTIM: &str = "HOLM_STORE_TEST_VICTIM";
const ROUNDS: u32 = 3;

/// Whether this process is the one to be killed; then it has done its work, unless it was killed.
/// It has no database of its own, for nobody would remove that.
fn victim() -> bool {
    let Ok(place) = std::env::var(VICTIM) else { return false };
    let place = match place.strip_prefix("file:") {
        Some(path) => Place::File(path.into()),
        None => Place::Url(place),
    };
    block_on(async { charge_until_killed(&*place.open().await.unwrap()).await });
    true
}

async fn killed_while_charging(bed: &Bed) {
    let place = both(&*bed.store).await;
    bed.store.ledger_add(topup(place.0, 1_000_000)).await.unwrap();
    let (name, test) = match &bed.place {
        Place::File(path) => (format!("file:{}", path.display()), "sqlite"),
        Place::Url(url) => (url.clone(), "postgres"),
        Place::Memory | Place::Maps => unreachable!("nothing outlives it"),
    };
    for round in 0..ROUNDS {
        let mut wanted = record(place);
        wanted.price_per_second = 7;
        wanted.pause.price_per_second = 2;
        let sandbox = running(&*bed.store, wanted, 0).await;
        let mut victim = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "--nocapture", "crash::sqlite"])
            .env(VICTIM, &name)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(victim.stdout.take().unwrap()).lines();
        let wanted = usize::try_from(20 + 11 * round).unwrap();
        let told = lines.map_while(Result::ok).filter_map(|line| {
            line.strip_prefix("charged ").and_then(|second| second.parse::<i64>().ok())
        });
        let last = told.take(wanted).last();
        victim.kill().unwrap();
        victim.wait().unwrap();
        let last = last.unwrap_or_else(|| panic!("{test}: the victim charged nothing"));
        let store = bed.place.open().await.unwrap();
        let found = store.sandbox_get(Owner::Any, sandbox.id).await.unwrap().unwrap();
        let seconds = found.charged_seconds();
        assert!(seconds >= last, "{test}: {last} were told, {seconds} are there");
        let paid = paid_for(&*store, &found).await;
        assert_eq!(paid, found.cost(), "{test}: the mark and the ledger agree");
        let check = store.ledger_check(place.0).await.unwrap();
        assert_eq!(check.sum, check.balance, "{test}");
        let gone = ending(found, EndReason::Lost, seconds);
        store.sandbox_save(gone, vec![]).await.unwrap();
        store.close().await;
    }
}

async fn paid_for(store: &dyn Store, sandbox: &holm_store::Record) -> i64 {
    let mut paid = 0;
    let mut query = PageQuery::first(1000);
    loop {
        let page = store.ledger_list(sandbox.account_id, query.clone()).await.unwrap();
        let own = page
            .items
            .iter()
            .filter(|entry| entry.usage.is_some_and(|usage| usage.sandbox_id == sandbox.id));
        paid -= own.map(|entry| entry.amount).sum::<i64>();
        query.after = page.next;
        if query.after.is_none() {
            return paid;
        }
    }
}

/// Charges the one that runs, a second at a time, pauses it and lets it go on in between, and tells
/// each when it is done.
async fn charge_until_killed(store: &dyn Store) {
    let all = store.sandbox_list(Owner::Any, PageQuery::first(1000), false).await.unwrap().items;
    let runs = all.into_iter().find(|sandbox| sandbox.ended.is_none());
    let mut runs = runs.expect("one runs");
    for second in 1..=900 {
        if second % 3 == 0 {
            runs.state = match runs.state {
                SandboxState::Running => SandboxState::Paused,
                _ => SandboxState::Running,
            };
            runs.pause.turned_at = Some(at(second));
            runs = store.sandbox_save(runs, vec![]).await.unwrap();
        }
        store.ledger_charge(runs.id, at(second)).await.unwrap();
        let mut out = std::io::stdout().lock();
        writeln!(out, "charged {second}").and_then(|()| out.flush()).expect("the killer listens");
    }
}
