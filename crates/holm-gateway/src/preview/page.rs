//! What a visitor sees where there is nothing else to see: a page for people, a line for programs.

use holm_engine::EndReason;
use hyper::header::{ACCEPT, HeaderValue};
use hyper::{HeaderMap, Method};

use super::relay::Why;
use crate::http::reply::{self, Response};

/// Seconds after which a page that waits for a server tries again.
const AGAIN: &str = "2";

/// How it is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Form {
    /// For somebody who looks at it.
    is_page: bool,
}

impl Form {
    /// What this request wants.
    #[must_use]
    pub fn of(method: &Method, headers: &HeaderMap) -> Self {
        let html = |value: &HeaderValue| {
            value.to_str().is_ok_and(|accept| accept.to_ascii_lowercase().contains("text/html"))
        };
        let reads = matches!(*method, Method::GET | Method::HEAD);
        Self { is_page: reads && headers.get_all(ACCEPT).iter().any(html) }
    }

    /// Why a request gets no answer of the program any more.
    #[must_use]
    pub fn ended(self, why: Why) -> Response {
        match why {
            Why::Over(ended) => self.gone(ended.map(|ended| ended.reason)),
            Why::Expired => self.private(),
            Why::GoingDown => self.going_down(),
        }
    }

    fn show(self, status: u16, title: &str, text: &str, again: bool) -> Response {
        let response = if self.is_page {
            let refresh = match again {
                true => format!("<meta http-equiv=\"refresh\" content=\"{AGAIN}\">"),
                false => String::new(),
            };
            let page = format!(
                "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">{refresh}\
                 <meta name=\"viewport\" content=\"width=device-width\"><title>{title}</title>\
                 <style>body{{font:16px/1.5 system-ui,sans-serif;max-width:36em;margin:15vh auto;\
                 padding:0 1em;color-scheme:light dark}}h1{{font-size:1.3em}}</style></head>\
                 <body><h1>{title}</h1><p>{text}</p></body></html>\n"
            );
            let response = reply::plain(status, "text/html; charset=utf-8", page);
            let policy = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors *";
            reply::with(response, "content-security-policy", policy)
        } else {
            reply::plain(status, "text/plain; charset=utf-8", format!("{title}: {text}\n"))
        };
        let response = reply::with(response, "cache-control", "no-store");
        match again {
            true => reply::with(response, "retry-after", AGAIN),
            false => response,
        }
    }

    /// 404.
    #[must_use]
    pub fn unknown(self) -> Response {
        let text = "There is no preview at this address. The port may not be exposed, or not any \
                    more.";
        self.show(404, "No such preview", text, false)
    }

    /// 410.
    #[must_use]
    pub fn gone(self, reason: Option<EndReason>) -> Response {
        let text = match reason {
            Some(reason) => {
                format!("It was ended ({}), and what it served with it.", reason.as_str())
            }
            None => "The port is not exposed any more.".to_owned(),
        };
        self.show(410, "This sandbox has ended", &text, false)
    }

    /// 401, without a way to log in: there is none.
    #[must_use]
    pub fn private(self) -> Response {
        let text = "Open the link that came with it, once; ask for a new one where it has been \
                    used or is too old. Programs send a token in x-holm-preview-token.";
        let response = self.show(401, "This preview is private", text, false);
        reply::with(response, "www-authenticate", "holm-preview")
    }

    /// 502: nothing listens.
    #[must_use]
    pub fn not_listening(self, port: u16) -> Response {
        let text = format!(
            "Nothing listens on port {port} in the sandbox. As soon as a server does, it is here."
        );
        self.show(502, "Waiting for a server", &text, true)
    }

    /// 502: what listens does not answer as it should.
    #[must_use]
    pub fn broken(self, port: u16) -> Response {
        let text = format!(
            "What listens on port {port} in the sandbox closed the connection, or its answer is no \
             good HTTP."
        );
        self.show(502, "The server did not answer", &text, false)
    }

    /// 502: the sandbox does not answer.
    #[must_use]
    pub fn unreachable(self) -> Response {
        self.show(502, "The sandbox does not answer", "Try again in a few seconds.", true)
    }

    /// 503: nobody but its owner lets it go on.
    #[must_use]
    pub fn paused(self) -> Response {
        let text = "Its owner has paused it. As soon as it goes on, it is here.";
        self.show(503, "The sandbox is paused", text, true)
    }

    /// 504.
    #[must_use]
    pub fn slow(self, port: u16) -> Response {
        let text = format!("What listens on port {port} in the sandbox did not answer in time.");
        self.show(504, "The server did not answer in time", &text, false)
    }

    /// 503.
    #[must_use]
    pub fn crowded(self) -> Response {
        let text = "As many requests as it may have are open. Try again in a few seconds.";
        reply::with(self.show(503, "Too many visitors", text, false), "retry-after", AGAIN)
    }

    /// 503.
    #[must_use]
    pub fn going_down(self) -> Response {
        self.show(503, "The service is going down", "Try again when it is back.", true)
    }

    /// 400.
    #[must_use]
    pub fn bad(self, text: &str) -> Response {
        self.show(400, "This request cannot be passed on", text, false)
    }
}
