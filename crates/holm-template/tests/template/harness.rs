//! Runs tests one after the other, as root and as ordinary users, and counts them.

use std::os::unix::fs::{PermissionsExt, chown};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::Command;

use crate::place;

/// A name and what it does.
pub type Test = (&'static str, fn());

/// A user without an account, so without subordinate ids.
const LONE: u32 = 54_321;
/// `games`, an account that every Debian has, for whom a range is made up in a private view.
const ACCOUNT: u32 = 5;

/// Runs those whose name contains `filter`. Answers the exit code.
pub fn run(mode: &str, filter: Option<&str>) -> i32 {
    let filter = filter.filter(|filter| !filter.starts_with('-')).unwrap_or("");
    let (mut passed, mut failed) = (0, Vec::new());
    for (name, test) in crate::tests().iter().filter(|(name, _)| name.contains(filter)) {
        let start = std::time::Instant::now();
        let ok = catch_unwind(AssertUnwindSafe(|| {
            test();
            place::assert_gone();
        }));
        let shown = if ok.is_ok() { "ok" } else { "FAILED" };
        println!("test {mode}::{name} ... {shown} ({:?})", start.elapsed());
        match ok {
            Ok(()) => passed += 1,
            Err(_) => failed.push(*name),
        }
    }
    place::clean();
    println!("{mode}: {passed} passed; {} failed {failed:?}", failed.len());
    i32::from(!failed.is_empty())
}

/// The same as who we are, and where that is root, as ordinary users as well.
pub fn all_modes(filter: Option<&str>) -> i32 {
    // What cargo's own test programs are asked for.
    if std::env::args().any(|arg| arg == "--list") {
        crate::tests().iter().for_each(|(name, _)| println!("{name}: test"));
        return 0;
    }
    if !rustix::process::geteuid().is_root() {
        println!("SKIP root mode: this user is not root");
        return run("own", filter);
    }
    let filter = filter.unwrap_or("");
    let code = run("root", Some(filter));
    let mut lone = Command::new("setpriv");
    lone.args([&format!("--reuid={LONE}"), &format!("--regid={LONE}"), "--clear-groups"]);
    let single = child("single", LONE, lone, filter);
    let ids = std::env::temp_dir().join(format!("holm-template-ids-{}", std::process::id()));
    std::fs::write(&ids, "games:700000:65536\n").unwrap();
    std::fs::set_permissions(&ids, PermissionsExt::from_mode(0o644)).unwrap();
    let script = format!(
        "mount --bind {0} /etc/subuid && mount --bind {0} /etc/subgid && \
         exec setpriv --reuid={ACCOUNT} --regid=60 --clear-groups \"$@\"",
        ids.display()
    );
    let mut account = Command::new("unshare");
    account.args(["--mount", "sh", "-c", &script, "sh"]);
    let subordinate = child("subordinate", ACCOUNT, account, filter);
    std::fs::remove_file(ids).unwrap();
    code | single | subordinate
}

fn child(mode: &str, uid: u32, mut command: Command, filter: &str) -> i32 {
    let dir: PathBuf =
        std::env::temp_dir().join(format!("holm-template-{mode}-{}", std::process::id()));
    std::fs::create_dir(&dir).unwrap();
    chown(&dir, Some(uid), Some(uid)).unwrap();
    std::fs::set_permissions(&dir, PermissionsExt::from_mode(0o755)).unwrap();
    // The user may not reach where this program lies.
    let program = dir.join("program");
    std::fs::copy("/proc/self/exe", &program).unwrap();
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    let status = command.arg(&program).args(["mode-child", mode]).arg(&dir).arg(filter).status();
    std::fs::remove_dir_all(&dir).unwrap();
    i32::from(!status.unwrap().success())
}
