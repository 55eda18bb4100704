//! A request to a program in a sandbox, and its answer. The program is hostile: only what hyper has
//! read as one good answer goes on, and how long it is is written anew.

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use holm_engine::{NotConnected, Preview};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::{Body as _, Incoming};
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Request, StatusCode, Uri, Version};
use jiff::Timestamp;

use super::access::without_token;
use super::page::Form;
use super::pool::{Lent, Outgoing};
use super::relay::{self, Activity, Answer, End, Upload};
use super::request::{self, Visitor};
use super::response;
use super::site::{Place, Previews, Stage};
use crate::http::reply::{self, Response};
use crate::http::server::Peer;

/// A visitor's request that may go on.
pub struct Passed {
    /// Where to.
    pub preview: Preview,
    /// Its place.
    pub place: Place,
    /// How answers of ours look.
    pub form: Form,
    /// When what let the visitor in ends.
    pub until: Option<Timestamp>,
}

/// Why there is no answer of the program.
#[derive(Debug)]
enum Failed {
    NotConnected(NotConnected),
    Broken,
    Slow,
}

/// What a program has answered, and the connection by which.
pub(super) type Answered = (hyper::Response<Incoming>, Lent);

impl Previews {
    /// The head as the program gets it.
    pub(super) fn head_for_program(&self, mut head: Parts) -> Option<Parts> {
        let peer: Option<IpAddr> = head.extensions.get::<Peer>().map(|peer| peer.0.ip());
        let host = Self::host_of(&head)?.to_owned();
        let scheme = if self.is_https() { "https" } else { "http" };
        let path = head.uri.path();
        let path = match head.uri.query() {
            None => path.to_owned(),
            Some(query) => match without_token(query) {
                None => format!("{path}?{query}"),
                Some(rest) if rest.is_empty() => path.to_owned(),
                Some(rest) => format!("{path}?{rest}"),
            },
        };
        head.uri = Uri::try_from(path).ok()?;
        head.version = Version::HTTP_11;
        let visitor = Visitor { address: peer, host: &host, scheme };
        request::for_program(&mut head.headers, visitor, |text| self.is_credential(text));
        head.extensions.clear();
        Some(head)
    }

    /// Passes a request on.
    pub(super) async fn pass(&self, passed: Passed, head: Parts, body: Incoming) -> Response {
        let Passed { preview, place, form, until } = passed;
        let activity = Activity::default();
        let Some(mut head) = self.head_for_program(head) else {
            return form.bad("Its address cannot be read.");
        };
        let had_length = head.headers.remove(CONTENT_LENGTH).is_some();
        let length = body.size_hint().exact();
        if let Some(length) = length.filter(|length| *length > 0 || had_length) {
            head.headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
        }
        let is_head = head.method == Method::HEAD;
        let sending = self.send(&preview, head, body, &activity);
        let stage = self.stage.subscribe();
        let mut end = relay::end(preview.clone(), until, stage, Stage::Finishing);
        let answered = tokio::select! {
            biased;
            why = &mut end => return form.ended(why),
            answered = sending => answered,
        };
        let number = preview.port().port;
        match answered {
            Ok(answered) if answered.0.status() == StatusCode::SWITCHING_PROTOCOLS => {
                // Nobody has asked for that.
                form.broken(number)
            }
            Ok(answered) => {
                let end = self.end_for(&preview, until, &answered).unwrap_or(end);
                self.answer(preview, place, answered, is_head, end)
            }
            Err(failed) => {
                // What a program does at its end may be seen before its end is known.
                failed.shown(form, number)
            }
        }
    }

