//! More visitors than there may be.

use std::net::TcpStream;

use super::{Bed, Shown};
use crate::common::{Home, as_root, until};

as_root!(an_account_has_so_many_open_requests_and_is_in_no_others_way);

/// Open requests of a sandbox, and of an account.
const OF_SANDBOX: usize = 256;
const OF_ACCOUNT: usize = 512;

/// Requests that wait for their program.
fn hold(shown: &Shown, count: usize) -> Vec<TcpStream> {
    (0..count).map(|_| shown.open("GET", "/ended", &[])).collect()
}

fn an_account_has_so_many_open_requests_and_is_in_no_others_way(home: &Home) {
    let serve = home.serve(&[], &[]);
    let own = || {
        let bed = Bed::new(&serve);
        bed.start(&["8080@127.0.0.1"]);
        bed
    };
    let beds = [own(), own(), own()];
    let shown: Vec<Shown> = beds.iter().map(|bed| bed.public(8080)).collect();
    let mut held = hold(&shown[0], OF_SANDBOX);
    // One sandbox has what one may have; more wait for a while and are told.
    until("all of them to be there", || (shown[0].get("/").status == 503).then_some(()));
    assert_eq!(shown[1].get("/").status, 200, "another one of that account has places");
    held.extend(hold(&shown[1], OF_ACCOUNT - OF_SANDBOX));
    until("all of them to be there", || (shown[2].get("/").status == 503).then_some(()));
    // The account has none left, whichever sandbox; another account has.
    let other = serve.with_key(home.tenant("other"));
    let theirs = Bed::new(&other);
    theirs.start(&["8080@127.0.0.1"]);
    let there = theirs.public(8080);
    assert_eq!(there.get("/").status, 200);
    // So has the API, for both.
    assert_eq!(beds[0].ask("GET", "/ports", &crate::common::Value::Null).status, 200);
    // Visitors that go make room.
    held.truncate(OF_SANDBOX);
    until("there is room again", || (shown[2].get("/").status == 200).then_some(()));
    drop(held);
    until("there is room everywhere", || (shown[0].get("/").status == 200).then_some(()));
    theirs.destroy();
    serve.end();
}
