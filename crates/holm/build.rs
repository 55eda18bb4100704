//! Builds the guest and leaves it at `$OUT_DIR/holm-guest`, from where it is embedded.
//!
//! The guest is another kind of program than the host's (static, small, aborting), so it needs a
//! cargo call of its own: its own profile, its own flags, and its own target directory, because
//! the outer cargo holds the lock of the usual one while this runs. `HOLM_GUEST_BIN=PATH` takes a
//! finished guest instead.

use std::ffi::OsString;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

fn main() {
    let out = PathBuf::from(variable("OUT_DIR"));
    let here = PathBuf::from(variable("CARGO_MANIFEST_DIR"));
    let workspace = here.join("../..");
    for watched in ["crates/holm-guest/src", "crates/holm-guest/Cargo.toml"] {
        rerun_if_changed(&workspace.join(watched));
    }
    for watched in ["crates/holm-wire/src", "crates/holm-wire/Cargo.toml"] {
        rerun_if_changed(&workspace.join(watched));
    }
    for watched in ["Cargo.toml", "Cargo.lock", "crates/holm/build.rs"] {
        rerun_if_changed(&workspace.join(watched));
    }
    told("rerun-if-env-changed=HOLM_GUEST_BIN");
    let built = match env::var_os("HOLM_GUEST_BIN").filter(|path| !path.is_empty()) {
        Some(path) => PathBuf::from(path),
        None => build(&out, &workspace),
    };
    rerun_if_changed(&built);
    let target = out.join("holm-guest");
    let bytes = match fs::read(&built) {
        Ok(bytes) => bytes,
        Err(error) => panic!("cannot read the guest {}: {error}", built.display()),
    };
    if let Err(error) = fs::write(&target, &bytes) {
        panic!("cannot write the guest to {}: {error}", target.display());
    }
    // Tells guests of different builds apart; nobody chooses what is in one to deceive us.
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    told(&format!("rustc-env=HOLM_GUEST_BUILD={:016x}", hasher.finish()));
}

/// Builds the guest for the machine that runs the build's result.
fn build(out: &Path, workspace: &Path) -> PathBuf {
    let triple = variable("TARGET");
    let triple = triple.to_string_lossy();
    let directory = out.join("guest-target");
    let mut command = Command::new(variable("CARGO"));
    command.current_dir(workspace);
    command.args(["build", "--package", "holm-guest", "--bin", "holm-guest"]);
    command.args(["--profile", "guest", "--locked", "--target", &triple]);
    command.arg("--target-dir").arg(&directory);
    for (name, _) in env::vars_os() {
        if leaks(&name.to_string_lossy()) {
            command.env_remove(name);
        }
    }
    // Static and position-independent: it runs in sandboxes that have no C library of the host's.
    let flags = format!("CARGO_TARGET_{}_RUSTFLAGS", triple.to_uppercase().replace('-', "_"));
    command.env(flags, "-C target-feature=+crt-static -C relocation-model=pie");
    match command.status() {
        Ok(status) if status.success() => {}
        Ok(status) => panic!("building the guest failed ({status}); its messages are above"),
        Err(error) => panic!("cannot start cargo for the guest: {error}"),
    }
    directory.join(&*triple).join("guest").join("holm-guest")
}

/// What describes the outer build and would bend the inner one. Settings of the user's own
/// (network, registries, CARGO_HOME, number of jobs) stay.
fn leaks(name: &str) -> bool {
    let cargo = name.starts_with("CARGO")
        && !["CARGO_HOME", "CARGO_BUILD_JOBS", "CARGO_TERM_COLOR"].contains(&name)
        && !["CARGO_NET_", "CARGO_HTTP_", "CARGO_REGISTR"]
            .iter()
            .any(|kept| name.starts_with(kept));
    let rust =
        name.starts_with("RUSTC") || name.starts_with("RUSTDOC") || name.starts_with("RUSTFLAGS");
    let build = ["TARGET", "HOST", "PROFILE", "OPT_LEVEL", "DEBUG", "NUM_JOBS", "OUT_DIR"];
    cargo || rust || name.starts_with("DEP_") || build.contains(&name)
}

fn variable(name: &str) -> OsString {
    env::var_os(name).unwrap_or_else(|| panic!("cargo did not set {name}"))
}

fn rerun_if_changed(path: &Path) {
    told(&format!("rerun-if-changed={}", path.display()));
}

#[allow(clippy::print_stdout, reason = "this is how a build script talks to cargo")]
fn told(line: &str) {
    println!("cargo:{line}");
}
