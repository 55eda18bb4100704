//! From the command line to a serving guest.

use std::cell::{Cell, RefCell};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;

use holm_wire::guest::Configure;
use rustix::fs::{Mode, OFlags};

use crate::command::reaper;
use crate::identity::{PLAIN, ROOTLESS, Switch, User, Users};
use crate::server;
use crate::state::{Guest, Shared};
use crate::sys::{landlock, malloc, raw};

/// The listening socket that the launcher leaves.
const LISTENER: i32 = 3;

/// What the command line asks for.
#[derive(Debug, PartialEq, Eq)]
enum Asked {
    Init,
    Serve { socket: String, workdir: String, home: String },
    Kernel { language: String },
}

fn parse(arguments: &[String]) -> Result<Asked, String> {
    let usage = "usage: holm-guest init | holm-guest serve --socket PATH [--workdir DIR] [--home DIR] | \
         holm-guest kernel LANGUAGE";
    match arguments.first().map(String::as_str) {
        Some("init") if arguments.len() == 1 => Ok(Asked::Init),
        Some("kernel") if arguments.len() == 2 => {
            Ok(Asked::Kernel { language: arguments[1].clone() })
        }
        Some("serve") => {
            let (mut socket, mut workdir, mut home) = (None, String::new(), String::from("/tmp"));
            for pair in arguments[1..].chunks(2) {
                match pair {
                    [name, value] if name == "--socket" => socket = Some(value.clone()),
                    [name, value] if name == "--workdir" => workdir.clone_from(value),
                    [name, value] if name == "--home" => home.clone_from(value),
                    _ => return Err(usage.to_owned()),
                }
            }
            let socket = socket.ok_or(usage)?;
            Ok(Asked::Serve { socket, workdir, home })
        }
        _ => Err(usage.to_owned()),
    }
}

/// Runs the guest. Returns only when it cannot serve.
///
/// # Errors
/// With a text for the log.
pub fn run(arguments: &[String]) -> Result<(), String> {
    malloc::tune();
    let asked = parse(arguments)?;
    let told = |doing: &'static str| move |error: std::io::Error| format!("{doing}: {error}");
    let in_sandbox = matches!(asked, Asked::Init);
    if let Asked::Kernel { language } = &asked {
        return crate::bridge::run(language).map_err(told("cannot say anything"));
    }
    let (listener, switch, workdir) = match asked {
        Asked::Kernel { .. } => return Ok(()),
        Asked::Init => {
            raw::become_non_dumpable();
            // Instead of the memory file's.
            let _ = rustix::thread::set_name(c"holm-guest");
            let listener = raw::inherited(LISTENER).map_err(told("no listening socket"))?;
            (listener, switch_in_sandbox(), String::new())
        }
        Asked::Serve { socket, workdir, home } => {
            raw::become_subreaper();
            let listener = UnixListener::bind(socket).map_err(told("cannot bind the socket"))?;
            let switch = Switch::Only(me(home), PLAIN);
            (OwnedFd::from(listener), switch, workdir)
        }
    };
    raw::ignore_file_size_signal();
    // Directories made for callers get the mode that users expect.
    rustix::process::umask(Mode::from_raw_mode(0o022));
    let null = rustix::fs::open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
        .map_err(|error| format!("cannot open /dev/null: {error}"))?;
    let signals = raw::child_signals(None).map_err(told("cannot watch children"))?;
    let users = Users::new(switch);
    let max_processes = std::env::var("HOLM_GUEST_PROCESSES").ok();
    let max_processes = max_processes.and_then(|number| number.parse().ok()).unwrap_or(0);
    let files = crate::files::pool::Pool::start(users.switches())
        .map_err(told("cannot start a file thread"))?;
    let guest = Shared::new(Guest {
        users,
        in_sandbox,
        settings: RefCell::new(Configure { workdir, max_processes, ..Configure::default() }),
        configured: tokio::sync::watch::Sender::new(!in_sandbox),
        measured: crate::probe::First::default(),
        files,
        supervisors: RefCell::default(),
        processes: crate::process::registry::Registry::default(),
        background: crate::background::list::Background::default(),
        contexts: crate::contexts::list::Contexts::default(),
        own: rustix::fs::open("/proc/self/exe", OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok(),
        watchers: crate::files::watch::Watchers::default(),
        null,
        open_files: raw::raise_open_files(),
        landlock: landlock::level(),
        rulesets: crate::command::confine::Rulesets::default(),
        cpu_sample: Cell::new((0, 0)),
    });
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(told("cannot start the event loop"))?;
    tokio::task::LocalSet::new().block_on(&runtime, async move {
        let signals = raw::watched(signals).map_err(told("cannot watch children"))?;
        tokio::task::spawn_local(reaper::serve(Shared::clone(&guest), signals));
        if in_sandbox {
            // Now, while nobody waits for it. An error is told to whoever asks.
            let guest = Shared::clone(&guest);
            tokio::task::spawn_local(async move {
                drop(crate::probe::current(&guest).await);
                crate::warm::look();
            });
        }
        server::serve(guest, listener).await.map_err(told("cannot serve"))
    })
}

/// In a sandbox the guest is root, or (rootless) the one user there is.
fn switch_in_sandbox() -> Switch {
    let rootless = std::env::var_os("HOLM_GUEST_ROOTLESS").is_some_and(|value| value == "1");
    if rootless || !rustix::process::geteuid().is_root() {
        let mut user = me("/home/sandbox".to_owned());
        "sandbox".clone_into(&mut user.name);
        return Switch::Only(user, ROOTLESS);
    }
    Switch::All
}

/// The user that runs the guest.
fn me(home: String) -> User {
    let gid = rustix::process::getegid().as_raw();
    User {
        name: "sandbox".to_owned(),
        uid: rustix::process::geteuid().as_raw(),
        gid,
        groups: vec![gid],
        home,
        shell: "/bin/bash".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_lines_are_told_apart() {
        let check = |line: &str, want: Option<Asked>| {
            let words: Vec<_> = line.split_whitespace().map(str::to_owned).collect();
            assert_eq!(parse(&words).ok(), want, "{line}");
        };
        check("init", Some(Asked::Init));
        check("init x", None);
        check("kernel", None);
        check("kernel python", Some(Asked::Kernel { language: "python".to_owned() }));
        check("", None);
        check("serve", None);
        check("serve --socket", None);
        let serve = |workdir: &str| {
            let (socket, home) = ("/s".to_owned(), "/tmp".to_owned());
            Some(Asked::Serve { socket, workdir: workdir.to_owned(), home })
        };
        check("serve --socket /s", serve(""));
        check("serve --socket /s --workdir /w", serve("/w"));
    }
}
