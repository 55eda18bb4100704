//! A test's host and internet, and what it asks the sandbox to do.

use std::thread;

pub use holm_testbed::*;

use crate::common::*;

/// Runs a test on a host of its own, in a thread that is in that host's network, and so is all that
/// it starts; looks for leftovers afterwards.
pub fn on_bed(mode: Mode, test: fn(&Home, &Bed)) {
    if !rustix::process::geteuid().is_root() {
        println!("SKIP root mode: this user is not root");
        return;
    }
    let done = thread::spawn(move || {
        let bed = Bed::new().expect("two hosts with a cable between them");
        bed.host.network().and_then(|network| network.enter()).expect("its network");
        let mut home = Home::new(mode);
        home.prefix = bed.host.prefix();
        test(&home, &bed);
        home.assert_clean();
    });
    if let Err(panic) = done.join() {
        std::panic::resume_unwind(panic);
    }
}

/// Makes a test of each named function `fn(&Home, &Bed)`, for holm run by root and by another user.
macro_rules! on_beds {
    ($mode:ident, $module:ident: $($name:ident),* $(,)?) => {
        mod $module {
            $(#[test] fn $name() { $crate::bed::on_bed($crate::common::Mode::$mode, super::$name); })*
        }
    };
}
pub(crate) use on_beds;
