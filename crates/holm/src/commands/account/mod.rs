//! `holm account`: who owns sandboxes and who pays.

mod create;
mod list;
mod topup;
mod view;

use holm_engine::{Account, AccountId, Engine, PageQuery};

use crate::cli::{AccountAction, AccountArgs};
use crate::env_vars::Environment;
use crate::exit::Failure;
use crate::settings::AdminSettings;

use super::host::engine_failure;

pub(super) fn run(arguments: AccountArgs, environment: &Environment) -> Result<u8, Failure> {
    match arguments.action {
        AccountAction::Create(mut create) => {
            let admin = std::mem::take(&mut create.admin);
            create::run(&AdminSettings::resolve(admin, environment)?, create)
        }
        AccountAction::List(list) => list::run(&AdminSettings::resolve(list.admin, environment)?),
        AccountAction::Topup(mut topup) => {
            let admin = std::mem::take(&mut topup.admin);
            topup::run(&AdminSettings::resolve(admin, environment)?, topup)
        }
    }
}

/// All accounts, newest first.
pub(super) async fn all(engine: &Engine) -> Result<Vec<Account>, Failure> {
    let (mut accounts, mut after) = (Vec::new(), None);
    loop {
        let page = engine.account_list(PageQuery { limit: 1000, after }).await;
        let page = page.map_err(|error| engine_failure(&error))?;
        accounts.extend(page.items);
        after = page.next;
        if after.is_none() {
            return Ok(accounts);
        }
    }
}

/// The account that a person means: by its id, or by its name if only one has it.
pub(super) async fn find(engine: &Engine, named: &str) -> Result<AccountId, Failure> {
    if let Ok(id) = named.parse() {
        return Ok(id);
    }
    let accounts = all(engine).await?;
    let mut found = accounts.iter().filter(|account| account.name == named);
    match (found.next(), found.next()) {
        (Some(account), None) => Ok(account.id),
        (Some(_), Some(_)) => Err(Failure::usage(format!("several accounts are called `{named}`"))
            .hint("name it by its id; `holm account list` shows them")),
        (None, _) => Err(Failure::usage(format!("there is no account `{named}`"))
            .hint("`holm account list` shows them; `holm account create` makes one")),
    }
}
