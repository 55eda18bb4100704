//! The authority: made once, kept safe, limited.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore};

use super::file::NAME;
use super::{Ca, Leaves};
use crate::policy::HostName;

/// A directory that goes when this does.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("holm-gate-ca-{name}-{}", std::process::id()));
        std::fs::create_dir(&path).expect("a directory");
        Self(path)
    }

    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.0).expect("a directory");
        let name = |entry: std::io::Result<std::fs::DirEntry>| {
            entry.expect("an entry").file_name().to_string_lossy().into_owned()
        };
        entries.map(name).collect()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _gone = std::fs::remove_dir_all(&self.0);
    }
}

fn host(text: &str) -> HostName {
    text.parse().expect("a name")
}

#[test]
fn an_authority_is_made_once() {
    let directory = Directory::new("once");
    let make = || Ca::load_or_create(&directory.0).expect("an authority");
    let made: Vec<String> = std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..8).map(|_| scope.spawn(|| make().certificate_pem().to_owned())).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    let again = make();
    assert!(made.iter().all(|pem| pem == again.certificate_pem()), "{made:?}");
    assert!(again.certificate_pem().starts_with("-----BEGIN CERTIFICATE-----\n"));
    assert!(!again.certificate_pem().contains("PRIVATE"));
    assert_eq!(directory.names(), [NAME], "no drafts are left");
    let mode = std::fs::metadata(directory.0.join(NAME)).expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(format!("{again:?}"), "Ca");
}

#[test]
fn a_file_that_is_not_safe_or_not_one_is_refused() {
    let directory = Directory::new("unsafe");
    let path = directory.0.join(NAME);
    let refused = |part: &str| {
        let error = Ca::load_or_create(&directory.0).expect_err("refused").to_string();
        assert!(error.contains(part) && error.contains(NAME), "{error}");
        assert!(!error.contains("PRIVATE"), "{error}");
    };
    let good = {
        Ca::load_or_create(&directory.0).expect("an authority");
        std::fs::read_to_string(&path).expect("a text")
    };
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).expect("set");
    refused("mode 640");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).expect("set");
    std::fs::write(&path, "").expect("written");
    refused("remove it");
    std::fs::write(&path, &good[..good.len() / 2]).expect("written");
    refused("remove it");
    // A key and the certificate of another one.
    let other = Directory::new("other");
    Ca::load_or_create(&other.0).expect("an authority");
    let foreign = std::fs::read_to_string(other.0.join(NAME)).expect("a text");
    let (key, _) = good.split_once("-----BEGIN CERTIFICATE").expect("two parts");
    let (_, certificate) = foreign.split_once("-----BEGIN CERTIFICATE").expect("two parts");
    std::fs::write(&path, format!("{key}-----BEGIN CERTIFICATE{certificate}")).expect("written");
    refused("remove it");
    std::fs::write(&path, &good).expect("written");
    assert!(Ca::load_or_create(&directory.0).is_ok());
    std::fs::rename(&path, directory.0.join("elsewhere")).expect("renamed");
    symlink("elsewhere", &path).expect("a link");
    assert!(Ca::load_or_create(&directory.0).is_err());
}

fn store(ca: &Ca) -> RootCertStore {
    let mut store = RootCertStore::empty();
    let der = CertificateDer::from_pem_slice(ca.certificate_pem().as_bytes()).expect("one");
    store.add(der).expect("an authority");
    store
}

/// Whether a client that trusts the authority takes its certificate for `issued` when it asks for
/// `asked`.
fn accepted(ca: &Ca, issued: &str, asked: &str) -> bool {
    let (certificate, _) = ca.issue(&host(issued)).expect("a certificate");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier =
        rustls::client::WebPkiServerVerifier::builder_with_provider(store(ca).into(), provider)
            .build()
            .expect("a verifier");
    let name = ServerName::try_from(asked.to_owned()).expect("a name");
    let verifier: &dyn rustls::client::danger::ServerCertVerifier = &*verifier;
    verifier.verify_server_cert(&certificate, &[], &name, &[], UnixTime::now()).is_ok()
}

#[test]
fn certificates_are_for_their_host_only() {
    let directory = Directory::new("hosts");
    let ca = Ca::load_or_create(&directory.0).expect("an authority");
    // Loaded again it signs as it did before.
    let again = Ca::load_or_create(&directory.0).expect("an authority");
    for ca in [&ca, &again] {
        assert!(accepted(ca, "api.example", "api.example"));
        assert!(!accepted(ca, "api.example", "other.example"));
        assert!(!accepted(ca, "api.example", "x.api.example"));
        let long =
            format!("{}.example", ["a".repeat(60), "b".repeat(60), "c".repeat(60)].join("."));
        assert!(accepted(ca, &long, &long));
    }
    // They are for servers.
    let (certificate, _) = ca.issue(&host("api.example")).expect("a certificate");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let clients = WebPkiClientVerifier::builder_with_provider(store(&ca).into(), provider);
    let clients = clients.build().expect("a verifier");
    assert!(clients.verify_client_cert(&certificate, &[], UnixTime::now()).is_err());
}

#[test]
fn certificates_of_hosts_are_kept_within_a_bound() {
    let directory = Directory::new("leaves");
    let ca = Arc::new(Ca::load_or_create(&directory.0).expect("an authority"));
    let leaves = Leaves::new(ca);
    let one = leaves.of(&host("one.example")).expect("one");
    assert!(Arc::ptr_eq(&one, &leaves.of(&host("one.example")).expect("one")));
    for number in 0..300 {
        leaves.of(&host(&format!("h{number}.example"))).expect("one");
        assert!(leaves.count() <= 256);
    }
    assert!(!Arc::ptr_eq(&one, &leaves.of(&host("one.example")).expect("one")));
}

#[test]
fn whom_to_trust_is_said_where_nobody_is() {
    for path in ["/nonexistent/ca.pem", "/dev/null"] {
        let trusted: Result<Arc<ClientConfig>, _> = super::trust(Some(path.as_ref()));
        let error = trusted.expect_err("refused").to_string();
        assert!(error.contains(path), "{error}");
    }
}
