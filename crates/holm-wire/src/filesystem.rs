//! `filesystem.Filesystem` of envd: look at, change and watch files.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Kind of an entry, with envd's names.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum FileType {
    /// Anything else: a pipe, a socket, a device.
    #[default]
    #[serde(rename = "FILE_TYPE_UNSPECIFIED")]
    Unspecified,
    /// A regular file.
    #[serde(rename = "FILE_TYPE_FILE")]
    File,
    /// A directory.
    #[serde(rename = "FILE_TYPE_DIRECTORY")]
    Directory,
    /// A symbolic link.
    #[serde(rename = "FILE_TYPE_SYMLINK")]
    Symlink,
}

/// One entry.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct EntryInfo {
    /// Last part of the path.
    pub name: String,
    /// Its kind.
    pub r#type: FileType,
    /// Absolute path.
    pub path: String,
    /// Bytes.
    #[serde(with = "crate::encoding::int64")]
    pub size: i64,
    /// Permission bits.
    pub mode: u32,
    /// As `ls` prints them.
    pub permissions: String,
    /// Owner's name, or its number where it has none.
    pub owner: String,
    /// Group's name, or its number.
    pub group: String,
    /// RFC 3339, UTC.
    pub modified_time: String,
    /// Where a link points.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub symlink_target: Option<String>,
    /// `user.*` attributes set on upload.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
}

impl EntryInfo {
    /// True for a directory; a link to one is none.
    #[must_use]
    pub fn is_directory(&self) -> bool {
        self.r#type == FileType::Directory
    }
}

/// Request of `Stat`, `MakeDir`, `Remove`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PathRequest {
    /// Absolute, or relative to the user's home.
    pub path: String,
}

/// Request of `ListDir`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ListDirRequest {
    /// The directory.
    pub path: String,
    /// How many levels; 0 and 1 both mean one.
    pub depth: u32,
}

/// Request of `Move`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MoveRequest {
    /// What to move.
    pub source: String,
    /// Where to.
    pub destination: String,
}

/// Response of `Stat`, `MakeDir`, `Move`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct EntryResponse {
    /// The entry.
    pub entry: EntryInfo,
}

/// Response of `ListDir`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ListDirResponse {
    /// What is there.
    pub entries: Vec<EntryInfo>,
}

/// Request of `WatchDir` (server stream of [`WatchResponse`]) and `CreateWatcher`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WatchRequest {
    /// The directory.
    pub path: String,
    /// Also below it.
    pub recursive: bool,
}

/// One message of the `WatchDir` stream (a protobuf oneof: one key).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[allow(clippy::large_enum_variant, reason = "one lives at a time, for as long as it is encoded")]
pub enum WatchResponse {
    /// The watch is set; always first.
    Start(crate::process::Empty),
    /// Something changed.
    Filesystem(FilesystemEvent),
    /// Nothing happened for a while.
    Keepalive(crate::process::Empty),
}

/// What changed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FilesystemEvent {
    /// Relative to the watched directory.
    pub name: String,
    /// What happened to it.
    pub r#type: EventType,
    /// The entry afterwards, if it is still there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entry: Option<EntryInfo>,
}

/// Kind of a change, with envd's names.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub enum EventType {
    /// Also: events were lost (queue overflow); list the directory again.
    #[default]
    #[serde(rename = "EVENT_TYPE_UNSPECIFIED")]
    Unspecified,
    #[serde(rename = "EVENT_TYPE_CREATE")]
    Create,
    #[serde(rename = "EVENT_TYPE_WRITE")]
    Write,
    #[serde(rename = "EVENT_TYPE_REMOVE")]
    Remove,
    #[serde(rename = "EVENT_TYPE_RENAME")]
    Rename,
    #[serde(rename = "EVENT_TYPE_CHMOD")]
    Chmod,
}

/// Response of `CreateWatcher`; request of `GetWatcherEvents` and `RemoveWatcher`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Watcher {
    /// Which watcher.
    pub watcher_id: String,
}

/// Response of `GetWatcherEvents`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WatcherEvents {
    /// Since the last call.
    pub events: Vec<FilesystemEvent>,
}

/// Body of `POST /files/compose`: the sources become one file and are removed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ComposeRequest {
    /// In the order of their content.
    pub source_paths: Vec<String>,
    /// The file that they become.
    pub destination: String,
    /// As whom.
    pub username: Option<String>,
}

/// One row of the answer to `POST /files`; the answer to `POST /files/compose`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WriteInfo {
    /// Absolute path.
    pub path: String,
    /// Last part of it.
    pub name: String,
    /// Always `file`.
    pub r#type: String,
    /// Attributes given with the upload.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
}
