//! Images from registries.

use std::path::Path;

use holm_template::import::Request;
use holm_template::registry::{Access, Login, Reference, pull};
use holm_template::{Template, TemplateError, TemplateErrorKind};
use serde_json::json;

use crate::harness::Test;
use crate::image::{GZIP, Layout, PLAIN, ZSTD};
use crate::place::Place;
use crate::registry::{Manner, Registry};
use crate::tar::Tar;

pub const TESTS: &[Test] = &[
    ("an_image_is_pulled_with_a_token", with_a_token),
    ("a_download_goes_on_where_it_broke_off", broken_off),
    ("what_a_registry_sends_is_checked", checked),
    ("no_credential_follows_a_redirect_and_none_leads_here", redirects),
    ("mirrors_are_asked_first", mirrors),
];

/// An image of three layers, `1`, and an index of platforms, `all`.
fn image(dir: &Path) -> (Layout, Vec<String>) {
    let layout = Layout::new(dir.join("served"));
    let text: String = (0..20_000_u64).map(|n| format!("{}\n", n * n * 7919)).collect();
    let layers = [
        (Tar::default().file("first", &text).done(), GZIP),
        (Tar::default().file("second", "2").done(), ZSTD),
        (Tar::default().file("third", &text).done(), PLAIN),
    ];
    let ids = layers.iter().map(|(layer, _)| crate::image::digest(layer)).collect();
    let name = |mut one: serde_json::Value, name: &str| {
        one["annotations"] = json!({"org.opencontainers.image.ref.name": name});
        one
    };
    let mut ours = layout.image(&layers);
    let mut other = layout.image(&[(Tar::default().file("other", "x").done(), GZIP)]);
    let one = name(ours.clone(), "1");
    ours["platform"] = json!({"os": "linux", "architecture": "amd64"});
    other["platform"] = json!({"os": "linux", "architecture": "arm64"});
    let index = json!({
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [other, ours],
    });
    let kind = "application/vnd.oci.image.index.v1+json";
    let all = layout.blob(index.to_string().as_bytes(), kind);
    layout.index(&[one, name(all, "all")]);
    (layout, ids)
}

fn get(place: &Place, host: &str, what: &str, access: &Access) -> Result<Template, TemplateError> {
    let reference = Reference::parse(&format!("{host}/team/app{what}"))?;
    let mut request = Request::new("pulled");
    request.replace = true;
    pull(&place.library, &request, &reference, access, &())
}

fn with_a_token() {
    let place = Place::new();
    let (layout, ids) = image(&place.dir);
    // user:secret
    let login = Some("Basic dXNlcjpzZWNyZXQ=");
    let manner = Manner { layout: layout.dir, tokens: true, login, ..Manner::default() };
    let registry = Registry::start(manner);
    let host = registry.address.to_string();
    let error = get(&place, &host, ":1", &Access::default()).unwrap_err();
    assert_eq!(error.kind, TemplateErrorKind::Registry);
    assert!(error.message.contains("--password-file"), "{error}");
    place.assert_empty("no login");
    let login = Some(Login { user: "user".into(), password: "secret".into() });
    assert!(!format!("{login:?}").contains("secret"));
    let access = Access { login, ..Access::default() };
    let template = get(&place, &host, ":1", &access).unwrap();
    let have: Vec<String> = template.layers.iter().map(ToString::to_string).collect();
    assert_eq!(have, ids);
    assert!(
        template.source.starts_with(&format!("{host}/team/app:1@sha256:")),
        "{}",
        template.source
    );
    // Through an index, and by digest: the same layers, which are not fetched again.
    let before = registry.seen().len();
    assert_eq!(get(&place, &host, ":all", &access).unwrap().layers, template.layers);
    let digest = template.source.split_once('@').unwrap().1;
    assert_eq!(get(&place, &host, &format!("@{digest}"), &access).unwrap().layers, template.layers);
    let blobs = registry.seen()[before..].iter().filter(|seen| seen.contains("/blobs/")).count();
    assert_eq!(blobs, 2, "the config of each");
    let error = get(&place, &host, ":none", &access).unwrap_err();
    assert!(error.message.contains("has no manifests/none"), "{error}");
}

fn broken_off() {
    for whole in [false, true] {
        let place = Place::new();
        let (layout, ids) = image(&place.dir);
        // With whole blobs only, a try must bring more than the one before.
        let broken = if whole { None } else { Some(30_000) };
        let manner = Manner { layout: layout.dir, broken, whole, ..Manner::default() };
        let registry = Registry::start(manner);
        let template =
            get(&place, &registry.address.to_string(), ":1", &Access::default()).unwrap();
        let have: Vec<String> = template.layers.iter().map(ToString::to_string).collect();
        assert_eq!(have, ids);
        let parts = registry.seen().iter().filter(|seen| seen.contains(" from ")).count();
        assert_eq!(parts > 5, !whole, "{parts}");
    }
    // One that always breaks off at the same place is given up.
    let place = Place::new();
    let (layout, _) = image(&place.dir);
    let manner =
        Manner { layout: layout.dir, broken: Some(30_000), whole: true, ..Manner::default() };
    let registry = Registry::start(manner);
    let error = get(&place, &registry.address.to_string(), ":1", &Access::default()).unwrap_err();
    assert_eq!(error.kind, TemplateErrorKind::Registry, "{error}");
    place.assert_empty("given up");
}

