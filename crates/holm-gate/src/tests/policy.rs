//! Refusals by address, limits, and changes of policy.

use super::*;

#[tokio::test]
async fn what_is_refused_is_reset_and_noted() {
    let check = async |policy: &str, address: &str, expected: &str| {
        let world = World::new(policy);
        let (listener, target) = outside_at("127.0.0.1").await;
        let target = SocketAddr::new(address.parse().expect("an address"), target.port());
        assert_eq!(world.tried(target).await, "reset", "{policy} {address}");
        assert_eq!(world.denied(), format!(" {} {expected}", target.port()), "{policy}");
        let denial = world.gate.denials().pop().expect("one");
        assert_eq!(denial.address, Some(target.ip()));
        assert_eq!(world.gate.counters().denied_total, 1);
        world.settled().await;
        drop(listener);
    };
    check("open", REFUSED, "always refused: of a test").await;
    check("allow:127.0.0.0/8", REFUSED, "always refused: of a test").await;
    check("none", "127.0.0.1", "the network is off (`none`)").await;
    check("allow:a.example", "127.0.0.1", "not in the allow list").await;
    check("allow:127.0.0.2", "127.0.0.1", "not in the allow list").await;
    check("open;deny:127.0.0.0/8", "127.0.0.1", "deny 127.0.0.0/8").await;
}

#[tokio::test]
async fn in_the_product_loopback_is_refused() {
    let uplink = Uplink::new(UplinkOptions::default()).expect("an uplink");
    let world = World::of(&uplink, "allow:127.0.0.0/8");
    assert_eq!(world.tried(echo().await).await, "reset");
    assert!(world.denied().ends_with("always refused: loopback"), "{}", world.denied());
}

#[tokio::test]
async fn without_a_destination_nothing_is_reached() {
    let world = World::new("open");
    let ended = match TcpStream::connect(world.inside).await {
        Ok(mut stream) => outcome(&mut stream).await,
        Err(error) => error.kind().to_string(),
    };
    assert!(["reset", "connection reset"].contains(&ended.as_str()), "{ended}");
    assert_eq!(world.denied(), " 0 the connection has no destination");
    // Directly to the gate's own socket.
    assert_eq!(world.tried(world.inside).await, "reset");
    assert_eq!(world.gate.counters().denied_total, 2);
}

#[tokio::test]
async fn a_new_policy_closes_what_it_refuses() {
    let world = World::new("open");
    let (kept, closed) = (echo().await, echo().await);
    let mut stays = world.connect(kept).await;
    let mut goes = world.connect(closed).await;
    ping(&mut stays, "a").await;
    ping(&mut goes, "b").await;
    let rule = format!("127.0.0.1:{}", closed.port());
    world.gate.set_policies(policies(&format!("open;deny:{rule}"))).expect("set");
    assert_eq!(outcome(&mut goes).await, "reset");
    assert_eq!(world.denied(), format!(" {} deny {rule}", closed.port()));
    ping(&mut stays, "still").await;
    world.gate.set_policies(policies("none")).expect("set");
    assert_eq!(outcome(&mut stays).await, "reset");
    world.settled().await;
    world.gate.set_policies(policies("open")).expect("set");
    let mut stream = world.connect(kept).await;
    ping(&mut stream, "again").await;
}

/// Under `open` nothing of a connection is read, so whom its client wants is not known when it counts.
#[tokio::test]
async fn a_new_policy_closes_what_may_be_for_a_name_that_it_refuses() {
    let check = async |resolved: &[&str], policy: &str, expected: &str| {
        let target = echo().await;
        let world = World::new("open");
        for name in resolved {
            world.resolve(name, target);
        }
        let mut stream = world.connect(target).await;
        ping(&mut stream, "unseen").await;
        world.gate.set_policies(policies(policy)).expect("set");
        if expected.is_empty() {
            ping(&mut stream, "still").await;
        } else {
            assert_eq!(outcome(&mut stream).await, "reset", "{resolved:?} {policy}");
            let denied = world.denied();
            assert!(denied.ends_with(expected), "{resolved:?} {policy}: {denied}");
        }
        drop(stream);
        world.settled().await;
    };
    let both = ["a.example", "bad.example"];
    check(&both, "open;deny:bad.example", "deny bad.example").await;
    check(&both, "allow:a.example", "not in the allow list").await;
    check(&both, "allow:*.example", "").await;
    check(&both, "open;deny:other.example", "").await;
    check(&["a.example"], "open;deny:bad.example", "").await;
    check(&["a.example"], "allow:a.example", "").await;
    check(&[], "open;deny:bad.example", "").await;
}

