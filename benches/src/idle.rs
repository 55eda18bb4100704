//! What a service holds when nobody uses what it has.

use std::path::Path;

use serde_json::json;

use crate::Result;
use crate::service::Service;
use crate::table::Table;
use crate::workspace::Workspace;

const SESSIONS: usize = 100;

/// Makes `sandboxes` sandboxes and the sessions, and looks at the service.
pub fn measure(holm: &Path, at: &Workspace, sandboxes: usize, table: &mut Table) -> Result<()> {
    let mut service = Service::start(holm, at, sandboxes)?;
    let empty = service.resident_kib()?;
    for _ in 0..sandboxes {
        service.ask("POST", "/v1/sandboxes", b"{}")?;
    }
    let params = json!({"protocolVersion": "2025-11-25"});
    let begin = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
    for _ in 0..SESSIONS {
        let begun = service.ask("POST", "/mcp", begin.to_string().as_bytes())?;
        if begun["result"]["protocolVersion"] != json!("2025-11-25") {
            return Err(format!("initialize: {begun}"));
        }
    }
    let held = service.resident_kib()?;
    service.end()?;
    let name = format!("holm serve, resident, {sandboxes} idle, {SESSIONS} sessions");
    table.fact(&name, &format!("{held} KiB ({empty} KiB without)"));
    Ok(())
}
