//! Where each call lives on the guest's socket.

#![allow(missing_docs, reason = "the names are the protocol's own")]

/// envd's process service.
pub mod process {
    pub const START: &str = "/process.Process/Start";
    pub const CONNECT: &str = "/process.Process/Connect";
    pub const LIST: &str = "/process.Process/List";
    pub const SEND_INPUT: &str = "/process.Process/SendInput";
    pub const STREAM_INPUT: &str = "/process.Process/StreamInput";
    pub const CLOSE_STDIN: &str = "/process.Process/CloseStdin";
    pub const SEND_SIGNAL: &str = "/process.Process/SendSignal";
    pub const UPDATE: &str = "/process.Process/Update";
}

/// envd's filesystem service.
pub mod filesystem {
    pub const STAT: &str = "/filesystem.Filesystem/Stat";
    pub const LIST_DIR: &str = "/filesystem.Filesystem/ListDir";
    pub const MAKE_DIR: &str = "/filesystem.Filesystem/MakeDir";
    pub const MOVE: &str = "/filesystem.Filesystem/Move";
    pub const REMOVE: &str = "/filesystem.Filesystem/Remove";
    pub const WATCH_DIR: &str = "/filesystem.Filesystem/WatchDir";
    pub const CREATE_WATCHER: &str = "/filesystem.Filesystem/CreateWatcher";
    pub const GET_WATCHER_EVENTS: &str = "/filesystem.Filesystem/GetWatcherEvents";
    pub const REMOVE_WATCHER: &str = "/filesystem.Filesystem/RemoveWatcher";
}

/// What envd lacks.
pub mod guest {
    /// Unary: [`crate::guest::Configure`] → [`crate::guest::Configured`].
    pub const CONFIGURE: &str = "/holm.guest.v1.Guest/Configure";
    /// Unary: [`crate::guest::RunRequest`] → [`crate::guest::RunResponse`].
    pub const RUN: &str = "/holm.guest.v1.Guest/Run";
    /// Unary: [`crate::background::StartRequest`] → [`crate::background::Started`].
    pub const START_BACKGROUND: &str = "/holm.guest.v1.Guest/StartBackground";
    /// Unary: [`crate::background::GetRequest`] → [`crate::background::Command`].
    pub const GET_BACKGROUND: &str = "/holm.guest.v1.Guest/GetBackground";
    /// Unary: nothing → [`crate::background::List`].
    pub const LIST_BACKGROUND: &str = "/holm.guest.v1.Guest/ListBackground";
    /// Unary: [`crate::background::InputRequest`] → nothing.
    pub const SEND_BACKGROUND_INPUT: &str = "/holm.guest.v1.Guest/SendBackgroundInput";
    /// Unary: [`crate::background::KillRequest`] → [`crate::background::Command`].
    pub const KILL_BACKGROUND: &str = "/holm.guest.v1.Guest/KillBackground";
    /// Unary: [`crate::kernel::CreateRequest`] → [`crate::kernel::Context`].
    pub const CREATE_CONTEXT: &str = "/holm.guest.v1.Guest/CreateContext";
    /// Unary: nothing → [`crate::kernel::List`].
    pub const LIST_CONTEXTS: &str = "/holm.guest.v1.Guest/ListContexts";
    /// Unary: [`crate::kernel::Named`] → [`crate::kernel::Context`]: its kernel ends, and the next
    /// code has a new one.
    pub const RESTART_CONTEXT: &str = "/holm.guest.v1.Guest/RestartContext";
    /// Unary: [`crate::kernel::Named`] → nothing.
    pub const DELETE_CONTEXT: &str = "/holm.guest.v1.Guest/DeleteContext";
    /// Unary: [`crate::kernel::ExecuteRequest`] → [`crate::kernel::Answer`]. A caller that closes
    /// the connection interrupts the code.
    pub const EXECUTE: &str = "/holm.guest.v1.Guest/Execute";
    /// Header of `process.Process/Start`: the program ends, with all that it started, when its
    /// caller goes away.
    pub const OWNED: &str = "x-holm-owned";
    /// Unary: [`crate::guest::ListTreeRequest`] → [`crate::guest::ListTreeResponse`].
    pub const LIST_TREE: &str = "/holm.guest.v1.Guest/ListTree";
    /// `GET`/`PUT` with `path`, `user`, and on `PUT` `mode` (octal); body = the file's bytes.
    /// `GET` also takes `offset` and `limit` and answers `x-holm-size`, `x-holm-mode`.
    pub const FILE: &str = "/holm/v1/file";
    /// `PUT` with `path`, `user`, `mode` as above, `Connection: upgrade`, `Upgrade: holm-upload`:
    /// 101, then the content in frames (eight bytes of length, big endian, and the bytes; an empty
    /// one is the last), then one Connect frame back: [`crate::guest::FileWritten`] or the end of a
    /// stream that failed.
    pub const UPLOAD: &str = "/holm/v1/upload";
    /// What [`UPLOAD`] upgrades to.
    pub const UPLOAD_PROTOCOL: &str = "holm-upload";
    /// `GET`/`PUT` with `path`, `user`; body = a tar stream of the tree at `path`.
    pub const TAR: &str = "/holm/v1/tar";
    /// `POST` with `port`, `Connection: upgrade`, `Upgrade: holm-tunnel`: 101, then raw bytes to
    /// and from `127.0.0.1:port` (or `::1`) inside.
    pub const TUNNEL: &str = "/holm/v1/tunnel";
    /// What [`TUNNEL`] upgrades to.
    pub const TUNNEL_PROTOCOL: &str = "holm-tunnel";
}

/// envd's plain HTTP.
pub mod http {
    pub const HEALTH: &str = "/health";
    pub const METRICS: &str = "/metrics";
    pub const ENVS: &str = "/envs";
    pub const FILES: &str = "/files";
    pub const COMPOSE: &str = "/files/compose";
}
