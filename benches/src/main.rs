//! Measures holm beside bubblewrap, crun and runc, in one run and on one root file system.
//!
//! Peers take turns round by round, so that a slow moment of the machine hits all of them. Every
//! run's output is checked, every row includes taking the sandbox down again, and holm runs as
//! shipped, with all its layers on. Ratios are what counts; milliseconds change with the machine.

mod crowd;
mod gate;
mod idle;
mod mcp;
mod peers;
mod preview;
mod rest;
mod running;
mod service;
mod table;
mod workspace;
mod wrk;

use std::path::{Path, PathBuf};
use std::time::Instant;

use mcp::Mcp;
use table::{Row, Table};
use workspace::Workspace;

/// A failed measurement ends the benchmark: a table with holes would be compared all the same.
type Result<T> = std::result::Result<T, String>;

struct Options {
    rounds: usize,
    crowd: usize,
    json: bool,
    /// Parts to measure; all of them where this is empty.
    only: Vec<String>,
}

/// The parts, in the order in which they are measured.
const PARTS: [&str; 7] = ["whole", "running", "rest", "crowd", "idle", "gate", "preview"];

fn options() -> Result<Options> {
    let mut options = Options { rounds: 50, crowd: 200, json: false, only: Vec::new() };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut number = || {
            let value = arguments.next().and_then(|text| text.parse::<usize>().ok());
            value.filter(|n| *n > 0).ok_or(format!("{argument} needs a number above 0"))
        };
        match argument.as_str() {
            "--rounds" => options.rounds = number()?,
            "--crowd" => options.crowd = number()?,
            "--json" => options.json = true,
            "--only" => {
                let list = arguments.next().ok_or("--only needs a list of parts")?;
                options.only = list.split(',').map(str::to_owned).collect();
                if let Some(other) =
                    options.only.iter().find(|part| !PARTS.contains(&part.as_str()))
                {
                    return Err(format!("unknown part {other}: there are {}", PARTS.join(", ")));
                }
            }
            other => {
                return Err(format!(
                    "unknown argument {other}: use --rounds, --crowd, --only, --json"
                ));
            }
        }
    }
    Ok(options)
}

fn measure() -> Result<String> {
    let options = options()?;
    let holm = holm()?;
    let workspace = Workspace::new()?;
    let mut table = Table::default();
    for part in PARTS {
        if !options.only.is_empty() && !options.only.iter().any(|only| only == part) {
            continue;
        }
        match part {
            "whole" => whole(&options, &holm, &workspace, &mut table)?,
            "running" => running(&options, &holm, &workspace, &mut table)?,
            "rest" => rest::measure(&options, &holm, &workspace, &mut table)?,
            "crowd" => crowd::measure(&holm, &workspace, options.crowd, &mut table)?,
            "idle" => idle::measure(&holm, &workspace, options.crowd, &mut table)?,
            "gate" => gate::measure(&holm, &workspace, &mut table)?,
            _ => preview::measure(&holm, &workspace, &mut table)?,
        }
    }
    Ok(if options.json { table.json() } else { table.text() })
}

/// One sandbox for one `true`, from nothing to nothing.
fn whole(options: &Options, holm: &Path, at: &Workspace, table: &mut Table) -> Result<()> {
    let peers = peers::all(holm, at)?;
    let mut server = Mcp::start(holm, at, 20)?;
    let mut times = vec![Vec::new(); peers.len()];
    let mut inside = Vec::new();
    for round in 0..options.rounds + 3 {
        for (peer, times) in peers.iter().zip(&mut times) {
            let begun = Instant::now();
            peer.once(round)?;
            if round >= 3 {
                times.push(begun.elapsed());
            }
        }
        let begun = Instant::now();
        let id = server.create()?;
        server.run_true(&id)?;
        server.destroy(&id)?;
        if round >= 3 {
            inside.push(begun.elapsed());
        }
    }
    server.end()?;
    let of = |name: &str| peers.iter().position(|peer| peer.name == name).map(|at| &times[at]);
    let bwrap = Row::new("bwrap … true, whole process", of("bwrap").ok_or("no bwrap")?);
    let crun = Row::new("crun run with limits", of("crun").ok_or("no crun")?);
    let runc = Row::new("runc run with limits", of("runc").ok_or("no runc")?);
    let run = Row::new("holm run -- true, whole process", of("holm run").ok_or("no holm")?);
    let cold = Row::new("holm mcp: create, true, destroy", &inside);
    table.add("One sandbox, one `true`", cold, &[&bwrap]);
    table.add("", run, &[&crun, &runc]);
    for row in [bwrap, crun, runc] {
        table.add("", row, &[]);
    }
    Ok(())
}

/// Commands in a sandbox that runs, and what its guest holds.
fn running(options: &Options, holm: &Path, at: &Workspace, table: &mut Table) -> Result<()> {
    let mut server = Mcp::start(holm, at, 20)?;
    let id = server.create()?;
    let _second = server.create()?; // with two alive, what guests share is seen as shared
    let private = server.guest_private_kib(at)?;
    let (mut execs, mut spawns) = (Vec::new(), Vec::new());
    for round in 0..options.rounds * 2 + 3 {
        let begun = Instant::now();
        peers::plain_spawn()?;
        let spawn = begun.elapsed();
        let begun = Instant::now();
        server.run_true(&id)?;
        if round >= 3 {
            execs.push(begun.elapsed());
            spawns.push(spawn);
        }
    }
    server.end()?;
    let spawn = Row::new("plain spawn of `sh -c true`", &spawns);
    let exec = Row::new("holm mcp: run_command true", &execs);
    table.difference("run_command over plain spawn", &exec, &spawn);
    table.add("A command in a running sandbox", exec, &[&spawn]);
    table.add("", spawn, &[]);
    table.fact("guest, private memory at rest (two alive)", &format!("{private} KiB"));
    Ok(())
}

fn holm() -> Result<PathBuf> {
    let mut path = std::env::current_exe().map_err(|error| error.to_string())?;
    path.set_file_name("holm");
    if path.exists() { Ok(path) } else { Err(format!("{} is not built", path.display())) }
}

#[allow(clippy::print_stdout, clippy::print_stderr, reason = "this is the program's output")]
fn main() -> std::process::ExitCode {
    match measure() {
        Ok(text) => {
            println!("{text}");
            std::process::ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            std::process::ExitCode::FAILURE
        }
    }
}
