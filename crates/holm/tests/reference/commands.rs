//! `docs/reference/cli.md`: the help of every command, and the exit codes.

use std::fmt::Write as _;

use clap::CommandFactory as _;

pub fn page() -> String {
    let mut page = String::from("# Command line\n\n");
    let mut root = holm::cli::Cli::command();
    root.build();
    section(&mut page, &mut root, "holm");
    let names: Vec<String> =
        root.get_subcommands().map(|command| command.get_name().to_owned()).collect();
    for name in names {
        let command = root.find_subcommand_mut(&name).expect("it was just listed");
        let title = format!("holm {name}");
        section(&mut page, command, &title);
        let inner: Vec<String> =
            command.get_subcommands().map(|command| command.get_name().to_owned()).collect();
        for name in inner {
            let command = command.find_subcommand_mut(&name).expect("it was just listed");
            section(&mut page, command, &format!("{title} {name}"));
        }
    }
    page.push_str("## Exit codes\n\n| code | commands | meaning |\n| --- | --- | --- |\n");
    for row in holm::exit::TABLE {
        let _ = writeln!(page, "| {} | {} | {} |", row.code, row.commands, row.meaning);
    }
    page
}

fn section(page: &mut String, command: &mut clap::Command, title: &str) {
    let help = command.render_long_help().to_string();
    let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
    let _ = write!(page, "## {title}\n\n```text\n{}\n```\n\n", lines.join("\n").trim_end());
}
