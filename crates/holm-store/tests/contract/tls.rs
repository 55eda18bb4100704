//! The way to PostgreSQL, encrypted.

use std::net::TcpListener;

use holm_store::{PostgresSettings, PostgresStore, Store as _};

use crate::support::{Cluster, Directory, Kind, kind};

/// A port that was free a moment ago.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[test]
fn servers_are_verified() {
    let port = free_port();
    let Some(cluster) = Cluster::start(Kind::Tls(port)) else { return };
    let directory = Directory::new();
    let ca = directory.0.join("ca.pem");
    std::fs::copy(cluster.place.join("ca.pem"), &ca).unwrap();
    let ca = ca.display();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let open = |url: String| {
        runtime.block_on(async move {
            let store = PostgresStore::open(&PostgresSettings::new(url)).await?;
            store.ping().await?;
            store.close().await;
            Ok::<_, holm_store::StoreError>(())
        })
    };
    let base = format!("postgres://holm@localhost:{port}/postgres");
    open(format!("{base}?sslmode=verify-full&sslrootcert={ca}")).unwrap();
    open(format!("{base}?sslmode=disable")).unwrap();
    // Signed by nobody whom the system trusts; the certificate is for another name.
    let untrusted = open(format!("{base}?sslmode=require"));
    assert_ne!(kind(&untrusted), "Ok");
    let by_address = format!("postgres://holm@127.0.0.1:{port}/postgres");
    let misnamed = open(format!("{by_address}?sslmode=require&sslrootcert={ca}"));
    assert_eq!(kind(&misnamed), "Unavailable");
    let internal = misnamed.unwrap_err().internal().unwrap();
    assert!(internal.contains("certificate"), "{internal}");
}
