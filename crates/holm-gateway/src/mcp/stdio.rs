//! The stdio transport: one JSON-RPC message a line, both ways, UTF-8.
//!
//! One task writes, so lines never mix; a bounded queue stands before it, so that a client that
//! does not read slows its own requests instead of filling the memory. Whatever ends the
//! connection (end of input, a signal, a client that closed its end of stdout) takes the same way
//! out: calls get a moment to end, the rest is stopped, the session's sandboxes are destroyed.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use holm_engine::{Engine, Room};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::backend::{Backend, Local};
use super::batch;
use super::dispatch::{Dispatch, MAX_CALLS, Queue, Told};
use super::jsonrpc::{self, INVALID_REQUEST, Message, RpcError, Text};
use super::lines::{Line, LineReader, MAX_LINE};
use super::revision::Revision;
use super::server::Server;
use super::session::Session;

/// Messages that may wait for the writer.
const QUEUE: usize = 32;
/// How long calls that were already received may go on after the end of input. Enough for
/// everything cheap and for a quick command at the end of a pipe, well within the two seconds
/// after which clients kill.
const GRACE: Duration = Duration::from_millis(700);
/// The same after a signal, which asks to end now.
const SIGNAL_GRACE: Duration = Duration::from_millis(200);
/// How long the last replies may take to be read.
const DRAIN: Duration = Duration::from_millis(500);

/// Resolves when the process is to end, such as after SIGTERM.
pub type Shutdown = Pin<Box<dyn Future<Output = ()> + Send>>;

/// How to serve.
pub struct StdioOptions {
    /// Template of sandboxes whose creator names none; the engine's default where absent.
    pub default_template: Option<String>,
    /// Ends the serving early.
    pub shutdown: Shutdown,
    /// The tools; [`Server::new`] has all.
    pub server: Arc<Server>,
    /// Calls that may run at once.
    pub max_calls: usize,
}

impl Default for StdioOptions {
    fn default() -> Self {
        Self {
            default_template: None,
            shutdown: Box::pin(std::future::pending()),
            server: Arc::new(Server::new()),
            max_calls: MAX_CALLS,
        }
    }
}

/// Why serving ended. Each is an orderly end: the session's sandboxes are gone.
#[derive(Debug)]
pub enum Ended {
    /// The client closed its end.
    EndOfInput,
    /// [`StdioOptions::shutdown`] resolved.
    Shutdown,
    /// The client no longer reads.
    OutputClosed,
    /// Input could not be read.
    InputFailed(std::io::Error),
}

/// Serves one client until it, or `options.shutdown`, ends it. When this returns, no work of the
/// session runs and its sandboxes are destroyed; the engine itself is left to the caller.
///
/// `output` receives protocol lines only. Where `input` reads in a thread, as `tokio::io::stdin()`
/// does, the caller must leave its process without waiting for the runtime: that thread cannot be
/// stopped.
pub async fn serve_stdio(
    engine: Engine,
    options: StdioOptions,
    input: impl AsyncRead + Send + Unpin,
    output: impl AsyncWrite + Send + Unpin + 'static,
) -> Ended {
    let StdioOptions { default_template, shutdown, server, max_calls } = options;
    let session = Arc::new(Session::new(engine, default_template, Revision::R2024_11_05));
    let backend = Arc::new(Local::new(server, session));
    serve_backend(backend, shutdown, max_calls, input, output).await
}

/// Serves one client whose requests `backend` answers, at most `max_calls` of them at once, until
/// its input ends, it no longer reads, or `shutdown` resolves. What belongs to the connection has
/// ended when this returns.
pub async fn serve_backend(
    backend: Arc<dyn Backend>,
    mut shutdown: Shutdown,
    max_calls: usize,
    input: impl AsyncRead + Send + Unpin,
    output: impl AsyncWrite + Send + Unpin + 'static,
) -> Ended {
    let (out, lines) = mpsc::channel(QUEUE);
    let mut writer = tokio::spawn(write_lines(lines, output));
    let mut reader = LineReader::new(input, MAX_LINE);
    let mut connection = Connection {
        dispatch: Dispatch::new(Arc::clone(&backend), out.clone(), max_calls),
        backend: Arc::clone(&backend),
        out,
    };

    let ended = tokio::select! {
        biased;
        () = &mut shutdown => Ended::Shutdown,
        _ = &mut writer => Ended::OutputClosed,
        ended = connection.serve(&mut reader) => ended,
    };
    tracing::debug!(?ended, "the connection ends");
    connection.close(&ended, writer).await;
    backend.close().await;
    ended
}

