//! What the host tells the guest, and what callers may see of it.

use std::collections::BTreeMap;

use holm_wire::guest::{Configure, Configured};
use hyper::Request;
use hyper::body::Incoming;

use crate::errors::{Result, invalid, shorten};
use crate::state::{Guest, Shared};

const HOSTNAME: &str = "/etc/hostname";
const HOSTS: &str = "/etc/hosts";

/// Takes the host's settings and answers what was measured. May be called again; the last one
/// counts for later commands.
///
/// # Errors
/// When a variable could not be passed to a command, or the working directory is no path.
pub async fn configure(guest: &Shared, request: Configure) -> Result<Configured> {
    for (name, value) in &request.env {
        if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
            return Err(invalid(format!(
                "variable {} cannot be set: names are not empty and hold no `=`, and neither \
                 part holds NUL",
                shorten(name)
            )));
        }
    }
    if !request.workdir.is_empty() {
        crate::files::path::absolute(&request.workdir, "/")?;
        if !request.workdir.starts_with('/') {
            return Err(invalid("the working directory must be an absolute path"));
        }
    }
    repeat_hostname(&request.hostname);
    guest.settings.replace(request);
    Ok(Configured { measured: crate::probe::current(guest).await? })
}

/// The kernel's name is the launcher's to set. The files that repeat it were written when nobody
/// knew yet whose sandbox this would be. Where somebody inside made them unwritable, they stay.
fn repeat_hostname(name: &str) {
    if rustix::system::uname().nodename().to_bytes() != name.as_bytes() {
        return;
    }
    let Ok(before) = std::fs::read_to_string(HOSTNAME) else { return };
    let line = |name: &str| format!("127.0.1.1 {}\n", name.trim_end());
    if before.trim_end() == name {
        return;
    }
    let _ = std::fs::write(HOSTNAME, format!("{name}\n"));
    if let Ok(hosts) = std::fs::read_to_string(HOSTS) {
        let _ = std::fs::write(HOSTS, hosts.replace(&line(&before), &line(name)));
    }
}

/// `GET /envs`: the variables of the default user's commands.
///
/// # Errors
/// When the named user does not exist.
pub fn environment(guest: &Guest, request: &Request<Incoming>) -> Result<BTreeMap<String, String>> {
    let name = crate::server::rpc::user(request.headers())?;
    let user = guest.users.find(&name)?;
    Ok(guest.environment(&user))
}
