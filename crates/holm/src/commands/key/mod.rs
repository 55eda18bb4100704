//! `holm key`: API keys.

mod create;
mod list;
mod revoke;

use crate::cli::{KeyAction, KeyArgs};
use crate::env_vars::Environment;
use crate::exit::Failure;
use crate::settings::AdminSettings;

pub(super) fn run(arguments: KeyArgs, environment: &Environment) -> Result<u8, Failure> {
    match arguments.action {
        KeyAction::Create(mut create) => {
            let admin = std::mem::take(&mut create.admin);
            create::run(&AdminSettings::resolve(admin, environment)?, create)
        }
        KeyAction::List(list) => {
            let settings = AdminSettings::resolve(list.admin, environment)?;
            list::run(&settings, list.account.as_deref())
        }
        KeyAction::Revoke(revoke) => {
            revoke::run(&AdminSettings::resolve(revoke.admin, environment)?, &revoke.key)
        }
    }
}
