//! Files: what reading, writing and listing answer.

use bytes::Bytes;

/// Answer of `file_read`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileContent {
    /// The bytes.
    pub bytes: Bytes,
    /// Size of the whole file.
    pub size: u64,
    /// Its permission bits.
    pub mode: u32,
    /// True when the file goes on after these bytes.
    pub truncated: bool,
}

/// Answer of `file_write`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileWritten {
    /// Absolute path.
    pub path: String,
    /// Bytes written.
    pub bytes: u64,
}

/// One page of `file_list`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileList {
    /// Entries in the order of their paths.
    pub files: Vec<FileEntry>,
    /// Set when there is more: `after` of the next call.
    pub next: Option<String>,
    /// Directories that could not be read (some of them, where there are many).
    pub unreadable: Vec<String>,
}

/// One entry of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileEntry {
    /// Absolute path.
    pub path: String,
    /// Last part of it.
    pub name: String,
    /// `file`, `directory`, `symlink`, `other`.
    pub kind: &'static str,
    /// Bytes.
    pub size: u64,
    /// Permission bits.
    pub mode: u32,
    /// Seconds since 1970.
    pub mtime: i64,
    /// Where a link points.
    pub target: Option<String>,
}
