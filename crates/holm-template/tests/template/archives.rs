//! The other forms in which images and root file systems come.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt, symlink};

use holm_template::TemplateErrorKind;
use serde_json::json;

use crate::harness::Test;
use crate::image::{GZIP, Layout, ZSTD, digest, layout};
use crate::place::{Place, on_disk};
use crate::tar::{Tar, gzip, zstd};

pub const TESTS: &[Test] = &[
    ("an_archive_of_a_layout_is_an_image", archive_of_a_layout),
    ("what_docker_saved_is_an_image", docker_archive),
    ("an_archive_of_a_root_file_system_is_a_layer", rootfs_archive),
    ("a_directory_is_a_layer", directory),
    ("a_config_says_how_programs_start", config),
];

fn files(n: u32) -> Vec<u8> {
    Tar::default().dir("bin/").file(&format!("bin/tool{n}"), &format!("#!{n}")).done()
}

fn archive_of_a_layout() {
    let place = Place::new();
    let layout = layout(place.dir.join("layout"), &[(files(1), GZIP), (files(2), ZSTD)]);
    let archive = place.dir.join("image.tar");
    layout.archive(&archive);
    let template = place.import("archive", &archive).unwrap();
    assert_eq!(template.source, "oci-archive");
    assert_eq!(fs::read_to_string(place.in_layer(&template, 1, "bin/tool2")).unwrap(), "#!2");
    // Cut off anywhere, it is no image.
    let bytes = fs::read(&archive).unwrap();
    let other = Place::new();
    for part in [3, 5, 9] {
        fs::write(&archive, &bytes[..bytes.len() * part / 10]).unwrap();
        other.import("cut", &archive).unwrap_err();
        other.assert_empty("cut off");
    }
    // Compressed it would be taken for a root file system.
    fs::write(&archive, gzip(&bytes)).unwrap();
    let error = other.import("packed", &archive).unwrap_err();
    assert_eq!(error.kind, TemplateErrorKind::NotAnImage);
    assert!(error.message.contains("decompress it first"), "{error}");
    other.assert_empty("compressed image");
}

fn docker_archive() {
    let place = Place::new();
    let layers = [files(1), files(2), files(1)];
    let ids: Vec<String> = layers.iter().map(|layer| digest(layer)).collect();
    let config = json!({
        "architecture": "amd64", "os": "linux", "config": {"Cmd": ["/bin/tool1"], "Env": null},
        "rootfs": {"type": "layers", "diff_ids": ids},
    });
    let manifest = json!([{
        "Config": "abc.json", "RepoTags": ["tool:latest"],
        "Layers": ["one/layer.tar", "two/layer.tar", "three/layer.tar"],
    }]);
    let tar = Tar::default()
        .dir("one/")
        .file("one/layer.tar", std::str::from_utf8(&layers[0]).unwrap())
        .dir("two/")
        // As some programs pack them, without saying so.
        .head(
            crate::tar::Head::new(b"two/layer.tar", b'0').size(gzip(&layers[1]).len() as u64),
            &gzip(&layers[1]),
        )
        .symlink("three/layer.tar", "../one/layer.tar")
        .file("abc.json", &config.to_string())
        .file("manifest.json", &manifest.to_string())
        .file("repositories", "{}");
    let path = place.dir.join("saved.tar");
    fs::write(&path, tar.clone().done()).unwrap();
    let template = place.import("saved", &path).unwrap();
    assert_eq!(template.source, "docker-archive tool:latest");
    assert_eq!(template.config.cmd, ["/bin/tool1"]);
    let have: Vec<String> = template.layers.iter().map(ToString::to_string).collect();
    assert_eq!(have, ids);
    // A layer that is not what the config says.
    let wrong = tar.file("one/layer.tar", std::str::from_utf8(&files(7)).unwrap()).done();
    fs::write(&path, wrong).unwrap();
    let other = Place::new();
    let error = other.import("saved", &path).unwrap_err();
    assert_eq!(error.kind, TemplateErrorKind::Damaged);
    assert!(error.message.starts_with("layer 1 of 3: "), "{error}");
    other.assert_empty("wrong layer");
}

