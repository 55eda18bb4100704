//! REST of a running `holm serve`, beside the engine without a face and beside `cp`.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use holm_engine::{CreateSandbox, Engine, EngineSettings, RunCommand, SandboxId};
use holm_runtime::{LinuxDriver, LinuxOptions};
use serde_json::json;

use crate::service::{Service, failed};
use crate::table::{Row, Table};
use crate::workspace::Workspace;
use crate::{Options, Result};

/// Size of the file that goes up and down.
const LARGE: usize = 100 << 20;

/// The engine without a face, in this process.
struct Direct {
    runtime: tokio::runtime::Runtime,
    engine: Engine,
    id: SandboxId,
}

impl Direct {
    fn start(holm: &Path, at: &Workspace) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(failed("event loop"))?;
        let mut options = LinuxOptions::new(holm);
        options.data_dir = Some(at.root.join("direct"));
        options.runtime_dir = Some(at.root.join("run-direct"));
        let settings = EngineSettings::default();
        options.blank = settings.shape(None).map_err(|error| error.to_string())?;
        let driver = LinuxDriver::start(options).map_err(|error| error.message)?;
        let engine = Engine::new(Arc::new(driver), settings);
        let made = runtime.block_on(engine.sandbox_create(CreateSandbox::default()));
        let id = made.map_err(|error| error.to_string())?.id;
        Ok(Self { runtime, engine, id })
    }

    fn run_true(&self) -> Result<()> {
        let ran = self.runtime.block_on(self.engine.exec_run(&self.id, RunCommand::shell("true")));
        let ran = ran.map_err(|error| error.to_string())?;
        if ran.exit_code == 0 { Ok(()) } else { Err(format!("exec: {ran:?}")) }
    }

    fn end(self) {
        self.runtime.block_on(self.engine.shutdown());
    }
}

/// Adds the rows of REST.
pub fn measure(options: &Options, holm: &Path, at: &Workspace, table: &mut Table) -> Result<()> {
    let mut service = Service::start(holm, at, 20)?;
    let made = service.ask("POST", "/v1/sandboxes", b"{}")?;
    let id = made["id"].as_str().ok_or(format!("no id in {made}"))?;
    let path = format!("/v1/sandboxes/{id}");
    exec(options, holm, at, (&mut service, &path), table)?;
    files(at, (&mut service, &path), table)?;
    service.end()
}

fn exec(
    options: &Options,
    holm: &Path,
    at: &Workspace,
    (service, path): (&mut Service, &str),
    table: &mut Table,
) -> Result<()> {
    let direct = Direct::start(holm, at)?;
    let (mut faced, mut plain) = (Vec::new(), Vec::new());
    let body = json!({"command": "true"}).to_string();
    for round in 0..options.rounds * 2 + 3 {
        let begun = Instant::now();
        let ran = service.ask("POST", &format!("{path}/exec"), body.as_bytes())?;
        let over_rest = begun.elapsed();
        if ran["exit_code"] != json!(0) {
            return Err(format!("exec: {ran}"));
        }
        let begun = Instant::now();
        direct.run_true()?;
        if round >= 3 {
            plain.push(begun.elapsed());
            faced.push(over_rest);
        }
    }
    direct.end();
    let plain = Row::new("the engine without a face: exec true", &plain);
    table.add("REST on a kept connection", Row::new("REST: exec true", &faced), &[&plain]);
    table.add("", plain, &[]);
    Ok(())
}

fn files(at: &Workspace, (service, path): (&mut Service, &str), table: &mut Table) -> Result<()> {
    let data: Vec<u8> =
        (0..LARGE).map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()[2]).collect();
    let (from, to) = (at.root.join("large"), at.root.join("copy"));
    fs::write(&from, &data).map_err(failed("a large file"))?;
    let raw = format!("{path}/files/raw?path=large");
    let mut buffer = vec![0; 1 << 20];
    let (mut up, mut down, mut copies) = (Vec::new(), Vec::new(), Vec::<Duration>::new());
    for round in 0..10 {
        let begun = Instant::now();
        let copied = Command::new("cp").args([&from, &to]).status().map_err(failed("cp"))?;
        let copy = begun.elapsed();
        if !copied.success() {
            return Err(format!("cp: {copied}"));
        }
        let begun = Instant::now();
        let written = service.ask("PUT", &raw, &data)?;
        let upload = begun.elapsed();
        if written["bytes_written"] != json!(LARGE) {
            return Err(format!("upload: {written}"));
        }
        let begun = Instant::now();
        let length = service.download(&raw, &mut buffer)?;
        if length != LARGE {
            return Err(format!("download: {length} bytes"));
        }
        if round >= 1 {
            down.push(begun.elapsed());
            up.push(upload);
            copies.push(copy);
        }
    }
    let copy = Row::new("cp of the same file", &copies);
    table.add("100 MiB", Row::new("REST: upload", &up), &[&copy]);
    table.add("", Row::new("REST: download", &down), &[&copy]);
    table.add("", copy, &[]);
    Ok(())
}
