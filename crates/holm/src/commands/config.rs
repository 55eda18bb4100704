//! `holm config`: what is in force for `holm serve`, and where each value comes from.

use serde::Serialize;

use crate::exit::{self, Failure};
use crate::output;
use crate::settings::{InForce, ServeSettings};

/// What `--json` prints.
#[derive(Serialize)]
struct Report<'a> {
    settings: &'a [InForce],
}

pub(super) fn run(settings: &ServeSettings, json: bool) -> Result<u8, Failure> {
    if json {
        output::print_json(&Report { settings: &settings.in_force })?;
        return Ok(exit::SUCCESS);
    }
    let rows = settings.in_force.iter();
    let rows = rows.map(|row| vec![row.key.clone(), row.value.clone(), row.from.clone()]);
    output::print_rows(&["SETTING", "VALUE", "FROM"], rows)?;
    Ok(exit::SUCCESS)
}
