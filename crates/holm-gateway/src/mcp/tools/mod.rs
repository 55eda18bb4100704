//! The tools, one file each. The order here is the order in `tools/list`.

mod code_contexts;
mod code_result;
mod create_sandbox;
mod delete_snapshot;
mod destroy_sandbox;
mod expose_port;
mod extend_sandbox;
mod fork_sandbox;
mod get_command;
mod get_sandbox;
mod get_service_info;
mod get_usage;
mod kill_command;
mod list_commands;
mod list_files;
mod list_sandboxes;
mod pause_sandbox;
mod read_file;
mod report;
mod resume_sandbox;
mod run_code;
mod run_command;
mod send_input;
mod set_network;
mod shown_command;
mod snapshot_sandbox;
mod target;
mod unexpose_port;
mod view;
mod write_file;

use super::tool::Tool;

/// All tools.
#[must_use]
pub fn all() -> Vec<Tool> {
    vec![
        create_sandbox::tool(),
        run_command::tool(),
        get_command::tool(),
        send_input::tool(),
        kill_command::tool(),
        list_commands::tool(),
        run_code::tool(),
        code_contexts::tool(),
        write_file::tool(),
        read_file::tool(),
        list_files::tool(),
        expose_port::tool(),
        unexpose_port::tool(),
        get_sandbox::tool(),
        list_sandboxes::tool(),
        extend_sandbox::tool(),
        pause_sandbox::tool(),
        resume_sandbox::tool(),
        set_network::tool(),
        destroy_sandbox::tool(),
        snapshot_sandbox::tool(),
        fork_sandbox::tool(),
        delete_snapshot::tool(),
        get_usage::tool(),
        get_service_info::tool(),
    ]
}
