//! A certificate authority on loopback that speaks as much of ACME (RFC 8555) as a client needs:
//! directory, nonces, an account, orders for one name each, and the proof by DNS, for which it reads
//! what the hook has written. Signatures are not verified; that each nonce is used once is.

use std::collections::{BTreeSet, VecDeque};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use rcgen::{
    BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    PKCS_ECDSA_P256_SHA256, PublicKeyData, SignatureAlgorithm,
};
use sha2::{Digest as _, Sha256};

use crate::common::{Value, json};

/// How a point of the curve P-256 begins within a request for a certificate: a bit string of 66 bytes,
/// of which no bit is left over, and both numbers follow.
const POINT: [u8; 4] = [0x03, 0x42, 0x00, 0x04];

/// For how long a certificate has held when it is made, and for how long it will.
pub type Life = (Duration, Duration);

pub struct Authority {
    /// Its own certificate (PEM).
    pub root: String,
    shared: Arc<Shared>,
}

struct Shared {
    origin: String,
    /// Where the hook writes what it is called with.
    records: PathBuf,
    issuer: Issuer<'static, KeyPair>,
    root: String,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    nonces: BTreeSet<String>,
    next: u64,
    /// SHA-256 of the account's key, in its one form.
    thumbprint: String,
    accounts: u32,
    orders: Vec<Order>,
    /// For how long the next certificates have held, and will; the last one for all that follow.
    lives: VecDeque<Life>,
    contact: Value,
}

#[derive(Default)]
struct Order {
    name: String,
    is_proved: bool,
    failure: Option<String>,
    chain: Option<String>,
}

impl Authority {
    pub fn start(records: &Path, lives: &[Life]) -> Self {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(Vec::new()).expect("a certificate");
        params.distinguished_name.push(rcgen::DnType::CommonName, "the authority of a test");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let root = params.self_signed(&key).expect("signed").pem();
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let shared = Arc::new(Shared {
            origin: format!("http://{address}"),
            records: records.to_owned(),
            issuer: Issuer::new(params, key),
            root: root.clone(),
            state: Mutex::new(State { lives: lives.iter().copied().collect(), ..State::default() }),
        });
        let served = Arc::clone(&shared);
        // Ends with the process; who connects when the test is over finds nobody who answers.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = Arc::clone(&served);
                std::thread::spawn(move || shared.serve(stream));
            }
        });
        Self { root, shared }
    }

    pub fn directory(&self) -> String {
        format!("{}/directory", self.shared.origin)
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.shared.state.lock().expect("no panic inside")
    }

    /// Accounts, orders, and certificates that were made.
    pub fn counts(&self) -> (u32, usize, usize) {
        let state = self.state();
        let made = state.orders.iter().filter(|order| order.chain.is_some()).count();
        (state.accounts, state.orders.len(), made)
    }

    pub fn contact(&self) -> Value {
        self.state().contact.clone()
    }
}

/// A key of which only the public part is known.
struct Point(Vec<u8>);

impl PublicKeyData for Point {
    fn der_bytes(&self) -> &[u8] {
        &self.0
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &PKCS_ECDSA_P256_SHA256
    }
}

