//! `holm key list`.

use holm_engine::PageQuery;
use jiff::Timestamp;

use super::view::View;
use crate::commands::account;
use crate::commands::host::engine_failure;
use crate::exit::{self, Failure};
use crate::output::{self, table};
use crate::service::administer;
use crate::settings::AdminSettings;

pub(super) fn run(settings: &AdminSettings, account: Option<&str>) -> Result<u8, Failure> {
    let now = Timestamp::now();
    let views = administer(settings, async |engine| {
        let account = match account {
            Some(named) => Some(account::find(engine, named).await?),
            None => None,
        };
        let (mut views, mut after) = (Vec::new(), None);
        loop {
            let page = engine.key_list(account, PageQuery { limit: 1000, after }).await;
            let page = page.map_err(|error| engine_failure(&error))?;
            views.extend(page.items.iter().map(|key| View::new(key, now)));
            after = page.next;
            if after.is_none() {
                return Ok(views);
            }
        }
    })?;
    if settings.json {
        output::print_json(&views)?;
        return Ok(exit::SUCCESS);
    }
    let rows: Vec<Vec<String>> = views.iter().map(View::row).collect();
    output::print(&table(&View::HEAD, &rows))?;
    Ok(exit::SUCCESS)
}
