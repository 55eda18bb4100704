//! Runs tests one after the other and counts them.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// A name and what it does.
pub type Test = (&'static str, fn());

/// Runs those whose name contains `filter`. Answers the exit code.
pub fn run(tests: &[Test], filter: Option<&str>) -> i32 {
    // What cargo's own test programs are asked for.
    if std::env::args().any(|arg| arg == "--list") {
        tests.iter().for_each(|(name, _)| println!("{name}: test"));
        return 0;
    }
    let filter = filter.filter(|filter| !filter.starts_with('-')).unwrap_or("");
    let mut failed = Vec::new();
    let mut count = 0;
    for (name, test) in tests.iter().filter(|(name, _)| name.contains(filter)) {
        count += 1;
        let start = std::time::Instant::now();
        let ok = catch_unwind(AssertUnwindSafe(test)).is_ok();
        println!("test {name} ... {} ({:?})", if ok { "ok" } else { "FAILED" }, start.elapsed());
        if !ok {
            failed.push(*name);
        }
    }
    println!("{count} tests, {} failed {failed:?}", failed.len());
    i32::from(!failed.is_empty())
}
