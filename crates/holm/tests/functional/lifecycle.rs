//! Lifetimes, races and limits of sandboxes, through the tools.

use crate::common::*;

as_root!(
    case_58_cancelled_creates_leave_nothing,
    case_59_calls_in_flight_end_with_their_sandbox,
    case_60_destroying_twice,
    case_62_lifetime_counts_from_ready,
    case_63_odd_lifetimes,
    case_64_expired_is_said,
    case_66_failing_creates_leave_nothing,
    case_67_each_create_is_its_own,
    case_68_the_count_is_never_passed,
    extending_moves_the_end,
    default_sandbox_of_the_session,
);
as_rootless!(
    case_58_cancelled_creates_leave_nothing,
    case_59_calls_in_flight_end_with_their_sandbox,
    case_66_failing_creates_leave_nothing
);

const MANY: &[(&str, &str)] = &[("HOLM_MAX_SANDBOXES", "150")];

fn case_58_cancelled_creates_leave_nothing(home: &Home) {
    let mcp = home.mcp();
    let kept = mcp.create();
    for n in 0..200_u64 {
        let id = mcp.start("create_sandbox", json!({}));
        // At different moments of the work: at once, or after so many other answers.
        for _ in 0..n % 8 {
            mcp.ask("ping", json!({}));
        }
        mcp.cancel(id);
        if n % 20 == 19 {
            // Creates that were done before their cancellation are answered and listed.
            until("only answered ones are listed", || {
                let listed = mcp.list();
                for sandbox in listed.iter().filter(|sandbox| **sandbox != kept) {
                    mcp.call("destroy_sandbox", json!({"sandbox_id": sandbox}));
                }
                (listed.len() == 1).then_some(())
            });
        }
    }
    until("room for 19 more", || {
        let made: Vec<_> = (0..19).map(|_| mcp.call("create_sandbox", json!({}))).collect();
        let good = made.iter().filter(|reply| !reply.is_error()).count();
        for reply in made.iter().filter(|reply| !reply.is_error()) {
            mcp.destroy(reply.data()["sandbox_id"].as_str().expect("an id"));
        }
        (good == 19).then_some(())
    });
    assert_eq!(mcp.list(), vec![kept]);
    mcp.end(home);
}

fn case_59_calls_in_flight_end_with_their_sandbox(home: &Home) {
    let mcp = home.mcp();
    let sandbox = mcp.create();
    let calls = [
        mcp.start_sh(&sandbox, "touch /tmp/1; sleep 3000", json!({"timeout_ms": 600_000})),
        mcp.start("run_code", json!({"sandbox_id": sandbox, "code": "open('/tmp/2','w').close()\nwhile True: pass", "timeout_ms": 600_000})),
        mcp.start_sh(&sandbox, "touch /tmp/3; yes", json!({"timeout_ms": 600_000})),
    ];
    until("all run", || {
        (mcp.sh(&sandbox, "ls /tmp/1 /tmp/2 /tmp/3 2>/dev/null | wc -l").stdout == "3\n")
            .then_some(())
    });
    mcp.destroy(&sandbox);
    for id in calls {
        let reply = mcp.finish(id);
        assert_eq!(reply.code(), "sandbox_gone");
        assert!(reply.text().contains("destroyed"), "{}", reply.text());
    }
    mcp.end(home);
}

