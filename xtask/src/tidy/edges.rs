//! Dependencies between our crates point down only, and some crates stay free of whole layers.

use std::collections::{BTreeMap, BTreeSet};

use crate::shell;

/// Crate, what it may depend on among ours.
const MAY: &[(&str, &[&str])] = &[
    (
        "holm",
        &[
            "holm-client",
            "holm-engine",
            "holm-gate",
            "holm-gateway",
            "holm-runtime",
            "holm-store",
            "holm-template",
            "holm-wire",
        ],
    ),
    ("holm-gateway", &["holm-engine", "holm-http"]),
    ("holm-engine", &["holm-gate", "holm-runtime", "holm-store", "holm-wire"]),
    ("holm-gate", &["holm-http"]),
    ("holm-runtime", &[]),
    ("holm-store", &[]),
    ("holm-client", &["holm-http"]),
    // Workers that unpack are confined by the runtime; registries are asked by the client.
    ("holm-template", &["holm-client", "holm-runtime"]),
    ("holm-guest", &["holm-wire"]),
    ("holm-wire", &["holm-http"]),
    // What connections to servers that nobody trusts have in common.
    ("holm-http", &[]),
    // What a face adds is measured beside the engine without one.
    ("holm-bench", &["holm-engine", "holm-runtime", "holm-testbed"]),
    ("holm-testbed", &[]),
    ("xtask", &[]),
];

/// Crate, foreign crates that it must not use directly, and why.
const MUST_NOT: &[(&str, &[&str], &str)] = &[
    (
        "holm-gateway",
        &["libc", "rustix", "nix", "rusqlite", "tokio-postgres"],
        "faces know neither kernel nor SQL",
    ),
    (
        "holm-engine",
        &["hyper", "axum", "rmcp", "libc", "rusqlite", "tokio-postgres"],
        "the engine knows no protocol, no kernel and no SQL",
    ),
    ("holm-gate", &["rusqlite", "tokio-postgres"], "the gate knows no accounts and no SQL"),
    ("holm-runtime", &["hyper", "axum", "holm-wire"], "the driver knows no HTTP"),
    (
        "holm-store",
        &["hyper", "axum", "rmcp", "libc"],
        "the store knows no protocol and nothing above it",
    ),
    (
        "holm-template",
        &["libc", "rusqlite", "tokio-postgres"],
        "templates know no account and no SQL, and make no namespace themselves",
    ),
    ("holm-wire", &["rustix", "libc"], "the protocol knows neither host nor guest"),
];

pub fn check() -> Result<Vec<String>, String> {
    let arguments = ["metadata", "--format-version", "1", "--no-deps", "--locked", "--offline"];
    let text = shell::read(shell::cargo().args(arguments))?;
    let metadata: serde_json::Value =
        serde_json::from_str(&text).map_err(|error| format!("cargo metadata: {error}"))?;
    Ok(judge(&graph(&metadata)))
}

/// Crate → direct dependencies (those of tests left out: tests may look anywhere).
type Graph = BTreeMap<String, BTreeSet<String>>;

fn graph(metadata: &serde_json::Value) -> Graph {
    let list = |value: &serde_json::Value| value.as_array().cloned().unwrap_or_default();
    let name = |value: &serde_json::Value| value["name"].as_str().unwrap_or_default().to_owned();
    let edges = |package: &serde_json::Value| {
        list(&package["dependencies"])
            .iter()
            .filter(|dependency| dependency["kind"].as_str() != Some("dev"))
            .map(name)
            .collect()
    };
    list(&metadata["packages"]).iter().map(|package| (name(package), edges(package))).collect()
}

fn judge(graph: &Graph) -> Vec<String> {
    let mut found = Vec::new();
    for (crate_name, edges) in graph {
        let Some((_, may)) = MAY.iter().find(|(name, _)| name == crate_name) else {
            found.push(format!("{crate_name} is not in the table of allowed edges"));
            continue;
        };
        for edge in edges.iter().filter(|edge| graph.contains_key(*edge)) {
            if !may.contains(&edge.as_str()) {
                found.push(format!("{crate_name} must not depend on {edge}"));
            }
        }
        for (_, banned, reason) in MUST_NOT.iter().filter(|(name, ..)| name == crate_name) {
            for edge in edges.iter().filter(|edge| banned.contains(&edge.as_str())) {
                found.push(format!("{crate_name} must not depend on {edge}: {reason}"));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upward_and_banned_edges_are_found() {
        let check = |from: &str, to: &str, complaints: usize| {
            let nodes = MAY.iter().map(|(name, _)| ((*name).to_owned(), BTreeSet::new()));
            let mut graph: Graph = nodes.collect();
            graph.entry(from.to_owned()).or_default().insert(to.to_owned());
            assert_eq!(judge(&graph).len(), complaints, "{from} -> {to}");
        };
        check("holm", "holm-engine", 0);
        check("holm-engine", "holm-gateway", 1);
        check("holm-gate", "holm-engine", 1);
        check("holm-gate", "rusqlite", 1);
        check("holm-wire", "holm-runtime", 1);
        check("holm-store", "holm-engine", 1);
        check("holm-store", "hyper", 1);
        check("holm-gateway", "rustix", 1);
        check("holm-gateway", "serde", 0);
        check("holm-new", "serde", 1);
    }
}
