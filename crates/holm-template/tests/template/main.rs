//! Images into templates for real: with confined workers, as root and as an ordinary user.
//!
//! This program is the confined worker (`__confined`), other processes that tests need, and the tests.
#![allow(clippy::print_stdout, reason = "a test program reports on standard output")]

mod archives;
mod crash;
mod distribution;
mod harness;
mod hostile;
mod image;
mod layers;
mod library;
mod packing;
mod place;
mod pull;
mod registry;
mod tar;
mod written;

fn main() {
    let mut args = std::env::args().skip(1);
    let code = match args.next().as_deref() {
        Some("__confined") => holm_template::unpack::main(),
        Some("import-child") => crash::import_child(&mut args),
        Some("hold-child") => library::hold_child(&mut args),
        Some("write-child") => written::write_child(&mut args),
        Some("full-child") => crash::full_child(&mut args),
        Some("mode-child") => {
            let mode = args.next().unwrap_or_default();
            let _dir = args.next();
            harness::run(&mode, args.next().as_deref())
        }
        filter => harness::all_modes(filter),
    };
    std::process::exit(code)
}

/// All tests.
fn tests() -> Vec<harness::Test> {
    [
        archives::TESTS,
        crash::TESTS,
        distribution::TESTS,
        hostile::TESTS,
        layers::TESTS,
        library::TESTS,
        packing::TESTS,
        pull::TESTS,
        written::TESTS,
    ]
    .concat()
}
