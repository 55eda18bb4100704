//! WebSockets and other protocols that begin with HTTP: once both sides agree, bytes go both ways
//! and nobody here looks at them.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use holm_engine::{Preview, random_bytes};
use hyper::body::Incoming;
use hyper::ext::Protocol;
use hyper::header::{
    CONNECTION, CONTENT_LENGTH, HeaderMap, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY,
    UPGRADE,
};
use hyper::http::request::Parts;
use hyper::upgrade::Upgraded;
use hyper::{Method, Request, StatusCode, Version};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf, copy_bidirectional_with_sizes};

use super::proxy::{self, Passed};
use super::relay::{self, Activity};
use super::response;
use super::site::{Previews, Stage};
use crate::http::reply::{self, Response};

/// Bytes on their way in each direction.
const BUFFER: usize = 16 << 10;

/// Makes of a WebSocket that is opened over HTTP/2 (RFC 8441) what the program understands. Nothing
/// where it is none.
#[must_use]
pub fn of_second(head: &mut Parts) -> Option<HeaderValue> {
    let protocol = head.extensions.get::<Protocol>()?;
    if head.method != Method::CONNECT || !protocol.as_str().eq_ignore_ascii_case("websocket") {
        return None;
    }
    head.method = Method::GET;
    // Over HTTP/2 there is none, as nothing has to be told apart; its answer stays here.
    let key = STANDARD.encode(random_bytes::<16>().ok()?);
    head.headers.insert(SEC_WEBSOCKET_KEY, HeaderValue::try_from(key).ok()?);
    Some(HeaderValue::from_static("websocket"))
}

/// The protocol that a request asks to go on with. HTTP/2 is none: it would hide requests from this
/// proxy.
#[must_use]
pub fn asked(head: &Parts) -> Option<HeaderValue> {
    if head.version != Version::HTTP_11 {
        return None;
    }
    let named = head.headers.get_all(CONNECTION).iter().any(|value| {
        let mut words = value.to_str().unwrap_or_default().split(',');
        words.any(|word| word.trim().eq_ignore_ascii_case("upgrade"))
    });
    let mut protocols = head.headers.get_all(UPGRADE).iter();
    let (protocol, None) = (protocols.next()?, protocols.next()) else { return None };
    let text = protocol.to_str().ok()?.trim();
    let is_http = text.get(..2).is_none_or(|begin| begin.eq_ignore_ascii_case("h2"))
        || text.get(..4).is_some_and(|begin| begin.eq_ignore_ascii_case("http"));
    (named && !is_http && !text.contains(',')).then(|| protocol.clone())
}

fn agree(headers: &mut HeaderMap, protocol: HeaderValue) {
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(UPGRADE, protocol);
}

impl Previews {
    /// Passes a request on that asks for another protocol.
    pub(super) async fn pass_upgrade(
        &self,
        passed: Passed,
        head: Parts,
        body: Incoming,
        protocol: HeaderValue,
    ) -> Response {
        let Passed { preview, place, form, until } = passed;
        let is_second = head.version == Version::HTTP_2;
        let mut request = Request::from_parts(head, body);
        let side = hyper::upgrade::on(&mut request);
        let (head, _body) = request.into_parts();
        let Some(mut head) = self.head_for_program(head) else {
            return form.bad("Its address cannot be read.");
        };
        head.headers.remove(CONTENT_LENGTH);
        agree(&mut head.headers, protocol.clone());
        let number = preview.port().port;
        preview.traffic();
        let asking = async {
            // Its own connection: it is no HTTP any more afterwards.
            let mut lent = match self.pool.fresh(&preview).await {
                Ok(lent) => lent,
                Err(why) => return Err(proxy::no_way(form, why, number)),
            };
            match lent.line.sender.send_request(Request::from_parts(head, proxy::nothing())).await {
                Ok(response) => Ok((response, lent)),
                Err(_) => Err(form.broken(number)),
            }
        };
        let until_end = |last| relay::end(preview.clone(), until, self.stage.subscribe(), last);
        let answered = tokio::select! {
            biased;
            why = until_end(Stage::Refusing) => return form.ended(why),
            () = tokio::time::sleep(self.limits().answer) => return form.slow(number),
            answered = asking => answered,
        };
        let answered = match answered {
            Ok(answered) => answered,
            Err(shown) => return shown,
        };
        if answered.0.status() != StatusCode::SWITCHING_PROTOCOLS {
            let end = self.end_for(&preview, until, &answered);
            let end = end.unwrap_or_else(|| until_end(Stage::Finishing));
            return self.answer(preview, place, answered, false, end);
        }
        let (mut answer, lent) = answered;
        if !answer.headers().get(UPGRADE).is_some_and(|other| is_same(other, &protocol)) {
            return form.broken(number);
        }
        let program = hyper::upgrade::on(&mut answer);
        let end = until_end(Stage::Refusing);
        let idle = self.limits().idle;
        tokio::spawn(async move {
            // The connection is taken over by what moves its bytes, and may not end before.
            let _kept = (place, lent);
            let activity = Activity::default();
            let moving = async {
                let Ok((visitor, program)) = tokio::try_join!(side, program) else { return };
                carry(visitor, program, &preview, &activity).await;
            };
            tokio::select! {
                () = moving => {}
                _ = end => {}
                () = activity.silent_for(idle) => {}
            }
        });
        let mut headers = std::mem::take(answer.headers_mut());
        headers.remove(CONTENT_LENGTH);
        response::for_visitor(&mut headers, true);
        let status = match is_second {
            true => {
                headers.remove(SEC_WEBSOCKET_ACCEPT);
                StatusCode::OK
            }
            false => {
                agree(&mut headers, protocol);
                StatusCode::SWITCHING_PROTOCOLS
            }
        };
        let mut response = reply::empty(status.as_u16());
        *response.headers_mut() = headers;
        response
    }
}

fn is_same(one: &HeaderValue, other: &HeaderValue) -> bool {
    one.as_bytes().trim_ascii().eq_ignore_ascii_case(other.as_bytes().trim_ascii())
}

/// Moves bytes until both sides have ended or one has failed.
async fn carry(visitor: Upgraded, program: Upgraded, preview: &Preview, activity: &Activity) {
    let heard = |io| Heard { io: TokioIo::new(io), preview, activity };
    let (mut visitor, mut program) = (heard(visitor), heard(program));
    // Either side's failure is the end of both, which both see.
    let _ = copy_bidirectional_with_sizes(&mut visitor, &mut program, BUFFER, BUFFER).await;
}

/// Notes what comes.
struct Heard<'a> {
    io: TokioIo<Upgraded>,
    preview: &'a Preview,
    activity: &'a Activity,
}

impl AsyncRead for Heard<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = ready!(Pin::new(&mut self.io).poll_read(context, into));
        self.activity.note();
        self.preview.traffic();
        Poll::Ready(read)
    }
}

impl AsyncWrite for Heard<'_> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}
