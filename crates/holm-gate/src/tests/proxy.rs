//! Through the host's proxy: real ones, that connect where they are told to.

use std::io::Write as _;
use std::path::PathBuf;

use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio_rustls::TlsAcceptor;

use super::*;
use crate::Proxy;

/// What a proxy was asked.
type Asked = Arc<Mutex<Vec<String>>>;

/// A proxy that connects to `target` whatever it is asked for, if `permits` says so.
struct Running {
    address: SocketAddr,
    asked: Asked,
}

/// The status for a head.
type Permits = fn(&str) -> u16;

async fn proxy(target: SocketAddr, permits: Permits, tls: Option<TlsAcceptor>) -> Running {
    let (listener, address) = outside().await;
    let asked = Asked::default();
    let kept = Arc::clone(&asked);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (asked, tls) = (Arc::clone(&kept), tls.clone());
            tokio::spawn(async move {
                match tls {
                    Some(tls) => serve(tls.accept(stream).await?, target, permits, &asked).await,
                    None => serve(stream, target, permits, &asked).await,
                }
            });
        }
    });
    Running { address, asked }
}

async fn serve(
    mut client: impl AsyncRead + AsyncWrite + Unpin,
    target: SocketAddr,
    permits: Permits,
    asked: &Asked,
) -> io::Result<()> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        head.push(char::from(client.read_u8().await?));
    }
    asked.lock().expect("what was asked").push(head.clone());
    let status = permits(&head);
    if status != 200 {
        let answer = format!("HTTP/1.1 {status} No\r\nContent-Length: 0\r\n\r\n");
        client.write_all(answer.as_bytes()).await?;
        return client.shutdown().await;
    }
    client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await?;
    let mut server = TcpStream::connect(target).await?;
    tokio::io::copy_bidirectional(&mut client, &mut server).await?;
    Ok(())
}

fn always(_: &str) -> u16 {
    200
}

fn names_only(head: &str) -> u16 {
    if head.starts_with("CONNECT 127.") { 403 } else { 200 }
}

fn with_credential(head: &str) -> u16 {
    if head.contains("Proxy-Authorization: Basic dXNlcjpwQHNz\r\n") { 200 } else { 407 }
}

/// A gate whose process has these variables.
fn world(policy: &str, variables: &[(&str, &str)]) -> World {
    let get = |name: &str| variables.iter().find(|(own, _)| *own == name);
    let proxy = Proxy::from_env(|name| get(name).map(|(_, value)| (*value).to_owned()));
    let proxy = proxy.expect("a proxy");
    World::with(policy, UplinkOptions { proxy, ..UplinkOptions::default() })
}

/// The first lines of what a proxy was asked.
fn lines(running: &Running) -> Vec<String> {
    let asked = running.asked.lock().expect("what was asked");
    asked.iter().map(|head| head.lines().next().unwrap_or_default().to_owned()).collect()
}

#[tokio::test]
async fn the_checked_address_is_asked_for() {
    let target = echo().await;
    let running = proxy(target, always, None).await;
    let world = world("open", &[("HTTPS_PROXY", &format!("http://{}", running.address))]);
    let mut stream = world.connect(target).await;
    ping(&mut stream, "through").await;
    assert_eq!(lines(&running), [format!("CONNECT {target} HTTP/1.1")]);
    stream.shutdown().await.expect("an end");
    assert_eq!(outcome(&mut stream).await, "end");
    world.settled().await;
    // What is refused never gets there.
    let refused = SocketAddr::new(REFUSED.parse().expect("an address"), 80);
    assert_eq!(world.tried(refused).await, "reset");
    assert_eq!(lines(&running).len(), 1);
}

/// Who reached it could ask it for what is refused here.
#[tokio::test]
async fn the_proxy_itself_is_refused() {
    let running = proxy(echo().await, always, None).await;
    let check = async |host: &str, except: &str| {
        let proxy = format!("http://{host}:{}", running.address.port());
        let world = world("open", &[("HTTPS_PROXY", &proxy), ("NO_PROXY", except)]);
        assert_eq!(world.tried(running.address).await, "reset", "{host} {except}");
        let expected = format!(" {} always refused: this host's proxy", running.address.port());
        assert_eq!(world.denied(), expected, "{host} {except}");
        assert_eq!(lines(&running), [""; 0]);
    };
    check("127.0.0.1", "").await;
    check("127.0.0.1", "*").await;
    check("localhost", "127.0.0.0/8").await;
}

#[tokio::test]
async fn a_credential_is_sent() {
    let target = echo().await;
    let running = proxy(target, with_credential, None).await;
    let good = format!("http://user:p%40ss@{}", running.address);
    let mut stream = world("open", &[("ALL_PROXY", &good)]).connect(target).await;
    let world_without = world("open", &[("ALL_PROXY", &format!("http://{}", running.address))]);
    assert_eq!(world_without.tried(target).await, "reset");
    drop(world_without);
    // The gate of the first was dropped with its world, which resets its connection.
    assert_eq!(outcome(&mut stream).await, "reset");
    let world = world("open", &[("ALL_PROXY", &good)]);
    ping(&mut world.connect(target).await, "with").await;
}