    async fn send(
        &self,
        preview: &Preview,
        head: Parts,
        body: Incoming,
        activity: &Activity,
    ) -> Result<Answered, Failed> {
        preview.traffic();
        let mut lent = self.pool.get(preview).await.map_err(Failed::NotConnected)?;
        // What asks only, without a body, may be asked again.
        let repeatable = matches!(head.method, Method::GET | Method::HEAD | Method::OPTIONS);
        let empty = body.is_end_stream();
        let again = (lent.used && repeatable && empty).then(|| head.clone());
        let outgoing: Outgoing = match empty {
            true => nothing(),
            false => {
                let on_its_way = Arc::new(());
                lent.body = Arc::downgrade(&on_its_way);
                let access = self.credentials();
                Upload::new(body, preview.clone(), activity.clone(), access, on_its_way)
                    .boxed_unsync()
            }
        };
        let sent = lent.line.sender.try_send_request(Request::from_parts(head, outgoing));
        let sent = tokio::select! {
            sent = sent => sent,
            () = activity.silent_for(self.limits().answer) => return Err(Failed::Slow),
        };
        let request = match sent {
            Ok(response) => return Ok((response, lent)),
            // The program had closed a connection that idled: nothing of it has arrived.
            Err(mut error) => match (error.take_message(), again) {
                (Some(request), _) if lent.used => request,
                (None, Some(head)) => Request::from_parts(head, nothing()),
                _ => return Err(Failed::Broken),
            },
        };
        let body = std::mem::take(&mut lent.body);
        let mut lent = self.pool.fresh(preview).await.map_err(Failed::NotConnected)?;
        lent.body = body;
        tokio::select! {
            sent = lent.line.sender.send_request(request) => match sent {
                Ok(response) => Ok((response, lent)),
                Err(_) => Err(Failed::Broken),
            },
            () = activity.silent_for(self.limits().answer) => Err(Failed::Slow),
        }
    }

    /// The end of an answer that never ends by itself, which does not hold a stop up. Nothing where
    /// it is none.
    pub(super) fn end_for(
        &self,
        preview: &Preview,
        until: Option<Timestamp>,
        (answered, _): &Answered,
    ) -> Option<End> {
        const EVENTS: &[u8] = b"text/event-stream";
        let kind = answered.headers().get(CONTENT_TYPE)?.as_bytes();
        kind.get(..EVENTS.len()).filter(|begin| begin.eq_ignore_ascii_case(EVENTS))?;
        Some(relay::end(preview.clone(), until, self.stage.subscribe(), Stage::Refusing))
    }

    /// Passes an answer on, until `end`.
    pub(super) fn answer(
        &self,
        preview: Preview,
        place: Place,
        (answered, lent): Answered,
        is_head: bool,
        end: End,
    ) -> Response {
        let (mut head, body) = answered.into_parts();
        // How long the body is says the body. Only where there is none the header says it, and is
        // no more than that.
        let announced = head.headers.remove(CONTENT_LENGTH);
        let is_bare = is_head || head.status == StatusCode::NOT_MODIFIED;
        if is_bare && let Some(announced) = announced.filter(is_number) {
            head.headers.insert(CONTENT_LENGTH, announced);
        } else if let Some(length) = body.size_hint().exact().filter(|_| !is_bare) {
            head.headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
        }
        if head.status.is_informational() || head.status == StatusCode::NO_CONTENT {
            head.headers.remove(CONTENT_LENGTH);
        }
        response::for_visitor(&mut head.headers, preview.port().public);
        let idle = self.limits().idle;
        let body = Answer::new(body, preview, end, idle, Some(lent), place);
        let mut response = reply::relayed(body);
        *response.status_mut() = head.status;
        *response.headers_mut() = head.headers;
        response
    }
}

pub(super) fn nothing() -> Outgoing {
    Empty::<Bytes>::new().map_err(|never| match never {}).boxed_unsync()
}

fn is_number(value: &HeaderValue) -> bool {
    value.to_str().is_ok_and(|text| text.parse::<u64>().is_ok())
}

/// A page for a way that is not there.
pub(super) fn no_way(form: Form, why: NotConnected, number: u16) -> Response {
    match why {
        NotConnected::Refused => form.not_listening(number),
        NotConnected::Unreachable => form.unreachable(),
        NotConnected::Paused => form.paused(),
    }
}

impl Failed {
    fn shown(self, form: Form, number: u16) -> Response {
        match self {
            Self::NotConnected(why) => no_way(form, why, number),
            Self::Broken => form.broken(number),
            Self::Slow => form.slow(number),
        }
    }
}
