//! `docs/reference/settings.md`: every setting of the service.

use std::fmt::Write as _;

use holm::settings::table;

use crate::cell;

pub fn page() -> String {
    let mut page = String::from(
        "# Settings of the service\n\n\
         Flags come before variables, variables before the settings file, the file before \
         defaults; `holm config` prints what is in force. The file is TOML, and the part before \
         the last dot of a name is its table. How to use it: [configuration](../configuration.md).\n\n\
         | setting | flag | variable | default | what it does |\n\
         | --- | --- | --- | --- | --- |\n",
    );
    for setting in table::all() {
        let code = |text: Option<&str>| {
            text.filter(|text| !text.is_empty()).map(|text| format!("`{text}`")).unwrap_or_default()
        };
        let _ = writeln!(
            page,
            "| `{}` | {} | {} | {} | {} |",
            setting.key,
            code(setting.flag),
            code(setting.env.map(|variable| variable.name)),
            code(Some(&setting.default)),
            cell(&setting.doc),
        );
    }
    page
}