#[tokio::test]
async fn a_name_is_asked_for_only_where_a_rule_permits_by_it() {
    let target = echo().await;
    let running = proxy(target, names_only, None).await;
    let proxy = format!("http://{}", running.address);
    let by_name = world("allow:a.example", &[("HTTPS_PROXY", &proxy)]);
    by_name.resolve("a.example", target);
    let mut stream = by_name.connect(target).await;
    ping(&mut stream, "\0anything").await;
    let port = target.port();
    let expected =
        [format!("CONNECT {target} HTTP/1.1"), format!("CONNECT a.example:{port} HTTP/1.1")];
    assert_eq!(lines(&running), expected);
    running.asked.lock().expect("it").clear();
    for policy in ["open", "allow:127.0.0.1"] {
        let by_address = world(policy, &[("HTTPS_PROXY", &proxy)]);
        by_address.resolve("a.example", target);
        assert_eq!(by_address.tried(target).await, "reset", "{policy}");
    }
    assert!(lines(&running).iter().all(|line| !line.contains("a.example")));
}

#[tokio::test]
async fn a_server_that_speaks_first_is_heard_through_a_proxy() {
    let (listener, target) = outside().await;
    let running = proxy(target, always, None).await;
    let proxy = format!("http://{}", running.address);
    let world = world("allow:a.example", &[("HTTPS_PROXY", &proxy)]);
    world.resolve("a.example", target);
    let mut stream = world.connect(target).await;
    let (mut server, _) = within(listener.accept()).await.expect("a connection");
    server.write_all(b"220 welcome\r\n").await.expect("sent");
    let mut greeting = [0; 13];
    within(stream.read_exact(&mut greeting)).await.expect("heard");
    stream.write_all(b"QUIT\r\n").await.expect("sent");
    stream.shutdown().await.expect("an end");
    assert_eq!(outcome(&mut server).await, "QUIT\r\n");
}

#[tokio::test]
async fn no_proxy_is_honoured() {
    let target = echo().await;
    let running = proxy(target, always, None).await;
    let proxy = format!("http://{}", running.address);
    let world = world("open", &[("HTTPS_PROXY", &proxy), ("NO_PROXY", "127.0.0.0/8")]);
    ping(&mut world.connect(target).await, "directly").await;
    assert!(lines(&running).is_empty());
}

/// A proxy's certificate for 127.0.0.1, in a file that is gone with the test.
struct Bundle(PathBuf, TlsAcceptor);

impl Bundle {
    fn new(name: &str) -> Self {
        use base64::Engine as _;
        let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]);
        let rcgen::CertifiedKey { cert, signing_key } = made.expect("a certificate");
        let key = PrivatePkcs8KeyDer::from(signing_key.serialize_der());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(vec![cert.der().clone()], PrivateKeyDer::Pkcs8(key));
        let text = base64::engine::general_purpose::STANDARD.encode(cert.der());
        let path = std::env::temp_dir().join(format!("holm-gate-{name}-{}", std::process::id()));
        let mut file = std::fs::File::create(&path).expect("a file");
        writeln!(file, "-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----")
            .expect("it");
        Self(path, TlsAcceptor::from(Arc::new(config.expect("a configuration"))))
    }
}

impl Drop for Bundle {
    fn drop(&mut self) {
        let _gone = std::fs::remove_file(&self.0);
    }
}

#[tokio::test]
async fn a_proxy_is_spoken_to_by_tls() {
    let target = echo().await;
    let bundle = Bundle::new("trusted");
    let running = proxy(target, always, Some(bundle.1.clone())).await;
    let address = format!("https://{}", running.address);
    let path = bundle.0.to_str().expect("a path");
    for policy in ["open", "allow:a.example"] {
        let world = world(policy, &[("HTTPS_PROXY", &address), ("SSL_CERT_FILE", path)]);
        world.resolve("a.example", target);
        let mut stream = world.connect(target).await;
        ping(&mut stream, "\0through").await;
        ping(&mut stream, &"more ".repeat(100_000)).await;
        stream.shutdown().await.expect("an end");
        assert_eq!(outcome(&mut stream).await, "end");
        world.settled().await;
    }
    // Somebody else's certificate is no proxy of ours.
    let other = Bundle::new("other");
    let path = other.0.to_str().expect("a path");
    let world = world("open", &[("HTTPS_PROXY", &address), ("SSL_CERT_FILE", path)]);
    assert_eq!(world.tried(target).await, "reset");
}

#[tokio::test]
async fn a_proxy_that_is_none_is_a_reset() {
    for answer in ["SSH-2.0-x\r\n\r\n", "HTTP/1.1 200 OK\r\n", ""] {
        let (listener, address) = outside().await;
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let _sent = stream.write_all(answer.as_bytes()).await;
            }
        });
        let world = world("open", &[("HTTPS_PROXY", &format!("http://{address}"))]);
        assert_eq!(world.tried(echo().await).await, "reset", "{answer:?}");
        world.settled().await;
    }
}
