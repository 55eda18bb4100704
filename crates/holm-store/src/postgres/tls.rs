//! TLS to the server, by rustls. The server and its name are always verified.

use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_rustls::TlsConnector;

use super::url::Roots;
use crate::{BoxFuture, StoreError};

/// Where systems keep the certificates that they trust.
const SYSTEM: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

/// Makes connections to one server.
#[derive(Clone)]
pub(super) struct Connect {
    connector: TlsConnector,
    name: Option<ServerName<'static>>,
}

impl Connect {
    pub fn new(roots: &Roots) -> Result<Self, StoreError> {
        let store = match roots {
            Roots::File(path) => load(path)?,
            Roots::System => {
                let there = SYSTEM.iter().map(Path::new).find(|path| path.is_file());
                let path = there.ok_or_else(|| {
                    StoreError::invalid(
                        "this system has no list of trusted certificates: install \
                         ca-certificates, or name a file by sslrootcert in the database URL",
                    )
                })?;
                load(path)?
            }
        };
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| StoreError::database("set up TLS", error))?
            .with_root_certificates(store)
            .with_no_client_auth();
        Ok(Self { connector: TlsConnector::from(Arc::new(config)), name: None })
    }
}

fn load(path: &Path) -> Result<RootCertStore, StoreError> {
    let step = "read the trusted certificates";
    let mut store = RootCertStore::empty();
    let found = CertificateDer::pem_file_iter(path).map_err(|e| StoreError::database(step, e))?;
    for certificate in found {
        let certificate = certificate.map_err(|error| StoreError::database(step, error))?;
        // A bundle may hold ones that are not understood; those that are suffice.
        let _unusable = store.add(certificate);
    }
    if store.is_empty() {
        return Err(StoreError::invalid("the file of trusted certificates holds none"));
    }
    Ok(store)
}

impl<S> MakeTlsConnect<S> for Connect
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = Stream<S>;
    type TlsConnect = Self;
    type Error = io::Error;

    fn make_tls_connect(&mut self, host: &str) -> io::Result<Self> {
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        Ok(Self { connector: self.connector.clone(), name: Some(name) })
    }
}

impl<S> TlsConnect<S> for Connect
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = Stream<S>;
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<Stream<S>>>;

    fn connect(self, stream: S) -> Self::Future {
        Box::pin(async move {
            let name = self.name.ok_or_else(|| io::Error::other("no server name"))?;
            self.connector.connect(name, stream).await.map(Stream)
        })
    }
}

/// An encrypted stream.
pub(super) struct Stream<S>(tokio_rustls::client::TlsStream<S>);

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for Stream<S> {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Stream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Stream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