fn checked() {
    let place = Place::new();
    let (layout, _) = image(&place.dir);
    let index: serde_json::Value =
        serde_json::from_slice(&std::fs::read(layout.dir.join("index.json")).unwrap()).unwrap();
    let manifest = index["manifests"][0]["digest"].as_str().unwrap().to_owned();
    let text = std::fs::read(layout.path_of(&manifest)).unwrap();
    let document: serde_json::Value = serde_json::from_slice(&text).unwrap();
    let config = document["config"]["digest"].as_str().unwrap();
    let layers = document["layers"].as_array().unwrap();
    for (wrong, part) in [
        (config, "the image's config is not what its digest"),
        (layers[0]["digest"].as_str().unwrap(), "layer 1 of 3: the layer has other bytes"),
        (layers[2]["digest"].as_str().unwrap(), "layer 3 of 3: the layer has other bytes"),
    ] {
        let manner = Manner {
            layout: layout.dir.clone(),
            wrong: Some(wrong.to_owned()),
            ..Manner::default()
        };
        let registry = Registry::start(manner);
        let error =
            get(&place, &registry.address.to_string(), ":1", &Access::default()).unwrap_err();
        assert_eq!(error.kind, TemplateErrorKind::Damaged, "{error}");
        assert!(error.message.contains(part), "{error}");
        place.assert_empty(part);
    }
    // A manifest that is not what its digest says.
    let mut changed = text.clone();
    changed.push(b' ');
    std::fs::write(layout.path_of(&manifest), changed).unwrap();
    let registry = Registry::start(Manner { layout: layout.dir.clone(), ..Manner::default() });
    let host = registry.address.to_string();
    let error = get(&place, &host, &format!("@{manifest}"), &Access::default()).unwrap_err();
    assert!(error.message.contains("the image's manifest is not what its digest"), "{error}");
    place.assert_empty("manifest");
}

fn redirects() {
    let place = Place::new();
    let (layout, ids) = image(&place.dir);
    let cdn = Registry::start(Manner { layout: layout.dir.clone(), ..Manner::default() });
    let redirect = Some(format!("http://{}", cdn.address));
    let manner = Manner { layout: layout.dir.clone(), tokens: true, redirect, ..Manner::default() };
    let registry = Registry::start(manner);
    let template = get(&place, &registry.address.to_string(), ":1", &Access::default()).unwrap();
    assert_eq!(template.layers.len(), ids.len());
    let seen = cdn.seen();
    assert_eq!(seen.len(), 4, "{seen:?}");
    assert!(seen.iter().all(|seen| !seen.contains("Bearer")), "{seen:?}");
    // Addresses that may not be reached are not, whoever names them.
    let reach = holm_client::connect::Reach::Public(Vec::new());
    let access = Access { reach, ..Access::default() };
    let other = Place::new();
    let error = get(&other, &registry.address.to_string(), ":1", &access).unwrap_err();
    assert_eq!(error.kind, TemplateErrorKind::Registry);
    other.assert_empty("refused");
    // To and fro without end.
    let own = Registry::start(Manner {
        layout: layout.dir,
        redirect: Some("ftp://example.com".into()),
        ..Manner::default()
    });
    let error = get(&other, &own.address.to_string(), ":1", &Access::default()).unwrap_err();
    assert!(error.message.contains("redirects to what is not an address"), "{error}");
}

fn mirrors() {
    let place = Place::new();
    let (layout, ids) = image(&place.dir);
    let mirror = Registry::start(Manner { layout: layout.dir.clone(), ..Manner::default() });
    let empty = Registry::start(Manner { layout: place.dir.join("empty"), ..Manner::default() });
    let own = Registry::start(Manner { layout: layout.dir, ..Manner::default() });
    let mirrors = vec![empty.address.to_string(), mirror.address.to_string()];
    let mut access = Access { mirrors, ..Access::default() };
    let template = get(&place, &own.address.to_string(), ":1", &access).unwrap();
    assert_eq!(template.layers.len(), ids.len());
    assert!(template.source.starts_with(&own.address.to_string()));
    assert_eq!(own.seen(), Vec::<String>::new());
    // The password is for the registry, whatever a mirror asks for.
    let asking = Registry::start(Manner {
        layout: place.dir.join("empty"),
        tokens: true,
        login: Some("Basic dXNlcjpzZWNyZXQ="),
        ..Manner::default()
    });
    let login = Some(Login { user: "user".into(), password: "secret".into() });
    let mirrors = vec![asking.address.to_string(), mirror.address.to_string()];
    let with_login = Access { login, mirrors, ..Access::default() };
    assert!(place.library.remove("pulled").unwrap());
    get(&place, &own.address.to_string(), ":1", &with_login).unwrap();
    let seen = asking.seen();
    assert!(!seen.is_empty() && seen.iter().all(|seen| !seen.contains("Basic")), "{seen:?}");
    access.mirrors.pop();
    assert!(place.library.remove("pulled").unwrap());
    get(&place, &own.address.to_string(), ":1", &access).unwrap();
    assert!(!own.seen().is_empty(), "where no mirror has it, the registry is asked");
}
