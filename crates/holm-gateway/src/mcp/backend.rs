//! What answers the requests of one connection: the engine in this process ([`Local`]), or
//! something that a program puts in its place (a service elsewhere). The transport, its framing and
//! its way out are the same for both.

use std::pin::Pin;
use std::sync::Arc;

use serde_json::Value;

use super::jsonrpc::{Request, RpcError};
use super::outcome::ToolError;
use super::revision::Revision;
use super::server::{Answer, Call, Server, Subscription};
use super::session::Session;

/// Takes notifications to the client while a request is worked on.
pub type Notify = Box<dyn Fn(Value) + Send + Sync>;

/// A boxed future.
pub type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Answers the requests of one connection.
pub trait Backend: Send + Sync + 'static {
    /// Answers one request, or says how it goes on. Called in the order of their arrival; never
    /// waits.
    fn answer(&self, request: Request) -> Begun;

    /// The revision of requests that do not name their own.
    fn revision(&self) -> Revision;

    /// Ends what belongs to the connection. No work is running any more.
    fn close(&self) -> Boxed<'_, ()>;
}

/// How a request goes on.
pub enum Begun {
    /// Answered.
    Done(Result<Value, RpcError>),
    /// To be worked on, beside other requests.
    Work(Box<dyn Work>),
    /// A subscription (revision 2026-07-28): acknowledged, then open until cancelled.
    Listen(Subscription),
}

/// What a request needs to have done. Dropping it, or its future, stops it.
pub trait Work: Send {
    /// Does it, to its end.
    fn run(self: Box<Self>, notify: Notify) -> Boxed<'static, Result<Value, RpcError>>;

    /// The answer where it may not run.
    ///
    /// # Errors
    /// Where such a request has no other answer.
    fn refused(&self, error: ToolError) -> Result<Value, RpcError>;
}

impl Work for Call {
    fn run(self: Box<Self>, notify: Notify) -> Boxed<'static, Result<Value, RpcError>> {
        Box::pin(Self::run(*self, notify))
    }

    fn refused(&self, error: ToolError) -> Result<Value, RpcError> {
        Ok(Self::refused(self, error))
    }
}

/// The engine in this process.
pub struct Local {
    server: Arc<Server>,
    session: Arc<Session>,
}

impl Local {
    /// The tools of `server` for one client.
    #[must_use]
    pub fn new(server: Arc<Server>, session: Arc<Session>) -> Self {
        Self { server, session }
    }
}

impl Backend for Local {
    fn answer(&self, request: Request) -> Begun {
        match self.server.answer(&self.session, request) {
            Answer::Done(outcome) => Begun::Done(outcome),
            Answer::Call(call) => Begun::Work(Box::new(call)),
            Answer::Listen(subscription) => Begun::Listen(subscription),
        }
    }

    fn revision(&self) -> Revision {
        self.session.revision()
    }

    fn close(&self) -> Boxed<'_, ()> {
        Box::pin(self.session.close())
    }
}
