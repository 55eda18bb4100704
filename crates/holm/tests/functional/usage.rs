//! What `get_usage` says of real sandboxes, through ends, restarts and crashes.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::common::{Home, Serve, Value, as_root, json, until};

as_root!(case_75_usage_is_what_was_lived);

/// Between what and what its life was, by the clock of whoever uses it.
struct Life {
    id: String,
    asked: Instant,
    answered: Instant,
    end: Option<(Instant, Instant)>,
    /// How long it may live.
    lease: Option<Duration>,
}

impl Life {
    fn begin(serve: &Serve, lease: Option<u64>) -> Self {
        let asked = Instant::now();
        let arguments = json!({"timeout": lease.unwrap_or(600)});
        let made = serve.stateless("create_sandbox", &arguments).tool();
        let id = made.ok()["sandbox_id"].as_str().expect("an id").to_owned();
        let lease = lease.map(Duration::from_secs);
        Self { id, asked, answered: Instant::now(), end: None, lease }
    }

    fn end(&mut self, serve: &Serve) {
        let begun = Instant::now();
        for _ in 0..2 {
            serve.stateless("destroy_sandbox", &json!({"sandbox_id": self.id})).tool().ok();
        }
        self.end.get_or_insert((begun, Instant::now()));
    }

    /// The least and the most that it can have lived until it was looked at.
    fn bounds(&self, looked: (Instant, Instant)) -> (Duration, Duration) {
        let (first, last) = self.end.unwrap_or(looked);
        let (least, most) = (first - self.answered, last - self.asked);
        match self.lease {
            Some(lease) => (least.min(lease), most.min(lease)),
            None => (least, most),
        }
    }
}

fn usage(serve: &Serve) -> ((Instant, Instant), Value) {
    let before = Instant::now();
    let usage = serve.stateless("get_usage", &json!({})).tool();
    ((before, Instant::now()), usage.ok().clone())
}

/// Each row, and the sum, against what was lived: within a second each.
fn check(serve: &Serve, lives: &[&Life]) {
    let (looked, usage) = usage(serve);
    let rows = usage["recent"].as_array().expect("rows");
    assert_eq!(rows.len(), lives.len(), "failed creates count nothing: {usage}");
    let (mut least, mut most) = (0.0, 0.0);
    for life in lives {
        let row = rows.iter().find(|row| row["sandbox_id"] == *life.id).expect("a row");
        let seconds = row["seconds"].as_f64().expect("a number");
        let (low, high) = life.bounds(looked);
        let (low, high) = (low.as_secs_f64() - 1.0, high.as_secs_f64() + 1.0);
        assert!((low..=high).contains(&seconds), "{low} to {high}: {row}");
        least += low;
        most += high;
    }
    let total = usage["seconds_total"].as_f64().expect("a number");
    assert!((least..=most).contains(&total), "{least} to {most}: {usage}");
    let rows: f64 = rows.iter().map(|row| row["seconds"].as_f64().expect("a number")).sum();
    assert!((rows - total).abs() < 0.5, "{rows} in rows: {usage}");
}

fn case_75_usage_is_what_was_lived(home: &Home) {
    // A unit of money for a second, so that cost is seconds.
    let text = "[sandboxes]\nlifetime_min = '1s'\n[billing]\nsmall = 1000000\ninterval = '1s'\n";
    std::fs::write(home.data().join("config.toml"), text).expect("written");
    let keep = ["--on-stop", "keep"];
    let serve = home.serve(&keep, &[]);
    assert_eq!(home.holm(&["account", "topup", "first", "100000"]).code(), Some(0));
    let mut over_all = Life::begin(&serve, None);
    let mut over_restart = Life::begin(&serve, None);
    let mut twice = Life::begin(&serve, None);
    let expiring = Life::begin(&serve, Some(3));
    let refused = serve.stateless("create_sandbox", &json!({"template": "none"})).tool();
    assert_eq!(refused.code(), "template_unknown");
    twice.end(&serve);
    check(&serve, &[&over_all, &over_restart, &twice, &expiring]);
    until("one to expire", || {
        let view = serve.stateless("get_sandbox", &json!({"sandbox_id": expiring.id})).tool();
        (view.ok()["status"] != "running").then_some(())
    });
    check(&serve, &[&over_all, &over_restart, &twice, &expiring]);
    // An orderly end with a pause after it, in which they live and nobody counts.
    serve.end();
    let pause = Instant::now();
    until("a while without a service", || (pause.elapsed().as_secs() >= 2).then_some(()));
    let mut serve = home.serve(&keep, &[]);
    home.note_instances();
    check(&serve, &[&over_all, &over_restart, &twice, &expiring]);
    over_restart.end(&serve);
    let mut over_crash = Life::begin(&serve, None);
    // One that expires while no service runs.
    let meanwhile = Life::begin(&serve, Some(2));
    serve.signal(Signal::KILL);
    serve.wait();
    let pause = Instant::now();
    until("a while without a service", || (pause.elapsed().as_secs() >= 3).then_some(()));
    let serve = home.serve(&[], &[]);
    home.note_instances();
    let mut running = Life::begin(&serve, None);
    let all = [&over_all, &over_restart, &twice, &expiring, &over_crash, &meanwhile, &running];
    check(&serve, &all);
    over_all.end(&serve);
    over_crash.end(&serve);
    let all = [&over_all, &over_restart, &twice, &expiring, &over_crash, &meanwhile, &running];
    check(&serve, &all);
    // What was charged is what was lived: whole seconds of each, once.
    running.end(&serve);
    let (_, usage) = usage(&serve);
    let number = |key: &str| usage[key].as_f64().expect("a number");
    let (cost, seconds) = (number("cost_total"), number("seconds_total"));
    assert_eq!(100_000.0 - number("balance"), cost, "{usage}");
    assert!(cost <= seconds && seconds - cost < 7.0, "{usage}");
    serve.end();
}
