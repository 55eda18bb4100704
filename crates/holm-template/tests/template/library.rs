//! What is kept, held, shared and pruned.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use holm_template::{Library, TemplateErrorKind};

use crate::harness::Test;
use crate::image::{GZIP, layout};
use crate::place::Place;
use crate::tar::Tar;

pub const TESTS: &[Test] = &[
    ("what_is_held_stays", held),
    ("what_another_process_holds_stays", held_elsewhere),
    ("a_layer_stays_while_a_template_names_it", shared),
    ("a_name_is_taken_once", names),
];

fn one(n: u32) -> Vec<u8> {
    Tar::default().file("f", &n.to_string()).done()
}

fn held() {
    let place = Place::new();
    let layout = layout(place.dir.join("layout"), &[(one(1), GZIP), (one(2), GZIP)]);
    let template = place.import("held", &layout.dir).unwrap();
    assert!(place.library.hold("other").unwrap().is_none());
    let held = place.library.hold("held").unwrap().unwrap();
    assert_eq!(held.template(), Some(&template));
    assert_eq!(held.layers(), template.layers);
    let again = place.library.hold("held").unwrap().unwrap();
    drop(again);
    let error = place.library.remove("held").unwrap_err();
    assert_eq!(error.kind, TemplateErrorKind::InUse);
    // Replaced, its layers are in use for as long as before.
    let mut request = holm_template::import::Request::new("held");
    request.replace = true;
    let other = crate::image::layout(place.dir.join("other"), &[(one(3), GZIP)]);
    holm_template::import::import(&place.library, &request, &other.dir, &()).unwrap();
    assert_eq!(place.library.prune().unwrap().layers, 0);
    assert!(place.library.layer_tree(&template.layers[0]).join("f").exists());
    let layers = place.library.hold_layers(held.layers()).unwrap().unwrap();
    drop(held);
    assert_eq!(place.library.prune().unwrap().layers, 0);
    drop(layers);
    assert_eq!(place.library.prune().unwrap().layers, 2);
    assert!(place.library.hold_layers(&template.layers).unwrap().is_none());
    assert!(place.library.remove("held").unwrap());
    assert!(!place.library.remove("held").unwrap());
}

fn held_elsewhere() {
    let place = Place::new();
    let layout = layout(place.dir.join("layout"), &[(one(1), GZIP)]);
    place.import("held", &layout.dir).unwrap();
    let mut child = Command::new("/proc/self/exe")
        .args(["hold-child", place.dir.join("data").to_str().unwrap()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "held\n");
    let error = place.library.remove("held").unwrap_err();
    assert_eq!(error.kind, TemplateErrorKind::InUse);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(place.library.remove("held").unwrap(), "the dead hold nothing");
}

/// Holds a template until its standard input ends.
pub fn hold_child(args: &mut dyn Iterator<Item = String>) -> i32 {
    let library = Library::open(Path::new(&args.next().unwrap())).unwrap();
    let _held = library.hold("held").unwrap().unwrap();
    println!("held");
    std::io::stdout().flush().unwrap();
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
    0
}

fn shared() {
    let place = Place::new();
    let first = layout(place.dir.join("first"), &[(one(1), GZIP), (one(2), GZIP)]);
    let second = layout(place.dir.join("second"), &[(one(1), GZIP), (one(3), GZIP)]);
    let first = place.import("first", &first.dir).unwrap();
    let second = place.import("second", &second.dir).unwrap();
    assert_eq!(place.names("layers").len(), 3);
    assert!(place.library.remove("first").unwrap());
    let pruned = place.library.prune().unwrap();
    assert_eq!((pruned.layers, pruned.bytes), (1, 1));
    assert!(!place.library.layer_tree(&first.layers[1]).exists());
    for layer in &second.layers {
        assert!(place.library.layer_tree(layer).join("f").exists());
    }
}

fn names() {
    let place = Place::new();
    let layout = layout(place.dir.join("layout"), &[(one(1), GZIP)]);
    place.import("name", &layout.dir).unwrap();
    let error = place.import("name", &layout.dir).unwrap_err();
    assert_eq!(error.kind, TemplateErrorKind::Exists);
    for name in ["host", "base", "../x", "", "A"] {
        let error = place.import(name, &layout.dir).unwrap_err();
        assert_eq!(error.kind, TemplateErrorKind::BadName, "{name}");
        assert!(place.library.get(name).unwrap().is_none(), "{name}");
    }
}
