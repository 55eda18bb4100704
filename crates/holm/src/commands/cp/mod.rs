//! `holm cp`: files and directories into a service's sandbox, and out of one.

mod down;
mod meter;
mod pack;
mod unpack;
mod up;

use holm_client::rest::Rest;
use holm_client::{Client, Error};

use crate::exit::{self, Failure};
use crate::settings::{CpSettings, Way};

pub(super) fn run(settings: CpSettings) -> Result<u8, Failure> {
    let CpSettings { service, way, user, bar } = settings;
    super::block_on(async move {
        let client = Client::new(service.options);
        let rest = Rest::new(client.map_err(|error| Failure::new(error.to_string()))?);
        let user = user.as_deref();
        match way {
            Way::Up { from, to } => up::copy(&rest, from, &to, user, bar).await?,
            Way::Down { from, to } => down::copy(&rest, &from, to, user, bar).await?,
        }
        Ok(exit::SUCCESS)
    })
}

fn broken(error: &Error) -> Failure {
    Failure::new(error.to_string())
}

/// Where what is called `name` goes, and what it is called there: into a directory that is there or
/// whose path ends like one, and else the last part of the path is its name.
fn placed(path: &str, is_directory: bool, name: &str) -> (String, String) {
    let trimmed = path.trim_end_matches('/');
    if is_directory || trimmed.len() < path.len() {
        let directory = if trimmed.is_empty() { path } else { trimmed };
        return (directory.to_owned(), name.to_owned());
    }
    match path.rsplit_once('/') {
        Some(("", last)) => ("/".to_owned(), last.to_owned()),
        Some((above, last)) => (above.to_owned(), last.to_owned()),
        None => (".".to_owned(), path.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_copied_has_a_directory_and_a_name() {
        let check = |path: &str, is_directory: bool, want: (&str, &str)| {
            let (directory, name) = placed(path, is_directory, "x");
            assert_eq!((directory.as_str(), name.as_str()), want, "{path}");
        };
        check("/a/b", true, ("/a/b", "x"));
        check("/a/b/", false, ("/a/b", "x"));
        check("/a/b", false, ("/a", "b"));
        check("/b", false, ("/", "b"));
        check("/", true, ("/", "x"));
        check("b", false, (".", "b"));
        check("a/b", false, ("a", "b"));
    }
}
