//! `holm secret`: credentials that sandboxes can use and not read.

mod list;
mod rm;
mod set;
mod value;

use crate::cli::{SecretAction, SecretArgs};
use crate::env_vars::Environment;
use crate::exit::Failure;
use crate::settings::AdminSettings;

pub(super) fn run(arguments: SecretArgs, environment: &Environment) -> Result<u8, Failure> {
    match arguments.action {
        SecretAction::Set(mut set) => {
            let admin = std::mem::take(&mut set.admin);
            set::run(&AdminSettings::resolve(admin, environment)?, set)
        }
        SecretAction::List(list) => {
            let settings = AdminSettings::resolve(list.admin, environment)?;
            list::run(&settings, list.account.as_deref())
        }
        SecretAction::Rm(mut rm) => {
            let admin = std::mem::take(&mut rm.admin);
            rm::run(&AdminSettings::resolve(admin, environment)?, &rm)
        }
    }
}
