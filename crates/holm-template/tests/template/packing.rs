//! How layers are packed, and what is wrong with them.

use std::fs;

use holm_template::TemplateErrorKind::{self, Damaged, NotAnImage, Refused, Unsupported};
use serde_json::{Value, json};

use crate::harness::Test;
use crate::image::{GZIP, Layout, PLAIN, ZSTD, layout};
use crate::place::Place;
use crate::tar::{Tar, gzip, zstd};

pub const TESTS: &[Test] = &[
    ("case_96_all_packings_give_the_same_layer", all_packings),
    ("case_96_what_is_not_handled_is_named_when_the_manifest_is_read", not_handled),
    ("case_96_damage_is_found_and_nothing_is_left", damage),
    ("several_streams_are_one", several_streams),
    ("the_image_for_this_machine_is_chosen", chosen),
];

fn some() -> Vec<u8> {
    let text: String = (0..20_000).map(|n| format!("line {n}\n")).collect();
    Tar::default().dir("d/").file("d/text", &text).done()
}

fn all_packings() {
    let place = Place::new();
    let other = |n: u32| Tar::default().file(&format!("f{n}"), "x").done();
    let mut layers = Vec::new();
    for (name, kind) in [("gzip", GZIP), ("zstd", ZSTD), ("plain", PLAIN)] {
        let layout = layout(place.dir.join(name), &[(some(), kind)]);
        let template = place.import(name, &layout.dir).unwrap();
        let text = fs::read_to_string(place.in_layer(&template, 0, "d/text")).unwrap();
        assert!(text.ends_with("line 19999\n"));
        layers.push(template.layers);
    }
    let all = [(some(), GZIP), (other(1), ZSTD), (other(2), PLAIN), (some(), ZSTD)];
    let layout = layout(place.dir.join("mixed"), &all);
    let mixed = place.import("mixed", &layout.dir).unwrap();
    assert_eq!(mixed.layers.len(), 4);
    assert_eq!(mixed.layers[0], mixed.layers[3], "a layer may be there twice");
    layers.iter().for_each(|one| assert_eq!(one[..], mixed.layers[..1]));
    assert_eq!(place.names("layers").len(), 3, "what is the same is there once");
    assert_eq!(mixed.bytes, 2 + some_bytes());
}

fn some_bytes() -> u64 {
    (0..20_000).map(|n| format!("line {n}\n").len() as u64).sum()
}

fn check(change: impl Fn(&Layout) -> Value, kind: TemplateErrorKind, parts: &[&str]) {
    let place = Place::new();
    let layout = Layout::new(place.dir.join("layout"));
    let image = change(&layout);
    layout.index(&[image]);
    let error = place.import("bad", &layout.dir).unwrap_err();
    assert_eq!(error.kind, kind, "{error}");
    for part in parts {
        assert!(error.message.contains(part), "{error}: {part}");
    }
    assert!(!error.message.contains(place.dir.to_str().unwrap()), "{error}");
    place.assert_empty(&error.message);
}

/// An image whose manifest is changed.
fn changed(layout: &Layout, change: impl Fn(&mut Value)) -> Value {
    let image = layout.image(&[(some(), GZIP)]);
    let path = layout.path_of(image["digest"].as_str().unwrap());
    let mut manifest: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    change(&mut manifest);
    layout.blob(manifest.to_string().as_bytes(), "application/vnd.oci.image.manifest.v1+json")
}

fn not_handled() {
    let layer = "application/vnd.oci.image.layer.v1.tar+lz4";
    check(
        |layout| changed(layout, |manifest| manifest["layers"][0]["mediaType"] = json!(layer)),
        Unsupported,
        &["layer 1", layer, "gzip"],
    );
    check(
        |layout| {
            changed(layout, |manifest| {
                manifest["config"]["mediaType"] = json!("application/vnd.cncf.helm.config.v1+json");
            })
        },
        Unsupported,
        &["application/vnd.cncf.helm.config.v1+json"],
    );
    check(
        |layout| {
            changed(layout, |manifest| manifest["mediaType"] = json!("application/x-\u{1b}[2J"))
        },
        Unsupported,
        &["application/x-\u{fffd}[2J"],
    );
    check(
        |layout| changed(layout, |manifest| manifest["schemaVersion"] = json!(1)),
        Unsupported,
        &["schema version 1"],
    );
    check(
        |layout| changed(layout, |manifest| manifest["manifests"] = json!([])),
        Refused,
        &["neither a manifest nor an index"],
    );
    check(
        |layout| changed(layout, |manifest| manifest["layers"][0]["digest"] = json!("sha512:00")),
        Unsupported,
        &["sha512:00"],
    );
    check(
        |layout| {
            changed(layout, |manifest| {
                manifest["layers"][0]["digest"] = json!("sha256:../../../etc/passwd");
            })
        },
        Unsupported,
        &["is not a SHA-256 digest"],
    );
    check(
        |layout| changed(layout, |manifest| manifest["layers"] = json!([])),
        Unsupported,
        &["0 layers"],
    );
}

