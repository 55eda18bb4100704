//! Compiles small C programs on the host, static, so that they run inside whatever the template has.

use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

static NEXT: AtomicU32 = AtomicU32::new(0);

/// The bytes of a static program made from `source`.
pub fn static_program(source: &str) -> Vec<u8> {
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let dir = std::env::temp_dir().join(format!("holm-cc-{}-{number}", std::process::id()));
    fs::create_dir_all(&dir).expect("a temporary directory");
    let (c, out) = (dir.join("p.c"), dir.join("p"));
    fs::write(&c, source).expect("the source is written");
    let made = Command::new("gcc")
        .args(["-static", "-O1", "-w", "-pthread", "-o"])
        .arg(&out)
        .arg(&c)
        .output()
        .expect("gcc is installed");
    assert!(made.status.success(), "gcc: {}", String::from_utf8_lossy(&made.stderr));
    let bytes = fs::read(&out).expect("the program is there");
    fs::remove_dir_all(&dir).expect("the temporary directory goes");
    bytes
}
