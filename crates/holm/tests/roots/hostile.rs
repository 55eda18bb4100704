//! Images that are made to mislead: the guest neither waits for them nor is led anywhere.

use serde_json::json;

use super::image::{Image, run};
use crate::common::*;

as_root!(links_and_pipes_everywhere, a_working_directory_that_cannot_be, variables_that_cannot_be);
as_rootless!(links_and_pipes_everywhere);

const PLACES: [&str; 9] = ["proc", "dev", "etc", "tmp", "workspace", "home", "run", "sys", "var"];

fn links_and_pipes_everywhere(home: &Home) {
    let outside = home.dir.join("outside");
    for place in PLACES {
        std::fs::create_dir_all(outside.join(place)).unwrap();
    }
    let check = |name: &str, fill: &dyn Fn(&mut Image, &str)| {
        let mut image = Image::with_shell(home);
        PLACES.iter().for_each(|place| fill(&mut image, place));
        image.import(home, name);
        let line = "test -c /dev/null && test -e /proc/self/stat && test -f /etc/hosts && \
                    grep -q nameserver /etc/resolv.conf && cat /etc/hostname | wc -l; pwd > /dev/null";
        assert_eq!(run(home, name, &[], &["/bin/sh", "-c", line]), "1\n", "{name}");
        for place in PLACES {
            let left = std::fs::read_dir(outside.join(place)).unwrap().count();
            assert_eq!(left, 0, "{name}: something was made in {place} outside");
        }
    };
    check("absolute", &|image, place| _ = image.link(place, outside.join(place)));
    check("upwards", &|image, place| {
        let up = format!("{}{}", "../".repeat(30), outside.join(place).display());
        image.link(place, up);
    });
    check("circle", &|image, place| _ = image.link(place, place));
    check("proc", &|image, place| _ = image.link(place, "/proc/1/root/etc"));
    check("files", &|image, place| _ = image.file(place, "a file"));
    check("pipes", &|image, place| _ = image.pipe(place));
    // Files that the guest reads: none makes it wait.
    for (name, path) in [("passwd", "etc/passwd"), ("group", "etc/group"), ("hosts", "etc/hosts")] {
        let mut image = Image::with_shell(home);
        image.pipe(path);
        image.import(home, name);
        assert_eq!(run(home, name, &[], &["/bin/sh", "-c", "echo works"]), "works\n");
    }
    let mut image = Image::with_shell(home);
    image.link("etc/passwd", "/proc/kmsg").link("etc/group", "/dev/tty");
    image.import(home, "devices");
    assert_eq!(run(home, "devices", &[], &["/bin/sh", "-c", "echo works"]), "works\n");
}

fn a_working_directory_that_cannot_be(home: &Home) {
    let mut image = Image::with_shell(home);
    image.file("app", "a file").says(json!({"WorkingDir": "/app/data"}));
    image.import(home, "file");
    let exit = home.holm(&["run", "--template", "file", "--", "/bin/true"]);
    assert_eq!(exit.code(), Some(2), "{}", exit.err());
    assert!(exit.err().contains("/app/data"), "{}", exit.err());
    assert_eq!(run(home, "file", &["-w", "/"], &["/bin/pwd"]), "/\n");
    let mut image = Image::with_shell(home);
    image.link("app", "/new/place").dir("new").says(json!({"WorkingDir": "relative"}));
    image.import(home, "relative");
    assert_eq!(run(home, "relative", &[], &["/bin/pwd"]), "/workspace\n");
}

fn variables_that_cannot_be(home: &Home) {
    let mut image = Image::with_shell(home);
    let long = format!("LONG={}", "x".repeat(200_000));
    image.says(json!({"Env": ["GOOD=1", "=bad", "odd-name.x=2", long, "PATH=/bin"]}));
    image.import(home, "env");
    let seen = run(home, "env", &[], &["/bin/env"]);
    assert!(seen.contains("GOOD=1\n") && seen.contains("odd-name.x=2\n"), "{seen}");
    assert!(!seen.contains("LONG="), "a variable that no program can have");
}
