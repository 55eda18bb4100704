//! How a sandbox is shown.

use holm_engine::{EndReason, SandboxState, SandboxView};
use serde_json::{Value, json};

use crate::mcp::schema;
use crate::show::time;

/// What a tool answers that changed whether a sandbox runs.
pub fn changed(view: &SandboxView) -> Value {
    json!({
        "sandbox_id": view.id,
        "status": view.state.as_str(),
        "expires_at": view.expires_at.map(time),
    })
}

/// How that is described.
pub fn changed_schema() -> Value {
    schema::output(
        &[
            ("sandbox_id", schema::string("Its id.")),
            ("status", schema::string("What it is now.")),
            ("expires_at", schema::string("When it ends by itself (RFC 3339).")),
        ],
        &[&["sandbox_id", "status", "expires_at"]],
    )
}

/// The structured form. Times are RFC 3339 to the second.
pub fn show(view: &SandboxView) -> Value {
    let mut shown = json!({
        "sandbox_id": view.id,
        "name": view.name,
        "status": view.state.as_str(),
        "template": view.template,
        "size": view.size.as_str(),
        "vcpus": view.vcpus,
        "memory_mb": view.memory_mb,
        "disk_mb": view.disk_mb,
        "created_at": time(view.created_at),
        "expires_at": view.expires_at.map(time),
        "network": view.network.to_json(),
        "enforced": view.enforced,
        "missing": view.missing,
    });
    if let Some(asked) = view.vcpus_asked.filter(|asked| *asked != view.vcpus) {
        shown["vcpus_asked"] = asked.into();
    }
    if let Some(paused) = view.paused_at {
        shown["paused_at"] = time(paused).into();
    }
    if let Some(after) = view.auto_pause {
        shown["auto_pause_seconds"] = after.as_secs().into();
    }
    if !view.auto_resume {
        shown["auto_resume"] = false.into();
    }
    if !view.secrets.is_empty() {
        shown["secrets"] = json!(view.secrets);
    }
    if !view.metadata.is_empty() {
        shown["metadata"] = json!(view.metadata);
    }
    if let Some(ended) = &view.ended {
        shown["ended_reason"] = ended.reason.as_str().into();
        shown["ended_at"] = ended.at_text().into();
    }
    shown
}

/// The properties of [`show`].
pub fn properties() -> Vec<(&'static str, Value)> {
    let nullable =
        |description: &str| json!({"type": ["string", "null"], "description": description});
    vec![
        ("sandbox_id", schema::string("Its id.")),
        ("name", nullable("The name it was given.")),
        (
            "status",
            schema::choice(
                "Where it is in its life.",
                &SandboxState::ALL.map(SandboxState::as_str),
            ),
        ),
        ("template", schema::string("What it was made from.")),
        ("size", schema::choice("Its size.", &["small", "medium", "large"])),
        ("vcpus", schema::count("Processors.")),
        ("vcpus_asked", schema::count("Processors of the size, where the host has fewer.")),
        ("memory_mb", schema::count("Memory in MiB.")),
        ("disk_mb", schema::count("Disk in MiB.")),
        ("created_at", schema::string("When it was asked for (RFC 3339).")),
        ("expires_at", nullable("When it ends by itself (RFC 3339).")),
        ("paused_at", schema::string("Since when it is paused (RFC 3339).")),
        ("auto_pause_seconds", schema::count("It is paused after so long without use.")),
        ("auto_resume", schema::boolean("False where use does not let it go on.")),
        ("network", schema::network_shown("What it may reach.")),
        ("secrets", schema::words("Names of secrets that it may use.")),
        ("enforced", schema::words("Layers of isolation in force, as measured inside.")),
        ("missing", schema::words("Layers that this host does not give.")),
        ("metadata", schema::strings_by_name("Its labels.")),
        ("ended_reason", schema::choice("Why it ended.", &EndReason::ALL.map(EndReason::as_str))),
        ("ended_at", schema::string("When it ended (RFC 3339).")),
    ]
}

/// Those of [`properties`] that are always there.
pub const ALWAYS: &[&str] = &[
    "sandbox_id",
    "status",
    "template",
    "size",
    "vcpus",
    "memory_mb",
    "disk_mb",
    "created_at",
    "network",
    "enforced",
    "missing",
];
