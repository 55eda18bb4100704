//! An authority of the tests' own, and a server's certificate by it.

use std::path::Path;
use std::process::Command;
use std::sync::{Arc, OnceLock};

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

struct Made {
    authority: String,
    server: Arc<rustls::ServerConfig>,
}

/// The certificate of the authority that signed those of all servers here.
pub fn authority_pem() -> Result<&'static str, String> {
    made().map(|made| made.authority.as_str())
}

pub fn server() -> Result<Arc<rustls::ServerConfig>, String> {
    made().map(|made| Arc::clone(&made.server))
}

/// Once for each process: the programs that make them take their time.
fn made() -> Result<&'static Made, String> {
    static MADE: OnceLock<Result<Made, String>> = OnceLock::new();
    MADE.get_or_init(make).as_ref().map_err(Clone::clone)
}

fn make() -> Result<Made, String> {
    let dir = std::env::temp_dir().join(format!("holm-testbed-{}", std::process::id()));
    std::fs::create_dir_all(&dir).map_err(|error| error.to_string())?;
    let made = in_dir(&dir);
    std::fs::remove_dir_all(&dir).map_err(|error| error.to_string())?;
    made
}

fn in_dir(dir: &Path) -> Result<Made, String> {
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
    openssl(
        dir,
        &format!(
            "req -x509 {key} -keyout ca.key -out ca.pem -days 2 -subj /CN=testbed \
             -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign"
        ),
    )?;
    // A name that is in commands which are printed elsewhere; here it leads to the testbed.
    let names = "DNS:bed.test,DNS:*.bed.test,DNS:github.com,IP:203.0.113.10,IP:2001:db8:10::10";
    openssl(dir, &format!("req {key} -keyout server.key -out server.csr -subj /CN=server"))?;
    let extensions = format!("subjectAltName={names}\nbasicConstraints=CA:FALSE\n");
    std::fs::write(dir.join("ext"), extensions).map_err(|error| error.to_string())?;
    openssl(
        dir,
        "x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile ext -out server.pem",
    )?;
    let text =
        |name: &str| std::fs::read_to_string(dir.join(name)).map_err(|error| error.to_string());
    let authority = text("ca.pem")?;
    let bad = |error: &dyn std::fmt::Display| error.to_string();
    let chain =
        CertificateDer::from_pem_slice(text("server.pem")?.as_bytes()).map_err(|e| bad(&e))?;
    let key = PrivateKeyDer::from_pem_slice(text("server.key")?.as_bytes()).map_err(|e| bad(&e))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| bad(&e))?
        .with_no_client_auth()
        .with_single_cert(vec![chain], key)
        .map_err(|e| bad(&e))?;
    Ok(Made { authority, server: Arc::new(config) })
}

fn openssl(dir: &Path, arguments: &str) -> Result<(), String> {
    let mut command = Command::new("openssl");
    command.args(arguments.split_whitespace()).current_dir(dir);
    let done = command.output().map_err(|error| format!("openssl: {error}"))?;
    if done.status.success() {
        return Ok(());
    }
    Err(format!("openssl {arguments}: {}", String::from_utf8_lossy(&done.stderr)))
}
