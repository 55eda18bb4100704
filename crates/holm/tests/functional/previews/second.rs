//! HTTP/2 with TLS from end to end: what a browser gets that asks for it.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use hyper::body::{Body, Bytes, Frame};
use hyper::client::conn::http2;
use hyper::{HeaderMap, Request, Version};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, Error, SignatureScheme};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::secure::{Secure, secure};
use crate::common::{Home, as_root};

as_root!(case_43_trailers_and_websockets_go_over_tls_and_http_2);

/// Believes the one certificate that the test has made.
#[derive(Debug)]
struct This(CertificateDer<'static>, Arc<CryptoProvider>);

impl ServerCertVerifier for This {
    fn verify_server_cert(
        &self,
        end: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let is_it = *end == self.0;
        is_it.then(ServerCertVerified::assertion).ok_or_else(|| Error::General("another".into()))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let known = &self.1.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let known = &self.1.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.1.signature_verification_algorithms.supported_schemes()
    }
}

/// A client that offers HTTP/2 alone.
fn connector(secure: &Secure) -> tokio_rustls::TlsConnector {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let certificate = CertificateDer::from_pem_file(&secure.ca).expect("a certificate");
    let verifier = Arc::new(This(certificate, Arc::clone(&provider)));
    let builder = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .dangerous();
    let mut config = builder.with_custom_certificate_verifier(verifier).with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    Arc::new(config).into()
}

/// A body part by part, trailers last.
struct Sent(VecDeque<Frame<Bytes>>);

impl Sent {
    fn nothing() -> Self {
        Self(VecDeque::new())
    }

    fn with_trailer(parts: &[&'static str]) -> Self {
        let mut frames: VecDeque<_> =
            parts.iter().map(|part| Frame::data(Bytes::from_static(part.as_bytes()))).collect();
        let mut trailers = HeaderMap::new();
        trailers.insert("x-mine", "7".parse().expect("a value"));
        frames.push_back(Frame::trailers(trailers));
        Self(frames)
    }
}

impl Body for Sent {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.pop_front().map(Ok))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }
}

/// The data and the trailers of an answer, to its good end.
async fn all_of(mut body: hyper::body::Incoming) -> (String, HeaderMap) {
    let (mut data, mut trailers) = (Vec::new(), HeaderMap::new());
    while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        match frame.expect("a good answer").into_data() {
            Ok(part) => data.extend_from_slice(&part),
            Err(frame) => trailers.extend(frame.into_trailers().expect("trailers")),
        }
    }
    (String::from_utf8(data).expect("text"), trailers)
}

fn case_43_trailers_and_websockets_go_over_tls_and_http_2(home: &Home) {
    let secure = secure(home);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let name = secure.host.split(':').next().expect("a name").to_owned();
        let name = ServerName::try_from(name).expect("a name");
        let stream = tokio::net::TcpStream::connect(secure.serve.address).await;
        let stream = connector(&secure).connect(name, stream.expect("it listens")).await;
        let stream = stream.expect("TLS");
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
        let builder = http2::Builder::new(TokioExecutor::new());
        let made = builder.handshake::<_, Sent>(TokioIo::new(stream)).await;
        let (mut sender, connection) = made.expect("HTTP/2");
        tokio::spawn(connection);
        // Trailers go in and come out.
        let request = Request::post(format!("{}echo", secure.url)).header("te", "trailers");
        let request = request.header("trailer", "x-mine");
        let request = request.body(Sent::with_trailer(&["one", "three"])).expect("a request");
        let answer = sender.send_request(request).await.expect("an answer");
        assert_eq!((answer.status(), answer.version()), (hyper::StatusCode::OK, Version::HTTP_2));
        let (data, trailers) = all_of(answer.into_body()).await;
        assert_eq!(data, "onethree");
        let sum = trailers["x-sum"].to_str().expect("text").to_lowercase();
        assert_eq!((sum.as_str(), trailers.len()), ("8 x-mine: 7", 1), "{trailers:?}");
        // A WebSocket in the same connection (RFC 8441).
        let request = Request::connect(format!("{}ws", secure.url));
        let request = request.header("sec-websocket-version", "13").body(Sent::nothing());
        let mut request = request.expect("a request");
        request.extensions_mut().insert(hyper::ext::Protocol::from_static("websocket"));
        let answer = sender.send_request(request).await.expect("an answer");
        assert_eq!(answer.status(), 200, "{answer:?}");
        let upgraded = hyper::upgrade::on(answer).await.expect("a WebSocket");
        let mut socket = TokioIo::new(upgraded);
        let mut first = [0; 7];
        socket.read_exact(&mut first).await.expect("a frame");
        assert_eq!(&first, b"\x81\x05first");
        socket.write_all(&[0x81, 0x82, 0, 0, 0, 0, b'h', b'i']).await.expect("it reads");
        let mut echo = [0; 4];
        socket.read_exact(&mut echo).await.expect("a frame");
        assert_eq!(&echo, b"\x81\x02hi");
        // Its close frame comes back, and then there is no more.
        socket.write_all(&[0x88, 0x80, 0, 0, 0, 0]).await.expect("it reads");
        let mut rest = Vec::new();
        socket.read_to_end(&mut rest).await.expect("an end");
        assert_eq!(rest, b"\x88\x00");
    });
    secure.serve.end();
}
