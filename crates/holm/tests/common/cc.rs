//! Compiles small C programs on the host, static, so that they run inside whatever the template has.

use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

static NEXT: AtomicU32 = AtomicU32::new(0);

/// The bytes of a static program made from `source`.
pub fn static_program(source: &str) -> Vec<u8> {
    compiled("gcc", source).expect("gcc is installed")
}

/// The same with the C library musl, as programs on Alpine have it; without where it is not
/// installed.
pub fn musl_program(source: &str) -> Option<Vec<u8>> {
    compiled("musl-gcc", source)
}

fn compiled(compiler: &str, source: &str) -> Option<Vec<u8>> {
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let dir = std::env::temp_dir().join(format!("holm-cc-{}-{number}", std::process::id()));
    fs::create_dir_all(&dir).expect("a temporary directory");
    let (c, out) = (dir.join("p.c"), dir.join("p"));
    fs::write(&c, source).expect("the source is written");
    let ran = Command::new(compiler)
        .args(["-static", "-O1", "-w", "-pthread", "-o"])
        .arg(&out)
        .arg(&c)
        .output();
    let made = ran.ok().map(|made| {
        let errors = String::from_utf8_lossy(&made.stderr);
        assert!(made.status.success(), "{compiler}: {errors}");
        fs::read(&out).expect("the program is there")
    });
    fs::remove_dir_all(&dir).expect("the temporary directory goes");
    made
}
