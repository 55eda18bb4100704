//! The registry of the distribution, as a program: what others' images lie in.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use holm_template::import::Request;
use holm_template::registry::{Access, Reference, pull};
use serde_json::Value;

use crate::harness::Test;
use crate::image::{GZIP, Layout, PLAIN, digest};
use crate::place::Place;
use crate::tar::Tar;

pub const TESTS: &[Test] = &[("an_image_is_pulled_from_another_program", from_it)];

/// It ends with this.
struct Distribution {
    child: Child,
    address: String,
}

impl Drop for Distribution {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Distribution {
    fn start(dir: &Path) -> Self {
        let config = dir.join("registry.yml");
        let text = format!(
            "version: 0.1\nlog: {{level: info}}\nhttp: {{addr: '127.0.0.1:0', secret: none}}\n\
             storage: {{filesystem: {{rootdirectory: '{}'}}}}\n",
            dir.join("storage").display()
        );
        std::fs::write(&config, text).unwrap();
        let mut child = Command::new("docker-registry")
            .arg("serve")
            .arg(config)
            .env_clear()
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("docker-registry, a package of the distribution");
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let address = lines
            .by_ref()
            .map(Result::unwrap)
            .find_map(|line| {
                let (_, rest) = line.split_once("listening on ")?;
                let end = rest.find(['"', ',', ' ']).unwrap_or(rest.len());
                Some(rest[..end].to_owned())
            })
            .expect("it says where it listens");
        // What it says later has nobody who reads it, and must not stop it.
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, address }
    }

    fn send(&self, method: &str, path: &str, kind: &str, body: &[u8]) -> String {
        let mut curl = Command::new("curl")
            .args(["-sS", "--fail-with-body", "-i", "--noproxy", "*", "-X", method, "-H"])
            .arg(format!("content-type: {kind}"))
            .args(["--data-binary", "@-"])
            .arg(if path.starts_with("http:") {
                path.to_owned()
            } else {
                format!("http://{}{path}", self.address)
            })
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        curl.stdin.take().unwrap().write_all(body).unwrap();
        let output = curl.wait_with_output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{method} {path}: {text}");
        text
    }

    fn push_blob(&self, bytes: &[u8]) {
        let begun = self.send("POST", "/v2/team/app/blobs/uploads/", "text/plain", b"");
        let at = begun
            .lines()
            .find_map(|line| {
                let (name, value) = line.split_once(": ")?;
                name.eq_ignore_ascii_case("location").then(|| value.trim().to_owned())
            })
            .expect("where to send it");
        let at = format!("{at}&digest={}", digest(bytes));
        self.send("PUT", &at, "application/octet-stream", bytes);
    }

    /// Pushes an image of a layout. Gives its digest.
    fn push(&self, layout: &Layout, manifest: &Value, tag: &str) -> String {
        let bytes =
            |digest: &Value| std::fs::read(layout.path_of(digest.as_str().unwrap())).unwrap();
        let text = bytes(&manifest["digest"]);
        let document: Value = serde_json::from_slice(&text).unwrap();
        self.push_blob(&bytes(&document["config"]["digest"]));
        for layer in document["layers"].as_array().unwrap() {
            self.push_blob(&bytes(&layer["digest"]));
        }
        let kind = manifest["mediaType"].as_str().unwrap();
        self.send("PUT", &format!("/v2/team/app/manifests/{tag}"), kind, &text);
        manifest["digest"].as_str().unwrap().to_owned()
    }
}

fn from_it() {
    let place = Place::new();
    let layout = Layout::new(place.dir.join("made"));
    let layers = [
        (Tar::default().file("first", "1").done(), GZIP),
        (Tar::default().file("second", &"2".repeat(3 << 20)).done(), PLAIN),
    ];
    let ids: Vec<String> = layers.iter().map(|(layer, _)| digest(layer)).collect();
    let image = layout.image(&layers);
    let registry = Distribution::start(&place.dir);
    let sum = registry.push(&layout, &image, "1.0");
    let get = |what: &str| {
        let reference = Reference::parse(&format!("{}/team/app{what}", registry.address)).unwrap();
        let mut request = Request::new("pulled");
        request.replace = true;
        pull(&place.library, &request, &reference, &Access::default(), &())
    };
    for what in [":1.0".to_owned(), format!("@{sum}")] {
        let template = get(&what).unwrap();
        let have: Vec<String> = template.layers.iter().map(ToString::to_string).collect();
        assert_eq!(have, ids);
        let second = std::fs::metadata(place.in_layer(&template, 1, "second")).unwrap();
        assert_eq!(second.len(), 3 << 20);
        assert!(template.source.ends_with(&sum), "{}", template.source);
    }
    let error = get(":2.0").unwrap_err();
    assert!(error.message.contains("2.0"), "{error}");
}