/// Writes messages, one a line, until the queue is closed or the output fails.
async fn write_lines(
    mut lines: mpsc::Receiver<Told>,
    mut output: impl AsyncWrite + Send + Unpin,
) -> std::io::Result<()> {
    // The room is given back when the line is written.
    while let Some(Told { message, room: _room }) = lines.recv().await {
        let mut line = serde_json::to_vec(&message)?;
        drop(message);
        line.push(b'\n');
        output.write_all(&line).await?;
        output.flush().await?;
    }
    output.shutdown().await
}

struct Connection {
    dispatch: Dispatch,
    backend: Arc<dyn Backend>,
    out: Queue,
}

impl Connection {
    async fn serve(&mut self, reader: &mut LineReader<impl AsyncRead + Unpin>) -> Ended {
        loop {
            let line = tokio::select! {
                line = reader.next() => line,
                () = self.dispatch.reap() => continue,
            };
            match line {
                Ok(Line::Whole(line)) => self.line(line).await,
                Ok(Line::TooLong) => {
                    self.refuse(&RpcError::new(
                        INVALID_REQUEST,
                        format!(
                            "Invalid request: the line is over the size limit of {MAX_LINE} bytes"
                        ),
                    ))
                    .await;
                }
                Ok(Line::End) => return Ended::EndOfInput,
                Err(error) => return Ended::InputFailed(error),
            }
        }
    }

    async fn line(&mut self, line: Bytes) {
        if line.iter().all(u8::is_ascii_whitespace) {
            return;
        }
        let text = jsonrpc::parse(&line);
        drop(line);
        match text {
            Text::One(message) => self.message(message, self.out.clone()).await,
            Text::Batch(items) => self.batch(items).await,
        }
    }

    async fn message(&mut self, message: Message, reply_to: Queue) {
        match message {
            Message::Request(request) => self.dispatch.request(request, reply_to).await,
            Message::Notification { method, params } => {
                if method == "notifications/cancelled" {
                    self.dispatch.cancel(&params);
                }
            }
            Message::Response => {}
            Message::Invalid { id, error } => {
                drop(reply_to.send(jsonrpc::error(id.as_ref(), &error).into()).await);
            }
        }
    }

    async fn refuse(&self, error: &RpcError) {
        drop(self.out.send(jsonrpc::error(None, error).into()).await);
    }

    /// A JSON array: its replies come as one array once the last is there.
    async fn batch(&mut self, items: Vec<Value>) {
        if let Err(error) = batch::judge(Some(self.backend.revision()), items.len()) {
            return self.refuse(&error).await;
        }
        // Room for all, so that nothing waits for the collector.
        let (reply_to, mut replies) = mpsc::channel::<Told>(items.len());
        let out = self.out.clone();
        tokio::spawn(async move {
            let (mut all, mut room) = (Vec::new(), Room::default());
            while let Some(reply) = replies.recv().await {
                all.push(reply.message);
                room.add(reply.room);
            }
            if !all.is_empty() {
                drop(out.send(Told { message: Value::Array(all), room }).await);
            }
        });
        for item in items {
            let message = batch::classify(item);
            self.message(message, reply_to.clone()).await;
        }
    }

    /// The way out: calls get a moment, the rest is stopped, the writer drains.
    async fn close(self, ended: &Ended, mut writer: JoinHandle<std::io::Result<()>>) {
        let Self { mut dispatch, out, .. } = self;
        if matches!(ended, Ended::OutputClosed) {
            drop(dispatch.stop().await);
            return;
        }
        let grace = if matches!(ended, Ended::Shutdown) { SIGNAL_GRACE } else { GRACE };
        drop(tokio::time::timeout(grace, dispatch.finish()).await);
        let farewells = dispatch.stop().await;
        let drained = tokio::time::timeout(DRAIN, async {
            // Where the client has left first there is nobody to tell.
            if matches!(ended, Ended::Shutdown) {
                for message in farewells {
                    drop(out.send(message.into()).await);
                }
            }
            drop(out);
            (&mut writer).await
        });
        if drained.await.is_err() {
            writer.abort();
        }
    }
}
