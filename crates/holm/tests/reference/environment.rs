//! `docs/reference/environment.md`: every variable.

use std::fmt::Write as _;

use holm::env_vars::ALL;

use crate::cell;

pub fn page() -> String {
    let mut page = String::from(
        "# Environment variables\n\n\
         Flags come before variables, variables before the settings file (of a service), that before \
         defaults. Where a variable has other \
         names, the first one that is set and not empty counts.\n\n\
         None of these reaches a sandbox; `holm run --env NAME` passes one on by name.\n\n\
         | variable | other names | commands | flag | what it does |\n\
         | --- | --- | --- | --- | --- |\n",
    );
    for variable in ALL {
        let quoted = |names: &[&str]| {
            names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
        };
        let _ = writeln!(
            page,
            "| `{}` | {} | {} | {} | {} |",
            variable.name,
            quoted(variable.aliases),
            variable.commands.join(", "),
            variable.flag.map(|flag| format!("`{flag}`")).unwrap_or_default(),
            cell(variable.doc),
        );
    }
    page
}
