//! What the host tells the guest, and what callers may see of it.

use std::collections::BTreeMap;

use holm_wire::guest::Configure;
use holm_wire::process::Empty;
use hyper::Request;
use hyper::body::Incoming;

use crate::errors::{Result, invalid, shorten};
use crate::state::Guest;

/// Takes the host's settings. May be called again; the last one counts for later commands.
///
/// # Errors
/// When a variable could not be passed to a command, or the working directory is no path.
pub fn configure(guest: &Guest, request: Configure) -> Result<Empty> {
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
    if !request.hostname.is_empty()
        && rustix::system::uname().nodename().to_bytes() != request.hostname.as_bytes()
    {
        // The launcher has set the name; a later one is cosmetic and may be refused here.
        let _ = rustix::system::sethostname(request.hostname.as_bytes());
    }
    guest.settings.replace(request);
    Ok(Empty {})
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
