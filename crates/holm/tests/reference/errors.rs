//! `docs/reference/errors.md`: the closed list of error kinds.

use std::fmt::Write as _;

use holm_engine::ErrorKind;

use crate::cell;

pub fn page() -> String {
    let mut page = String::from(
        "# Errors\n\n\
         Every failed call has one of these kinds. The list is closed: a new kind is a change of \
         the interface. In MCP a failed tool call has `isError: true` and \
         `structuredContent.error` with `code` (the kind), `message` (what happened) and \
         `suggestion` (what to do next); the suggestion is the remedy below unless something \
         better is known.\n\n\
         | kind | remedy |\n| --- | --- |\n",
    );
    for kind in ErrorKind::ALL {
        let _ = writeln!(page, "| `{kind}` | {} |", cell(kind.remedy()));
    }
    page
}