fn rootfs_archive() {
    let place = Place::new();
    let all = files(3);
    for (name, bytes) in [("plain", all.clone()), ("gzip", gzip(&all)), ("zstd", zstd(&all))] {
        let path = place.dir.join(name);
        fs::write(&path, bytes).unwrap();
        let template = place.import(name, &path).unwrap();
        assert_eq!(template.layers.len(), 1);
        assert_eq!(template.layers[0].to_string(), digest(&all), "{name}");
        assert_eq!(template.source, "rootfs archive");
    }
    assert_eq!(place.names("layers").len(), 1);
    // It may have files of these names, and be none of these.
    let path = place.dir.join("odd");
    let odd = Tar::default().file("index.json", "{}").file("manifest.json", "[]").dir("bin/");
    fs::write(&path, odd.done()).unwrap();
    place.import("odd", &path).unwrap();
}

fn directory() {
    let place = Place::new();
    let root = place.dir.join("root");
    fs::create_dir_all(root.join("usr/bin")).unwrap();
    fs::write(root.join("usr/bin/tool"), "#!").unwrap();
    fs::hard_link(root.join("usr/bin/tool"), root.join("usr/bin/same")).unwrap();
    fs::set_permissions(root.join("usr/bin/tool"), PermissionsExt::from_mode(0o4755)).unwrap();
    symlink("usr/bin", root.join("bin")).unwrap();
    fs::write(root.join("n".repeat(255)), vec![7_u8; 300_000]).unwrap();
    let sparse = fs::File::create(root.join("sparse")).unwrap();
    sparse.set_len(8 << 20).unwrap();
    rustix::fs::setxattr(root.join("usr"), "user.note", b"x", rustix::fs::XattrFlags::empty())
        .unwrap();
    std::os::unix::net::UnixListener::bind(root.join("socket")).unwrap();
    let template = place.import("dir", &root).unwrap();
    let at = |path: &str| place.in_layer(&template, 0, path);
    let tool = fs::metadata(at("usr/bin/tool")).unwrap();
    assert_eq!(tool.ino(), fs::metadata(at("usr/bin/same")).unwrap().ino());
    assert_eq!(tool.permissions().mode() & 0o7777, 0o4755);
    if let Some(owner) = on_disk(0) {
        // The user's own files are root's.
        assert_eq!(tool.uid(), owner);
    }
    assert_eq!(fs::read_link(at("bin")).unwrap().to_str(), Some("usr/bin"));
    assert_eq!(fs::read(at(&"n".repeat(255))).unwrap(), vec![7_u8; 300_000]);
    let sparse = fs::metadata(at("sparse")).unwrap();
    assert!(sparse.len() == 8 << 20 && sparse.blocks() < 1024, "{}", sparse.blocks());
    assert!(!at("socket").exists());
    // The same directory is the same layer.
    assert_eq!(place.import("again", &root).unwrap().layers, template.layers);
    // What cannot be read breaks it off, by its name.
    if on_disk(0) != Some(0) {
        fs::set_permissions(root.join("usr/bin"), PermissionsExt::from_mode(0o000)).unwrap();
        let error = place.import("unread", &root).unwrap_err();
        assert!(error.message.contains("root/usr/bin` cannot be read"), "{error}");
        fs::set_permissions(root.join("usr/bin"), PermissionsExt::from_mode(0o755)).unwrap();
    }
}

fn config() {
    let place = Place::new();
    let layout = Layout::new(place.dir.join("layout"));
    let process = json!({
        "Env": ["PATH=/bin:/usr/bin", "A=b=c", "EMPTY=", "nothing", "=x"],
        "User": "1000:1000", "WorkingDir": "/srv", "Entrypoint": ["/bin/sh", "-c"], "Cmd": ["date"],
        "Labels": {"maintainer": "x"}, "ExposedPorts": {"80/tcp": {}},
    });
    let image = layout.image_with(&[(files(1), GZIP)], &process);
    layout.index(&[image]);
    let template = place.import("config", &layout.dir).unwrap();
    let config = &template.config;
    let env: Vec<_> = config.env.iter().map(|(name, value)| format!("{name}={value}")).collect();
    assert_eq!(env, ["A=b=c", "EMPTY=", "PATH=/bin:/usr/bin"]);
    assert_eq!(config.user.as_deref(), Some("1000:1000"));
    assert_eq!(config.workdir.as_deref(), Some("/srv"));
    assert_eq!(
        (&config.entrypoint[..], &config.cmd[..]),
        (&["/bin/sh".into(), "-c".into()][..], &["date".into()][..])
    );
    assert_eq!(config.labels["maintainer"], "x");
    assert_eq!(place.library.get("config").unwrap(), Some(template.clone()));
    assert_eq!(place.library.list().unwrap(), [template]);
}
