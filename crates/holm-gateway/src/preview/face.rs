//! The way of a request to a preview: whose it is, whether its visitor may look, on to the program.

use std::sync::Arc;

use holm_engine::NoPreview;
use hyper::body::Incoming;
use hyper::{Method, Request};

use super::access::{Entry, without_token};
use super::host::Claim;
use super::page::Form;
use super::proxy::Passed;
use super::site::{Previews, Stage};
use super::upgrade;
use crate::http::face::{Answering, Face, HostFace};
use crate::http::percent;
use crate::http::reply::Response;
use crate::mcp::panics::Guarded;

impl Previews {
    async fn respond(&self, request: Request<Incoming>) -> Response {
        let form = Form::of(request.method(), request.headers());
        let Claim::Named(id, number) = self.domain().claim(&request) else {
            return form.unknown();
        };
        let (mut head, body) = request.into_parts();
        let second = upgrade::of_second(&mut head);
        if head.method == Method::CONNECT {
            return form.bad("It asks for a proxy.");
        }
        // Where links have their token the program never sees it.
        let query = head.uri.query().unwrap_or_default();
        let query = without_token(query).unwrap_or_else(|| query.to_owned());
        let texts = [query.as_str(), head.uri.path()].map(|text| percent::decode(text).0);
        if texts.iter().any(|text| self.is_credential(&String::from_utf8_lossy(text))) {
            let text = "A key or a token of the service is in its address, where it must not be.";
            return form.bad(text);
        }
        let preview = match self.engine.preview(&id, number).await {
            Ok(preview) => preview,
            Err(NoPreview::Unknown) => return form.unknown(),
            Err(NoPreview::Gone(ended)) => return form.gone(Some(ended.reason)),
        };
        let until = match self.judge(&head, preview.port(), preview.account()) {
            Entry::In(_) if *self.stage.borrow() > Stage::Serving => return form.going_down(),
            Entry::In(until) => until,
            Entry::Opened(response) => return *response,
            Entry::Refused => return form.private(),
        };
        let place = tokio::select! {
            biased;
            // Mostly there is one at once; whether it may go on is asked again then.
            place = self.place(&preview) => place,
            ended = preview.over() => return form.gone(ended.map(|ended| ended.reason)),
        };
        let Some(place) = place else { return form.crowded() };
        let passed = Passed { preview, place, form, until };
        match second.or_else(|| upgrade::asked(&head)) {
            Some(protocol) => self.pass_upgrade(passed, head, body, protocol).await,
            None => self.pass(passed, head, body).await,
        }
    }
}

impl Face for Previews {
    fn name(&self) -> &'static str {
        "preview"
    }

    fn serves(&self, _path: &str) -> bool {
        // By its host, never by a path.
        false
    }

    fn is_traced(&self) -> bool {
        false
    }

    fn answer(self: Arc<Self>, request: Request<Incoming>) -> Answering {
        let form = Form::of(request.method(), request.headers());
        let answering = Guarded::new(async move { self.respond(request).await });
        Box::pin(async move { answering.await.unwrap_or_else(|_| form.unreachable()) })
    }

    fn refuse(&self) {
        self.stage.send_replace(Stage::Refusing);
    }

    fn finish(&self) {
        self.stage.send_replace(Stage::Finishing);
    }
}

impl HostFace for Previews {
    fn claims(&self, request: &Request<Incoming>) -> bool {
        self.domain().claim(request) != Claim::Foreign
    }
}