fn damage() {
    let first_layer = |layout: &Layout, image: &Value| {
        let path = layout.path_of(image["digest"].as_str().unwrap());
        let manifest: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
        layout.path_of(manifest["layers"][0]["digest"].as_str().unwrap())
    };
    for kind in [GZIP, ZSTD, PLAIN] {
        // One bit.
        check(
            |layout| {
                let image = layout.image(&[(some(), kind)]);
                let path = first_layer(layout, &image);
                let mut bytes = fs::read(&path).unwrap();
                let middle = bytes.len() / 2;
                bytes[middle] ^= 1;
                fs::write(path, bytes).unwrap();
                image
            },
            Damaged,
            &["has other bytes than its digest says"],
        );
        // Its end, in the file alone.
        check(
            |layout| {
                let image = layout.image(&[(some(), kind)]);
                let path = first_layer(layout, &image);
                let bytes = fs::read(&path).unwrap();
                fs::write(path, &bytes[..bytes.len() / 2]).unwrap();
                image
            },
            Damaged,
            &["has another length than its digest says"],
        );
        // Its end, before it got its digest.
        check(
            |layout| {
                let packed = match kind {
                    GZIP => gzip(&some()),
                    ZSTD => zstd(&some()),
                    _ => some(),
                };
                let layer = layout.blob(&packed[..packed.len() / 2], kind);
                changed(layout, |manifest| manifest["layers"][0] = layer.clone())
            },
            Damaged,
            &["layer"],
        );
        // Another layer's bytes under a right digest.
        check(
            |layout| {
                let other = Tar::default().file("other", "x").done();
                let packed = match kind {
                    GZIP => gzip(&other),
                    ZSTD => zstd(&other),
                    _ => other,
                };
                let layer = layout.blob(&packed, kind);
                changed(layout, |manifest| manifest["layers"][0] = layer.clone())
            },
            Damaged,
            &["not what the image's config says"],
        );
        // Packed in another way than said.
        check(
            |layout| {
                let layer =
                    layout.blob(b"not an archive of any kind, and longer than a block", kind);
                changed(layout, |manifest| manifest["layers"][0] = layer.clone())
            },
            Damaged,
            &["layer"],
        );
    }
    check(
        |layout| {
            let image = layout.image(&[(some(), GZIP)]);
            fs::remove_file(first_layer(layout, &image)).unwrap();
            image
        },
        Damaged,
        &["cannot be read"],
    );
    check(
        |layout| {
            let image = layout.image(&[(some(), GZIP)]);
            let path = layout.path_of(image["digest"].as_str().unwrap());
            let text = fs::read_to_string(&path).unwrap().replace("\"layers\"", "\"Layers\"");
            fs::write(path, text).unwrap();
            image
        },
        Damaged,
        &["the image's manifest is not what its digest"],
    );
    let place = Place::new();
    fs::write(place.dir.join("text"), "hello").unwrap();
    let error = place.import("bad", &place.dir.join("text")).unwrap_err();
    assert_eq!(error.kind, NotAnImage);
    assert_eq!(place.import("bad", &place.dir.join("gone")).unwrap_err().kind, NotAnImage);
    place.assert_empty("no image");
}

fn several_streams() {
    let place = Place::new();
    let all = some();
    let (one, two) = all.split_at(5000);
    let note = [&0x184d_2a53_u32.to_le_bytes()[..], &3_u32.to_le_bytes(), b"abc"].concat();
    for (name, packed) in [
        ("gzip", [gzip(one), gzip(two)].concat()),
        ("zstd", [note.clone(), zstd(one), note.clone(), zstd(two), note].concat()),
    ] {
        let path = place.dir.join(name);
        fs::write(&path, packed).unwrap();
        let template = place.import(name, &path).unwrap();
        assert_eq!(template.layers[0].to_string(), crate::image::digest(&all), "{name}");
    }
}

fn chosen() {
    let place = Place::new();
    let layout = Layout::new(place.dir.join("layout"));
    let mut images = Vec::new();
    for (name, os, architecture) in [
        ("arm", "linux", "arm64"),
        ("ours", "linux", "amd64"),
        ("windows", "windows", "amd64"),
        ("note", "unknown", "unknown"),
    ] {
        let mut image = layout.image(&[(Tar::default().file(name, "x").done(), GZIP)]);
        image["platform"] = json!({"os": os, "architecture": architecture});
        images.push(image);
    }
    // An index in an index, as registries have it.
    let index = json!({"schemaVersion": 2, "manifests": images});
    let kind = "application/vnd.oci.image.index.v1+json";
    let inner = layout.blob(index.to_string().as_bytes(), kind);
    layout.index(&[inner]);
    let template = place.import("chosen", &layout.dir).unwrap();
    assert!(place.in_layer(&template, 0, "ours").exists());
    layout.index(&[images[0].clone(), images[2].clone()]);
    let error = place.import("none", &layout.dir).unwrap_err();
    assert_eq!(error.kind, Unsupported);
    assert!(error.message.contains("linux/arm64, windows/amd64"), "{error}");
    // Several with names.
    let mut named = Vec::new();
    for name in ["x:1", "x:2"] {
        let mut image = layout.image(&[(Tar::default().file(name, "x").done(), GZIP)]);
        image["annotations"] = json!({"org.opencontainers.image.ref.name": name});
        named.push(image);
    }
    layout.index(&named);
    let error = place.import("none", &layout.dir).unwrap_err();
    assert!(error.message.contains("--ref: x:1, x:2"), "{error}");
    let mut request = holm_template::import::Request::new("two");
    request.reference = Some("x:2".into());
    let two = holm_template::import::import(&place.library, &request, &layout.dir, &()).unwrap();
    assert!(place.in_layer(&two, 0, "x:2").exists());
    assert_eq!(two.source, "oci-layout x:2");
}