/// An answer: status, more headers, body.
type Said = (u16, Vec<(&'static str, String)>, String);

fn problem(kind: &str, detail: &str) -> Said {
    let body = json!({"type": format!("urn:ietf:params:acme:error:{kind}"), "detail": detail});
    (400, vec![("content-type", "application/problem+json".to_owned())], body.to_string())
}

fn part(jws: &Value, name: &str) -> Option<Value> {
    let bytes = BASE64.decode(jws[name].as_str()?).ok()?;
    if bytes.is_empty() { Some(Value::Null) } else { serde_json::from_slice(&bytes).ok() }
}

impl Shared {
    fn serve(&self, stream: TcpStream) {
        let mut writer = stream.try_clone().expect("a socket");
        let mut reader = BufReader::new(stream);
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            let mut words = line.split(' ');
            let (method, path) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
            let (method, path) = (method.to_owned(), path.to_owned());
            let mut length = 0;
            loop {
                let mut header = String::new();
                if reader.read_line(&mut header).unwrap_or(0) <= 2 {
                    break;
                }
                if let Some((name, value)) = header.split_once(':')
                    && name.eq_ignore_ascii_case("content-length")
                {
                    length = value.trim().parse().expect("a length");
                }
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).expect("a body");
            let (status, headers, text) = self.answer(&method, &path, &body);
            let mut head = format!("HTTP/1.1 {status} x\r\nreplay-nonce: {}\r\n", self.nonce());
            for (name, value) in headers {
                head.push_str(&format!("{name}: {value}\r\n"));
            }
            head.push_str(&format!("content-length: {}\r\n\r\n", text.len()));
            let text = if method == "HEAD" { "" } else { &text };
            if writer.write_all(format!("{head}{text}").as_bytes()).is_err() {
                return;
            }
        }
    }

    fn nonce(&self) -> String {
        let mut state = self.state.lock().expect("no panic inside");
        state.next += 1;
        let nonce = format!("nonce{}", state.next);
        state.nonces.insert(nonce.clone());
        nonce
    }

    fn answer(&self, method: &str, path: &str, body: &[u8]) -> Said {
        let at = |path: &str| format!("{}{path}", self.origin);
        match (method, path) {
            ("GET", "/directory") => {
                let all = json!({
                    "newNonce": at("/nonce"), "newAccount": at("/account"), "newOrder": at("/order"),
                    "meta": {"termsOfService": at("/terms")},
                });
                (200, vec![], all.to_string())
            }
            ("HEAD", "/nonce") => (200, vec![], String::new()),
            ("POST", _) => {
                let jws: Value = serde_json::from_slice(body).unwrap_or_default();
                let (Some(protected), Some(payload)) =
                    (part(&jws, "protected"), part(&jws, "payload"))
                else {
                    return problem("malformed", "no JWS");
                };
                let nonce = protected["nonce"].as_str().unwrap_or_default();
                let is_good = self.state.lock().expect("no panic").nonces.remove(nonce);
                if !is_good {
                    return problem("badNonce", "it was used");
                }
                if protected["url"] != at(path)
                    || jws["signature"].as_str().is_none_or(str::is_empty)
                {
                    return problem("malformed", "not signed for this");
                }
                self.signed(path, &protected, &payload)
            }
            _ => (404, vec![], String::new()),
        }
    }

    fn signed(&self, path: &str, protected: &Value, payload: &Value) -> Said {
        let mut state = self.state.lock().expect("no panic inside");
        if path == "/account" {
            let jwk = &protected["jwk"];
            // In the order of letters, without spaces (RFC 7638).
            let form = format!(
                r#"{{"crv":{},"kty":{},"x":{},"y":{}}}"#,
                jwk["crv"], jwk["kty"], jwk["x"], jwk["y"]
            );
            state.thumbprint = BASE64.encode(Sha256::digest(form));
            state.accounts += 1;
            state.contact = payload["contact"].clone();
            let location = vec![("location", format!("{}/accounts/1", self.origin))];
            return (201, location, json!({"status": "valid"}).to_string());
        }
        if protected["kid"] != format!("{}/accounts/1", self.origin) {
            return problem("accountDoesNotExist", "who is that?");
        }
        if path == "/order" {
            let name = payload["identifiers"][0]["value"].as_str().unwrap_or_default().to_owned();
            state.orders.push(Order { name, ..Order::default() });
            let number = state.orders.len() - 1;
            let location = vec![("location", format!("{}/orders/{number}", self.origin))];
            return (201, location, self.shown(number, &state.orders[number]).to_string());
        }
        let mut words = path.trim_start_matches('/').split('/');
        let (what, number) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
        let number: usize = number.parse().expect("an order");
        let thumbprint = state.thumbprint.clone();
        let life = match (what, state.lives.len()) {
            ("finalize", 2..) => state.lives.pop_front(),
            _ => state.lives.front().copied(),
        };
        let order = &mut state.orders[number];
        match what {
            "authorizations" => (200, vec![], self.authorization(number, order).to_string()),
            "challenges" => {
                let token = format!("token{number}");
                let value = BASE64.encode(Sha256::digest(format!("{token}.{thumbprint}")));
                match self.looks_up(&order.name, &value) {
                    Ok(()) => order.is_proved = true,
                    Err(reason) => order.failure = Some(reason),
                }
                (200, vec![], self.authorization(number, order)["challenges"][0].to_string())
            }
            "finalize" => {
                assert!(order.is_proved, "nothing is signed without a proof");
                let csr =
                    BASE64.decode(payload["csr"].as_str().expect("a request")).expect("base64");
                order.chain = Some(self.sign(&order.name, &csr, life.expect("a life")));
                (200, vec![], self.shown(number, order).to_string())
            }
            "orders" => (200, vec![], self.shown(number, order).to_string()),
            "certificates" => {
                let kind = vec![("content-type", "application/pem-certificate-chain".to_owned())];
                (200, kind, order.chain.clone().expect("it was made"))
            }
            _ => (404, vec![], String::new()),
        }
    }

    fn shown(&self, number: usize, order: &Order) -> Value {
        let at = |what: &str| format!("{}/{what}/{number}", self.origin);
        let status = match order {
            Order { failure: Some(_), .. } => "invalid",
            Order { chain: Some(_), .. } => "valid",
            Order { is_proved: true, .. } => "ready",
            _ => "pending",
        };
        let mut shown = json!({
            "status": status, "finalize": at("finalize"), "authorizations": [at("authorizations")],
            "identifiers": [{"type": "dns", "value": order.name}],
        });
        if order.chain.is_some() {
            shown["certificate"] = at("certificates").into();
        }
        shown
    }

    fn authorization(&self, number: usize, order: &Order) -> Value {
        let status = match (&order.failure, order.is_proved) {
            (Some(_), _) => "invalid",
            (None, true) => "valid",
            (None, false) => "pending",
        };
        let mut challenge = json!({
            "type": "dns-01", "url": format!("{}/challenges/{number}", self.origin),
            "token": format!("token{number}"), "status": status,
        });
        if let Some(failure) = &order.failure {
            let kind = "urn:ietf:params:acme:error:unauthorized";
            challenge["error"] = json!({"type": kind, "detail": failure});
        }
        json!({
            "status": status, "challenges": [challenge], "wildcard": true,
            "identifier": {"type": "dns", "value": order.name.trim_start_matches("*.")},
        })
    }

    /// Looks whether the hook has put the record where the world would see it.
    fn looks_up(&self, name: &str, value: &str) -> Result<(), String> {
        let domain = name.strip_prefix("*.").ok_or("no wildcard")?;
        let wanted = format!("present _acme-challenge.{domain} {value}");
        let records = std::fs::read_to_string(&self.records).unwrap_or_default();
        match records.lines().last() {
            Some(last) if last == wanted => Ok(()),
            other => Err(format!("no such record: {other:?}")),
        }
    }

    fn sign(&self, name: &str, csr: &[u8], (since, left): Life) -> String {
        let at = csr.windows(POINT.len()).position(|part| part == POINT).expect("a key of P-256");
        let point = Point(csr[at + 3..at + 68].to_vec());
        let mut params = CertificateParams::new(vec![name.to_owned()]).expect("a certificate");
        let now = std::time::SystemTime::now();
        params.not_before = (now - since).into();
        params.not_after = (now + left).into();
        let made = params.signed_by(&point, &self.issuer).expect("signed");
        format!("{}{}", made.pem(), self.root)
    }
}
