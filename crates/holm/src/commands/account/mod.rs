//! `holm account`: who owns sandboxes and who pays.

mod create;
mod list;
mod set;
mod topup;

use crate::cli::{AccountAction, AccountArgs};
use crate::env_vars::Environment;
use crate::exit::Failure;
use crate::settings::AdminSettings;

pub(super) fn run(arguments: AccountArgs, environment: &Environment) -> Result<u8, Failure> {
    match arguments.action {
        AccountAction::Create(mut create) => {
            let admin = std::mem::take(&mut create.admin);
            create::run(&AdminSettings::resolve(admin, environment)?, create)
        }
        AccountAction::List(list) => list::run(&AdminSettings::resolve(list.admin, environment)?),
        AccountAction::Set(mut set) => {
            let admin = std::mem::take(&mut set.admin);
            set::run(&AdminSettings::resolve(admin, environment)?, &set)
        }
        AccountAction::Topup(mut topup) => {
            let admin = std::mem::take(&mut topup.admin);
            topup::run(&AdminSettings::resolve(admin, environment)?, topup)
        }
    }
}
