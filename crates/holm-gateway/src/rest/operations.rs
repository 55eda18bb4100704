//! What operations are called here. The engine suggests them by the names that tools have; who came
//! by REST is told the route.

/// An operation and its route.
const ROUTES: [(&str, &str); 25] = [
    ("create_sandbox", "`POST /v1/sandboxes`"),
    ("list_sandboxes", "`GET /v1/sandboxes`"),
    ("get_sandbox", "`GET /v1/sandboxes/{sandbox_id}`"),
    ("extend_sandbox", "`POST /v1/sandboxes/{sandbox_id}/extend`"),
    ("pause_sandbox", "`POST /v1/sandboxes/{sandbox_id}/pause`"),
    ("resume_sandbox", "`POST /v1/sandboxes/{sandbox_id}/resume`"),
    ("set_network", "`PUT …/network`"),
    ("destroy_sandbox", "`DELETE /v1/sandboxes/{sandbox_id}`"),
    ("run_command", "`POST …/exec`"),
    ("run_code", "`POST …/run-code`"),
    ("code_contexts", "`GET …/contexts`"),
    ("get_command", "`GET …/commands/output`"),
    ("list_commands", "`GET …/commands`"),
    ("send_input", "`POST …/commands/input`"),
    ("kill_command", "`POST …/commands/kill`"),
    ("write_file", "`PUT …/files`"),
    ("read_file", "`GET …/files`"),
    ("list_files", "`GET …/files/list`"),
    // Before the one whose name is its end.
    ("unexpose_port", "`DELETE …/ports`"),
    ("expose_port", "`POST …/ports`"),
    ("snapshot_sandbox", "`POST …/snapshots`"),
    ("fork_sandbox", "`POST …/fork`"),
    ("delete_snapshot", "`DELETE /v1/snapshots/{snapshot}`"),
    ("get_usage", "`GET /v1/usage`"),
    ("get_service_info", "`GET /v1/service-info`"),
];

/// A suggestion with the routes of what it names.
#[must_use]
pub fn by_route(suggestion: &str) -> String {
    let named = ROUTES.iter().filter(|(operation, _)| suggestion.contains(operation));
    named.fold(suggestion.to_owned(), |text, (operation, route)| text.replace(operation, route))
}

#[cfg(test)]
mod tests {
    use holm_engine::ErrorKind;

    use super::*;
    use crate::mcp::Server;

    #[test]
    fn every_tool_has_its_route_and_no_remedy_names_a_tool() {
        let tools = Server::new().list();
        let tools: Vec<&str> = tools.iter().filter_map(|tool| tool["name"].as_str()).collect();
        assert_eq!(tools.len(), ROUTES.len());
        for kind in ErrorKind::ALL {
            let remedy = by_route(kind.remedy());
            assert!(tools.iter().all(|tool| !remedy.contains(tool)), "{kind}: {remedy}");
        }
        for tool in tools {
            assert!(by_route(tool).starts_with('`'), "{tool}");
        }
    }

    #[test]
    fn routes_are_those_of_endpoints() {
        let endpoints = crate::rest::face::endpoints();
        for (operation, route) in ROUTES {
            let (method, path) = route.trim_matches('`').split_once(' ').expect("two words");
            let path = path.replace('…', "/v1/sandboxes/{sandbox_id}");
            let there = endpoints.iter().any(|one| one.method == method && one.path == path);
            assert!(there, "{operation}: {route}");
        }
    }
}