fn case_60_destroying_twice(home: &Home) {
    let mcp = home.mcp();
    let sandbox = mcp.create();
    let many: Vec<_> = (0..20)
        .map(|n| {
            mcp.start(
                if n % 2 == 0 { "destroy_sandbox" } else { "kill_sandbox" },
                json!({"sandbox_id": sandbox}),
            )
        })
        .collect();
    let mut done = 0;
    for id in many {
        let reply = mcp.finish(id);
        if reply.is_error() {
            assert_eq!(reply.code(), "sandbox_gone", "{}", reply.text());
        } else {
            assert_eq!(
                (&reply.data()["status"], &reply.data()["success"]),
                (&json!("deleted"), &json!(true))
            );
            done += 1;
        }
    }
    assert!(done >= 1);
    assert!(mcp.list().is_empty());
    let again = mcp.call("destroy_sandbox", json!({"sandbox_id": sandbox}));
    assert!(!again.is_error() || again.code() == "sandbox_gone", "{}", again.text());
    for unknown in ["sbx_0123456789abcdef01", "nonsense", "../../etc", ""] {
        let reply = mcp.call("destroy_sandbox", json!({"sandbox_id": unknown}));
        let code = reply.code();
        assert!(code == "not_found" || code == "invalid_argument", "{unknown:?}: {code}");
    }
    // While creates are running, and right after expiry.
    let ids: Vec<_> = (0..4).map(|_| mcp.start("create_sandbox", json!({"timeout": 2}))).collect();
    let made: Vec<String> = ids
        .into_iter()
        .map(|id| mcp.finish(id).ok()["sandbox_id"].as_str().expect("an id").to_owned())
        .collect();
    until("they expire", || mcp.list().is_empty().then_some(()));
    for id in made {
        let reply = mcp.call("destroy_sandbox", json!({"sandbox_id": id}));
        assert!(!reply.is_error() || reply.code() == "sandbox_gone", "{}", reply.text());
    }
    mcp.end(home);
}

/// Seconds since 1970 of a time in RFC 3339, by the host's own program.
fn seconds(time: &Value) -> i64 {
    let text = time.as_str().unwrap_or_else(|| panic!("no time: {time}"));
    let out = std::process::Command::new("date")
        .args(["-d", text, "+%s"])
        .output()
        .expect("date is there");
    String::from_utf8_lossy(&out.stdout)
        .trim()
        .parse()
        .unwrap_or_else(|_| panic!("no time: {text}"))
}

fn now() -> i64 {
    let now =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    i64::try_from(now.as_secs()).expect("small")
}

fn case_62_lifetime_counts_from_ready(home: &Home) {
    let mcp = home.mcp_with(MANY);
    // Forty at once make each of them slow; the lifetime of each is still whole when it is answered.
    let ids: Vec<_> =
        (0..40).map(|_| mcp.start("create_sandbox", json!({"timeout": 60}))).collect();
    for id in ids {
        let reply = mcp.finish(id);
        let made = reply.ok();
        let left = seconds(&made["expires_at"]) - seconds(&made["created_at"]);
        assert!((59..=120).contains(&left), "{made}");
        assert!(seconds(&made["expires_at"]) > now(), "{made}");
    }
    mcp.end(home);
}

fn case_63_odd_lifetimes(home: &Home) {
    let mcp = home.mcp_with(MANY);
    let check = |tool: &str, arguments: Value| {
        let reply = mcp.call(tool, arguments.clone());
        if reply.is_error() {
            assert_eq!(reply.code(), "invalid_argument", "{tool} {arguments}: {}", reply.text());
            assert!(
                reply.text().chars().any(|c| c.is_ascii_digit()) || reply.text().contains("number"),
                "the range is named: {}",
                reply.text()
            );
            false
        } else {
            let left = seconds(&reply.data()["expires_at"]) - now();
            assert!(left > 0 && left <= 24 * 3600 + 5, "{tool} {arguments}: {left} s");
            true
        }
    };
    let (mut refused, mut taken) = (0, 0);
    for value in [
        json!(0),
        json!(-1),
        json!(null),
        json!("60"),
        json!(0.5),
        json!(1e12),
        json!(1441),
        json!(1440),
        json!(true),
        json!([1]),
    ] {
        if check("create_sandbox", json!({"timeout_minutes": value})) {
            taken += 1;
        } else {
            refused += 1;
        }
    }
    assert!(refused >= 5 && taken >= 1, "{refused} refused, {taken} taken");
    for value in [json!(0), json!(-1), json!("x"), json!(1e12), json!(86401)] {
        assert!(!check("create_sandbox", json!({"timeout": value})), "timeout {value} is refused");
    }
    assert!(check("create_sandbox", json!({"timeout": 86400})));
    let sandbox = mcp.create();
    for value in
        [json!(0), json!(-1), json!("x"), json!(1e12), json!(1441), json!(0.5), json!(null)]
    {
        check("extend_sandbox", json!({"sandbox_id": sandbox, "additional_minutes": value}));
    }
    assert!(
        mcp.call("create_sandbox", json!({"timeout": 60, "timeout_minutes": 7})).is_error(),
        "two values that differ"
    );
    // A request's time limit is never taken for the lifetime.
    let before = mcp.call("get_sandbox", json!({"sandbox_id": sandbox})).ok()["expires_at"].clone();
    mcp.sh_with(&sandbox, "true", json!({"timeout": 1})).good();
    assert_eq!(mcp.call("get_sandbox", json!({"sandbox_id": sandbox})).ok()["expires_at"], before);
    mcp.end(home);
}

