//! `packaging/holm.service`: what it must say, and that what it names is there.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use clap::Parser as _;
use holm::cli::{Cli, Command as Holm};

use crate::common::{Home, as_root};

const UNIT: &str = include_str!("../../../../packaging/holm.service");

/// `Section.Key` → value.
fn directives() -> BTreeMap<String, String> {
    let (mut section, mut directives) = ("", BTreeMap::new());
    for line in UNIT.lines().map(str::trim) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            section = name;
            continue;
        }
        let (key, value) = line.split_once('=').expect("a directive");
        let before = directives.insert(format!("{section}.{key}"), value.to_owned());
        assert_eq!(before, None, "{key} twice");
    }
    directives
}

#[test]
fn sandboxes_outlive_the_service_that_the_unit_runs() {
    let directives = directives();
    let check = |key: &str, expected: &str| {
        assert_eq!(directives.get(key).map(String::as_str), Some(expected), "{key}");
    };
    // Else systemd ends the sandboxes with the service, or takes their groups away.
    check("Service.KillMode", "process");
    check("Service.Delegate", "yes");
    // The sockets of sandboxes are in it.
    check("Service.RuntimeDirectoryPreserve", "yes");
    check("Service.Restart", "always");
    check("Service.StateDirectoryMode", "0700");
    check("Service.RuntimeDirectoryMode", "0700");
    check("Install.WantedBy", "multi-user.target");
}

#[test]
fn what_the_unit_names_is_what_the_program_takes() {
    let directives = directives();
    let words: Vec<&str> = directives["Service.ExecStart"].split(' ').collect();
    assert!(words[0].starts_with('/') && words[0].ends_with("/holm"), "{words:?}");
    let parsed = Cli::try_parse_from(&words).expect("arguments of holm");
    let Holm::Serve(arguments) = parsed.command else { panic!("another command: {words:?}") };
    let state = format!("/var/lib/{}", directives["Service.StateDirectory"]);
    assert_eq!(arguments.service.data_dir.as_deref(), Some(Path::new(&state)));
    assert!(UNIT.contains(&format!("{state}/first-key")), "where the first key is");
    assert_eq!(directives["Service.RuntimeDirectory"], "holm", "the default of root: /run/holm");
    assert!(UNIT.contains("holm drain") && Cli::try_parse_from(["holm", "drain"]).is_ok());
}

as_root!(systemd_takes_the_unit);

fn systemd_takes_the_unit(home: &Home) {
    if Command::new("systemd-analyze").arg("--version").output().is_err() {
        println!("SKIP systemd-analyze is not here");
        return;
    }
    let verify = |unit: &str| {
        let path = home.dir.join("holm.service");
        fs::write(&path, unit).expect("a unit file");
        let mut command = Command::new("systemd-analyze");
        let output = command.arg("verify").arg(&path).output().expect("its end");
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let here = UNIT.replace("/usr/local/bin/holm", &home.program.display().to_string());
    let (is_well, said) = verify(&here);
    assert!(is_well && !said.contains("holm.service"), "{said}");
    // It would say so.
    let (_, said) = verify(&here.replace("KillMode=", "KillModes="));
    assert!(said.contains("KillModes"), "{said}");
}
