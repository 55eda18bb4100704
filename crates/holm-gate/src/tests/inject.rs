//! Which connections are opened for credentials: those to the hosts that they are bound to, at an
//! address that DNS gave for them. All others pass as they are.

use std::path::PathBuf;
use std::sync::Arc;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::{World, outcome, outside, policies, within};
use crate::inject::tests::client::ask;
use crate::inject::tests::host::{Authority, Host, Say};
use crate::inject::tests::world::{NAME, PLACEHOLDER, SECRET, secure};
use crate::{Ca, Injection, InjectionError, Proxy, Secret, UplinkOptions};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
const OTHER: &str = "other.example";

/// A world with a host in it, and a gate with an authority.
struct Scene {
    world: World,
    host: Host,
    /// Who proves the host's name.
    authority: Authority,
    ca: Arc<Ca>,
    directory: PathBuf,
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _gone = std::fs::remove_dir_all(&self.directory);
    }
}

impl Scene {
    /// A host of this name, by TLS or plainly, and a secret bound to [`NAME`] at its port.
    async fn new(test: &str, policy: &str, tls: Option<&str>, proxy: Option<Proxy>) -> Self {
        let authority = Authority::new();
        let config = tls.map(|name| authority.config(name));
        let host = Host::start(config, |_| Say::Bytes(OK)).await;
        let name = format!("holm-gate-scene-{test}-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir(&directory).expect("a directory");
        let trust = directory.join("trust.pem");
        std::fs::write(&trust, &authority.pem).expect("a file");
        let ca = Arc::new(Ca::load_or_create(&directory).expect("an authority"));
        let options = UplinkOptions {
            ca: Some(Arc::clone(&ca)),
            trust: Some(trust),
            proxy,
            ..UplinkOptions::default()
        };
        let world = World::with(policy, options);
        let rule = format!("{NAME}:{}", host.address.port()).parse().expect("a rule");
        let secret = Secret::new(SECRET);
        let bound = Injection::new(vec![rule], PLACEHOLDER.into(), secret, &[], tls.is_none());
        world.gate.set_injections(vec![bound.expect("one")]).expect("set");
        Self { world, host, authority, ca, directory }
    }

    /// What the host sees of a request to `name` by TLS, by a client that trusts `trusted` only.
    async fn seen(&self, name: &'static str, trusted: &str) -> Vec<String> {
        let stream = self.world.connect(self.host.address).await;
        let mut stream = within(secure(stream, trusted, name)).await.expect("a connection");
        self.ask(&mut stream, name).await
    }

    async fn ask<S>(&self, stream: &mut S, name: &str) -> Vec<String>
    where
        S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
    {
        let request = self.request(name);
        assert_eq!(ask(stream, &request).await.status, 200);
        let seen = self.host.seen();
        let keys = seen.last().expect("a request").all("x-api-key");
        keys.into_iter().map(str::to_owned).collect()
    }

    fn request(&self, name: &str) -> String {
        let port = self.host.address.port();
        format!("GET / HTTP/1.1\r\nHost: {name}:{port}\r\nX-Api-Key: {PLACEHOLDER}\r\n\r\n")
    }
}

#[tokio::test]
async fn a_bound_host_is_opened_and_gets_the_secret() {
    for policy in ["open", "allow:api.example"] {
        let scene = Scene::new(&policy[..4], policy, Some(NAME), None).await;
        scene.world.resolve(NAME, scene.host.address);
        assert_eq!(scene.seen(NAME, scene.ca.certificate_pem()).await, [SECRET]);
        let counters = scene.world.gate.counters();
        assert!(counters.bytes_out > 0 && counters.bytes_in > 0, "{counters:?}");
        scene.world.settled().await;
    }
}

#[tokio::test]
async fn other_hosts_are_not_opened() {
    // The client trusts the world and not the gate, so it would notice.
    let scene = Scene::new("other", "open", Some(OTHER), None).await;
    scene.world.resolve(OTHER, scene.host.address);
    assert_eq!(scene.seen(OTHER, &scene.authority.pem).await, [PLACEHOLDER]);
    // Also where both names have one address, as behind a shared front.
    scene.world.resolve(NAME, scene.host.address);
    assert_eq!(scene.seen(OTHER, &scene.authority.pem).await, [PLACEHOLDER]);
}

#[tokio::test]
async fn a_name_that_is_only_claimed_is_not_opened() {
    // No answer of DNS has led from the name to this address.
    let scene = Scene::new("claimed", "open", Some(NAME), None).await;
    assert_eq!(scene.seen(NAME, &scene.authority.pem).await, [PLACEHOLDER]);
    scene.world.resolve(OTHER, scene.host.address);
    assert_eq!(scene.seen(NAME, &scene.authority.pem).await, [PLACEHOLDER]);
}

#[tokio::test]
async fn a_plain_host_is_opened_where_that_is_allowed() {
    let scene = Scene::new("plain", "open", None, None).await;
    scene.world.resolve(NAME, scene.host.address);
    let mut stream = scene.world.connect(scene.host.address).await;
    assert_eq!(scene.ask(&mut stream, NAME).await, [SECRET]);
    // A request for another host on the same connection goes nowhere.
    assert_eq!(ask(&mut stream, &scene.request(OTHER)).await.status, 421);
    assert_eq!(scene.host.seen().len(), 1);
    // A connection that begins with another host is not opened.
    scene.world.resolve(OTHER, scene.host.address);
    let mut stream = scene.world.connect(scene.host.address).await;
    assert_eq!(scene.ask(&mut stream, OTHER).await, [PLACEHOLDER]);
    // What follows there goes where the connection goes, without a secret.
    assert_eq!(scene.ask(&mut stream, NAME).await, [PLACEHOLDER]);
}

#[tokio::test]
async fn a_policy_that_changes_ends_an_opened_connection() {
    let scene = Scene::new("policy", "open", Some(NAME), None).await;
    scene.world.resolve(NAME, scene.host.address);
    let stream = scene.world.connect(scene.host.address).await;
    let trusted = scene.ca.certificate_pem();
    let mut stream = within(secure(stream, trusted, NAME)).await.expect("a connection");
    assert_eq!(scene.ask(&mut stream, NAME).await, [SECRET]);
    scene.world.gate.set_policies(policies("none")).expect("set");
    let (mut raw, _) = stream.into_inner();
    assert_eq!(outcome(&mut raw).await, "reset");
    scene.world.settled().await;
    // Nor is it opened anew.
    assert_eq!(scene.world.tried(scene.host.address).await, "reset");
    assert_eq!(scene.host.seen().len(), 1);
}

/// A proxy that passes on what it is asked for, and notes that.
async fn proxy() -> (Proxy, Arc<std::sync::Mutex<Vec<String>>>) {
    let (listener, address) = outside().await;
    let asked: Arc<std::sync::Mutex<Vec<String>>> = Arc::default();
    let log = Arc::clone(&asked);
    tokio::spawn(async move {
        while let Ok((mut near, _)) = listener.accept().await {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(near.read_u8().await.expect("a head"));
            }
            let head = String::from_utf8(head).expect("text");
            let target = head.split(' ').nth(1).expect("a target").to_owned();
            log.lock().expect("no panic").push(target.clone());
            let mut far = TcpStream::connect(target).await.expect("connected");
            near.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.expect("sent");
            tokio::spawn(async move { tokio::io::copy_bidirectional(&mut near, &mut far).await });
        }
    });
    let variable = |name: &str| (name == "HTTPS_PROXY").then(|| format!("http://{address}"));
    (Proxy::from_env(variable).expect("a proxy").expect("one"), asked)
}

#[tokio::test]
async fn a_bound_host_is_reached_through_the_proxy() {
    let (proxy, asked) = proxy().await;
    let scene = Scene::new("proxy", "open", Some(NAME), Some(proxy)).await;
    scene.world.resolve(NAME, scene.host.address);
    assert_eq!(scene.seen(NAME, scene.ca.certificate_pem()).await, [SECRET]);
    let asked = asked.lock().expect("no panic").clone();
    assert_eq!(asked, [scene.host.address.to_string()]);
}

#[tokio::test]
async fn without_an_authority_nothing_is_bound() {
    let world = World::new("open");
    let rule = NAME.parse().expect("a rule");
    let bound = Injection::new(vec![rule], PLACEHOLDER.into(), Secret::new(SECRET), &[], false);
    let refused = world.gate.set_injections(vec![bound.expect("one")]);
    assert_eq!(refused, Err(InjectionError::NoAuthority));
    assert_eq!(world.gate.set_injections(Vec::new()), Ok(()));
}
