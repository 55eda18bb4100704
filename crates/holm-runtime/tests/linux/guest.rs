//! A guest of a few lines: a connection sends a user's name and, after a newline, a shell script,
//! and gets the script's output and `exit CODE`.

use std::io::{Read as _, Write as _};
use std::os::fd::FromRawFd as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

#[allow(unsafe_code, reason = "the launcher's contract is a descriptor number")]
pub fn main() -> ! {
    // SAFETY: the launcher leaves the listening socket there, for us alone.
    let listener = unsafe { UnixListener::from_raw_fd(3) };
    for stream in listener.incoming() {
        let Ok(stream) = stream else { continue };
        std::thread::spawn(move || drop(serve(stream)));
    }
    std::process::exit(1)
}

fn serve(mut stream: UnixStream) -> std::io::Result<()> {
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let (user, script) = text.split_once('\n').unwrap_or(("", &text));
    if text == "ping" {
        return stream.write_all(b"pong");
    }
    let mut command = Command::new("/bin/sh");
    command.args(["-c", script]).stdin(Stdio::null());
    command.env("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin").env("HOME", "/root");
    if user == "sandbox" && std::env::var_os("HOLM_GUEST_ROOTLESS").is_none() {
        command.uid(1000).gid(1000);
    }
    command.stdout(Stdio::from(std::os::fd::OwnedFd::from(stream.try_clone()?)));
    command.stderr(Stdio::from(std::os::fd::OwnedFd::from(stream.try_clone()?)));
    let code = match command.status() {
        Ok(status) => status.code().unwrap_or(-1),
        Err(error) => {
            write!(stream, "{error}")?;
            -2
        }
    };
    writeln!(stream, "exit {code}")
}