fn case_64_expired_is_said(home: &Home) {
    let mcp = home.mcp();
    let sandbox = mcp.create_with(json!({"timeout": 3}));
    let reply = mcp.finish(mcp.start_sh(
        &sandbox,
        "echo partial; sleep 3000",
        json!({"timeout_ms": 600_000}),
    ));
    let said = reply.reply.to_string();
    assert!(
        reply.is_error() && said.contains("expired") || reply.data()["timed_out"] == json!(true),
        "{said}"
    );
    assert!(said.contains("partial"), "with the partial output: {said}");
    until("it is gone", || mcp.list().is_empty().then_some(()));
    for (tool, more) in uses() {
        let mut arguments = more;
        arguments["sandbox_id"] = json!(sandbox);
        let reply = mcp.call(tool, arguments.clone());
        assert_eq!(reply.code(), "sandbox_gone", "{tool}");
        assert!(reply.text().contains("expired"), "{tool}: {}", reply.text());
        assert!(reply.text().contains("20"), "{tool} says when: {}", reply.text());
        arguments["sandbox_id"] = json!("sbx_ffffffffffffffffff");
        assert_eq!(mcp.call(tool, arguments).code(), "not_found", "{tool}");
    }
    let seen = mcp.call("get_sandbox", json!({"sandbox_id": sandbox}));
    let text = seen.reply.to_string();
    assert!(text.contains("expired"), "{text}");
    mcp.end(home);
}

fn case_66_failing_creates_leave_nothing(home: &Home) {
    let mcp = home.mcp_with(&[("HOLM_MAX_SANDBOXES", "10")]);
    for (arguments, code) in [
        (json!({"template": "no-such-template"}), "template_unknown"),
        (json!({"env": {"A=B": "x"}}), "invalid_argument"),
        (json!({"env": {"A": "x\0"}}), "invalid_argument"),
        (json!({"env": "A=B"}), "invalid_argument"),
        (json!({"size": "gigantic"}), "invalid_argument"),
        (json!({"memory": 100_000_000}), "invalid_argument"),
        (json!({"network": "closed"}), "invalid_argument"),
        (json!({"network": {"mode": "allow", "allow": ["a b"]}}), "invalid_argument"),
    ] {
        let reply = mcp.call("create_sandbox", arguments.clone());
        assert_eq!(reply.code(), code, "{arguments}: {}", reply.text());
    }
    assert!(mcp.list().is_empty());
    let ids: Vec<_> = (0..50).map(|_| mcp.start("create_sandbox", json!({}))).collect();
    let (mut made, mut refused) = (Vec::new(), 0);
    for id in ids {
        let reply = mcp.finish(id);
        if reply.is_error() {
            assert!(
                ["quota_exceeded", "capacity"].contains(&reply.code().as_str()),
                "{}",
                reply.text()
            );
            assert!(reply.text().contains("10"), "the limit is named: {}", reply.text());
            refused += 1;
        } else {
            made.push(reply.data()["sandbox_id"].as_str().expect("an id").to_owned());
        }
    }
    assert_eq!((made.len(), refused), (10, 40));
    let mut listed = mcp.list();
    listed.sort();
    made.sort();
    assert_eq!(listed, made);
    for id in &made {
        assert_eq!(mcp.sh(id, "echo ok").good(), "ok");
    }
    mcp.end(home);
}

