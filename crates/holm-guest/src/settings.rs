//! What the host tells the guest, and what callers may see of it.

use std::collections::BTreeMap;

use holm_wire::guest::{Configure, Configured};
use hyper::Request;
use hyper::body::Incoming;

use crate::errors::{Result, invalid, shorten};
use crate::state::{Guest, Shared};

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
    if guest.in_sandbox {
        repeat_hostname(guest, &request.hostname);
        if let Some(image) = &request.image {
            crate::image::settle(guest, image, &request.workdir)?;
        }
    }
    guest.settings.replace(request);
    guest.configured.send_replace(true);
    Ok(Configured { measured: crate::probe::current(guest).await? })
}

/// The kernel's name is the launcher's to set; the files that repeat it are written here, at the
/// first time that it is known. Where somebody inside made them unwritable, they stay.
fn repeat_hostname(guest: &Guest, name: &str) {
    if name.is_empty() || guest.settings.borrow().hostname == name {
        return;
    }
    let hosts = format!(
        "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n127.0.1.1 {name}\n"
    );
    let _ = std::fs::write("/etc/hostname", format!("{name}\n"));
    let _ = std::fs::write("/etc/hosts", hosts);
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
