//! What answers requests below some paths.

use std::borrow::Cow;
use std::pin::Pin;
use std::sync::Arc;

use hyper::Request;
use hyper::body::Incoming;

use super::reply::Response;

/// A response that is being made.
pub type Answering = Pin<Box<dyn Future<Output = Response> + Send>>;

/// What answers by the host that requests name, whatever their path: no other face ever gets one of
/// its requests.
pub trait HostFace: Face {
    /// True for requests to its hosts.
    fn claims(&self, request: &Request<Incoming>) -> bool;

    /// Whether it serves its hosts on this server, and shares connections with others, or only
    /// turns them away.
    fn is_here(&self) -> bool {
        true
    }
}

/// One protocol on the server. Dropping the future, or the response's body, means that the client
/// has gone: the work behind it must stop then.
pub trait Face: Send + Sync {
    /// What it is called in metrics.
    fn name(&self) -> &'static str;

    /// True for the paths that are this face's.
    fn serves(&self, path: &str) -> bool;

    /// Such a path as it may be in a log.
    fn shown<'a>(&self, path: &'a str) -> Cow<'a, str> {
        path.into()
    }

    /// Whether its requests are traced; not those of programs that only watch.
    fn is_traced(&self) -> bool {
        true
    }

    /// Answers a request to such a path.
    fn answer(self: Arc<Self>, request: Request<Incoming>) -> Answering;

    /// The server goes down: no new work from now on.
    fn refuse(&self);

    /// The time for running work is over: everything still running is answered now.
    fn finish(&self);
}
