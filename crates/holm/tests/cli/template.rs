//! `holm template`, from an import to the last freed byte.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::snapshot::holm;

struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let dir =
            std::env::temp_dir().join(format!("holm-cli-template-{name}-{}", std::process::id()));
        std::fs::create_dir(&dir).unwrap();
        Self(dir)
    }

    fn template(&self, arguments: &[&str]) -> Command {
        let mut command = holm(&["template"]);
        command.args(arguments).env("HOLM_DATA_DIR", self.0.join("data"));
        command
    }

    /// What it prints; it must succeed.
    fn out(&self, arguments: &[&str]) -> String {
        let output = self.template(arguments).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && error.is_empty(), "{arguments:?}: {error}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Its exit code and what it says; it must fail.
    fn fails(&self, arguments: &[&str]) -> (i32, String) {
        let output = self.template(arguments).output().unwrap();
        assert!(output.stdout.is_empty(), "{arguments:?}");
        let code = output.status.code().unwrap();
        assert_ne!(code, 0, "{arguments:?}");
        (code, String::from_utf8(output.stderr).unwrap())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn root(place: &Place) -> PathBuf {
    let root = place.0.join("root");
    std::fs::create_dir_all(root.join("bin")).unwrap();
    std::fs::write(root.join("bin/tool"), "#!/bin/sh\n").unwrap();
    root
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn templates_come_and_go() {
    let place = Place::new("life");
    let root = root(&place);
    assert_eq!(place.out(&["list", "--json"]), "[]\n");
    assert_eq!(place.out(&["import", "mine", text(&root)]), "mine is there: 1 layer, 10 B\n");
    let json = place.out(&["import", "again", text(&root), "--json"]);
    let again: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((again["name"].as_str(), again["bytes"].as_u64()), (Some("again"), Some(10)));
    let list = place.out(&["list"]);
    let lines: Vec<&str> = list.lines().collect();
    assert!(lines[0].starts_with("NAME") && lines[1].starts_with("again"), "{list}");
    assert!(lines[2].starts_with("mine") && lines[2].ends_with("rootfs directory"), "{list}");
    let show = place.out(&["show", "mine"]);
    assert!(
        show.contains(again["layers"][0].as_str().unwrap()),
        "both have the same layer: {show}"
    );
    let layers = || std::fs::read_dir(place.0.join("data/images/layers")).unwrap().count();
    assert_eq!(layers(), 1);
    assert_eq!(place.out(&["rm", "mine"]), "mine is removed\n");
    assert_eq!(place.out(&["prune"]), "freed 0 layers, 0 B\n");
    assert_eq!(place.out(&["rm", "again", "--json"]), "{\n  \"name\": \"again\"\n}\n");
    assert_eq!(place.out(&["prune"]), "freed 1 layer, 10 B\n");
    assert_eq!(layers(), 0);
}

#[test]
fn what_fails_says_why_and_what_to_do() {
    let place = Place::new("errors");
    let root = root(&place);
    place.out(&["import", "mine", text(&root)]);
    for (arguments, code, parts) in [
        (
            vec!["import", "mine", text(&root)],
            1,
            ["there is a template `mine` already", "--replace"],
        ),
        (vec!["import", "host", text(&root)], 2, ["cannot be the name", "built in"]),
        (
            vec!["import", "x", "/nonexistent/image"],
            1,
            ["`/nonexistent/image` cannot be read", "error: "],
        ),
        (vec!["import", "x", "/proc/self/exe"], 1, ["neither an image nor", "docker save"]),
        (vec!["show", "none"], 1, ["there is no template `none`", "holm template list"]),
        (vec!["rm", "none"], 1, ["there is no template `none`", "holm template list"]),
    ] {
        let (exit, error) = place.fails(&arguments);
        assert_eq!(exit, code, "{arguments:?}: {error}");
        parts.iter().for_each(|part| assert!(error.contains(part), "{arguments:?}: {error}"));
    }
    place.out(&["import", "mine", text(&root), "--replace"]);
    place.out(&["rm", "mine"]);
    place.out(&["prune"]);
}