/// One that is read and says no name is judged by the names of its address, then and later.
#[tokio::test]
async fn a_new_policy_keeps_what_it_permits_without_a_name() {
    let target = echo().await;
    let world = World::new("allow:a.example,c.example");
    world.resolve("a.example", target);
    world.resolve("b.example", target);
    let mut stream = world.connect(target).await;
    ping(&mut stream, "SSH-2.0-x\r\n").await;
    world.gate.set_policies(policies("allow:a.example")).expect("set");
    ping(&mut stream, "still").await;
    world.gate.set_policies(policies("allow:a.example;deny:b.example")).expect("set");
    assert_eq!(outcome(&mut stream).await, "reset");
    assert!(world.denied().ends_with("deny b.example"), "{}", world.denied());
    world.settled().await;
}

#[tokio::test]
async fn a_wrong_policy_changes_nothing() {
    let world = World::new("open");
    let mut wrong = policies("none");
    wrong.own.deny.push("a.example".parse().expect("a rule"));
    assert!(world.gate.set_policies(wrong).is_err());
    let mut stream = world.connect(echo().await).await;
    ping(&mut stream, "a").await;
}

#[tokio::test]
async fn a_ceiling_is_not_exceeded() {
    let world = World::new("open");
    let target = echo().await;
    let ceiling = Some(format!("open;deny:{}", target.ip()).parse().expect("a policy"));
    let own = policies("open").own;
    world.gate.set_policies(Policies { own, ceiling }).expect("set");
    assert_eq!(world.tried(target).await, "reset");
    assert!(world.denied().ends_with("account limit: deny 127.0.0.1"), "{}", world.denied());
}

#[tokio::test]
async fn the_end_of_a_gate_is_the_end_of_its_connections() {
    let world = World::new("open");
    let mut stream = world.connect(echo().await).await;
    ping(&mut stream, "a").await;
    let World { gate, inside, .. } = world;
    drop(gate);
    assert_eq!(outcome(&mut stream).await, "reset");
    let refused = TcpStream::connect(inside).await.expect_err("nobody serves");
    assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
}

#[tokio::test]
async fn connections_beyond_a_limit_are_reset() {
    let limits = crate::Limits { connections: 2, connections_total: 8, ..Default::default() };
    let first = World::with("open", UplinkOptions { limits, ..Default::default() });
    let target = echo().await;
    let mut kept = Vec::new();
    for _ in 0..2 {
        let mut stream = first.connect(target).await;
        ping(&mut stream, "a").await;
        kept.push(stream);
    }
    assert_eq!(first.tried(target).await, "reset");
    assert!(first.denied().ends_with("limit: 2 open connections"), "{}", first.denied());
    drop(kept);
    first.settled().await;
    ping(&mut first.connect(target).await, "a").await;
}

#[tokio::test]
async fn however_many_sandboxes_somebody_has_others_find_a_place() {
    let limits = crate::Limits { connections_total: 6, ..Default::default() };
    let first = World::with("open", UplinkOptions { limits, ..Default::default() });
    let uplink = Arc::clone(&first.gate.state().uplink);
    let target = echo().await;
    let mut kept = Vec::new();
    // How many connections it gets, and why no further one.
    let mut take = async |world: &World| {
        let before = kept.len();
        loop {
            // The reset may come at any moment.
            let Ok(mut stream) = world.try_connect(target).await else { break };
            let _reset = stream.write_all(b"a").await;
            match within(stream.read_u8()).await {
                Ok(_) => kept.push(stream),
                Err(_) => break,
            }
        }
        let denied = world.denied();
        let why = denied.rsplit_once("limit: ").expect("a limit").1.to_owned();
        (kept.len() - before, why)
    };
    let share = "this account's share of the service's open connections".to_owned();
    assert_eq!(take(&first).await, (3, share.clone()));
    let second = World::of(&uplink, "open");
    assert_eq!(take(&second).await, (0, share.clone()), "another sandbox of the same owner");
    let other = World::owned(&uplink, "another", "open");
    assert_eq!(take(&other).await, (2, share));
    let third = World::owned(&uplink, "a third", "open");
    assert_eq!(take(&third).await, (1, "open connections of the service".to_owned()));
    drop(kept);
    for world in [&first, &second, &other, &third] {
        world.settled().await;
    }
    ping(&mut second.connect(target).await, "a").await;
}
