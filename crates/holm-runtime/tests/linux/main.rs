//! The driver for real: launcher, namespaces, disks and cgroups, with a guest of a few lines.
//!
//! This program is the launcher (`__launcher`), the guest (PID 1 of every sandbox is this very
//! file) and the tests.
#![allow(clippy::print_stdout, reason = "a test program reports on standard output")]

mod adopted;
mod basics;
mod frozen;
mod gate;
mod groups;
mod guest;
mod harness;
mod inside;
mod layers;
mod leftovers;
mod outlive;
mod owned;
mod packed;
mod poor;
mod ports;
mod rig;
mod rootless;
mod trouble;

fn main() {
    let mut args = std::env::args();
    let name = args.next().unwrap_or_default();
    if name == "holm-guest" {
        guest::main();
    }
    match args.next().as_deref() {
        Some("__launcher") => holm_runtime::launcher::main(rig::own_guest()),
        Some("rootless-child") => rootless::child(&args.nth(1).unwrap_or_default()),
        Some("poor-child") => poor::child(&args.nth(1).unwrap_or_default()),
        Some("outlive-child") => outlive::child(&args.nth(1).unwrap_or_default()),
        Some("owner-child") => trouble::owner_child(),
        filter => {
            let groups = [
                adopted::TESTS,
                basics::TESTS,
                frozen::TESTS,
                gate::TESTS,
                gate::SOCKETS,
                groups::TESTS,
                inside::TESTS,
                layers::TESTS,
                layers::hostile::TESTS,
                outlive::TESTS,
                owned::TESTS,
                packed::TESTS,
                poor::TESTS,
                ports::TESTS,
                rootless::TESTS,
                trouble::TESTS,
            ];
            let code = harness::run(&groups.concat(), filter);
            rig::clean();
            std::process::exit(code);
        }
    }
}
