//! `docs/reference/errors.md`: the closed list of error kinds.

use std::fmt::Write as _;

use holm_engine::ErrorKind;
use holm_gateway::rest::operations::by_route;

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
    page.push_str(
        "\n## Over REST\n\n\
         A failed request answers `{\"error\": {\"type\", \"message\", \"suggestion\", \
         \"request_id\"}}`. `type` is the kind above, but for `invalid_argument`, which is \
         `invalid_request` here. `request_id` is also in the header `X-Request-Id` of every answer. \
         With 429 and 503, `Retry-After` says after how many seconds to try again, where that is \
         known. A body that is too long, too slow or of the wrong kind has the status 413, 408 or \
         415.\n\n\
         | type | status | remedy |\n| --- | --- | --- |\n",
    );
    for row in holm_gateway::rest::failure::types() {
        let _ =
            writeln!(page, "| `{}` | {} | {} |", row.name, row.status, cell(&by_route(row.remedy)));
    }
    page
}