fn case_67_each_create_is_its_own(home: &Home) {
    let mcp = home.mcp_with(MANY);
    let ids: Vec<_> = (0..100).map(|_| mcp.start("create_sandbox", json!({}))).collect();
    let sandboxes: Vec<String> = ids
        .into_iter()
        .map(|id| mcp.finish(id).ok()["sandbox_id"].as_str().expect("an id").to_owned())
        .collect();
    let different: std::collections::BTreeSet<_> = sandboxes.iter().collect();
    assert_eq!(different.len(), 100);
    for id in &sandboxes {
        assert!(
            id.len() == 22
                && id.starts_with("sbx_")
                && id[4..].bytes().all(|b| b.is_ascii_hexdigit()),
            "{id}"
        );
        assert_eq!(
            mcp.sh(id, "ls -A /workspace /tmp | wc -l").good(),
            "3",
            "no file of an earlier user"
        );
        mcp.write(id, "own", id);
    }
    for _ in 0..3 {
        let reads: Vec<_> = sandboxes
            .iter()
            .map(|id| (id, mcp.start("read_file", json!({"sandbox_id": id, "path": "own"}))))
            .collect();
        for (id, call) in reads {
            assert_eq!(mcp.finish(call).ok()["content"], json!(id));
        }
    }
    mcp.end(home);
}

fn case_68_the_count_is_never_passed(home: &Home) {
    let mcp = home.mcp_with(&[("HOLM_MAX_SANDBOXES", "5")]);
    for round in 0..20 {
        let ids: Vec<_> = (0..50)
            .map(|n| match n % 10 {
                8 => mcp.start("create_sandbox", json!({"template": "no-such-template"})),
                9 => mcp.start("create_sandbox", json!({"timeout": 1})),
                _ => mcp.start("create_sandbox", json!({})),
            })
            .collect();
        assert!(mcp.list().len() <= 5, "round {round}");
        let good = ids.into_iter().filter(|id| !mcp.finish(*id).is_error()).count();
        assert!(good <= 6, "round {round}: {good} were made; one may have expired meanwhile");
        for id in mcp.list() {
            mcp.call("destroy_sandbox", json!({"sandbox_id": id}));
        }
        until("none is left", || mcp.list().is_empty().then_some(()));
        let full: Vec<_> = (0..5).map(|_| mcp.create()).collect();
        assert!(mcp.call("create_sandbox", json!({})).is_error(), "round {round}: the sixth");
        for id in full {
            mcp.destroy(&id);
        }
    }
    mcp.end(home);
}

fn extending_moves_the_end(home: &Home) {
    let mcp = home.mcp();
    let sandbox = mcp.create_with(json!({"timeout": 4}));
    let extended =
        mcp.call("extend_sandbox", json!({"sandbox_id": sandbox, "additional_minutes": 10}));
    assert!(seconds(&extended.ok()["expires_at"]) - now() > 500, "{:?}", extended.data());
    let marker = mcp.create_with(json!({"timeout": 5}));
    until("the one that was not extended expires", || {
        (!mcp.list().contains(&marker)).then_some(())
    });
    assert_eq!(mcp.sh(&sandbox, "echo lives").good(), "lives");
    mcp.end(home);
}

fn default_sandbox_of_the_session(home: &Home) {
    let mcp = home.mcp();
    // Ten first uses at once share one sandbox.
    let ids: Vec<_> = (0..10)
        .map(|_| mcp.start("run_command", json!({"command": "cat /etc/hostname"})))
        .collect();
    let names: std::collections::BTreeSet<_> =
        ids.into_iter().map(|id| mcp.finish(id).run().good().to_owned()).collect();
    assert_eq!(names.len(), 1);
    assert_eq!(mcp.list().len(), 1);
    let second = mcp.create();
    let used = mcp.call("run_command", json!({"command": "true"}));
    assert_eq!(used.ok()["sandbox_id"], json!(second), "the created one is the default now");
    mcp.call("kill_sandbox", json!({})).ok();
    assert_eq!(mcp.list().len(), 1);
    mcp.end(home);
}
