//! What a worker is asked, and what it answers.

use serde::{Deserialize, Serialize};

use crate::id::LayerId;

/// How a layer is packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Packing {
    /// Not compressed.
    Plain,
    /// gzip.
    Gzip,
    /// Zstandard.
    Zstd,
    /// Whatever its first bytes say: where nothing else tells it.
    Any,
}

/// What one layer may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Bytes: of the decompressed archive, and of the files in it, an image's with all their holes.
    pub bytes: u64,
    /// Entries.
    pub entries: u64,
    /// Bytes that stay free on the disk.
    pub reserve_bytes: u64,
    /// Memory of the worker.
    pub memory_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            bytes: 64 << 30,
            entries: 4_000_000,
            reserve_bytes: 1 << 30,
            memory_bytes: 512 << 20,
        }
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Task {
    /// The input is a layer; the root is empty.
    Unpack(Unpack),
    /// Empty the root.
    Remove,
}

/// How an archive says what a layer takes away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Form {
    /// As images do: by names that begin with `.wh.`.
    Image,
    /// As an overlay does ([`holm_runtime::LayerStream`]); all names are names of files.
    Overlay,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Unpack {
    pub packing: Packing,
    pub form: Form,
    pub limits: Limits,
    /// The last id that a file can have; none where all belong to the user.
    pub last_id: Option<u32>,
}

/// What became of a layer.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Unpacked {
    /// Digest of the decompressed archive.
    pub diff_id: Option<LayerId>,
    /// Bytes of content.
    pub bytes: u64,
    pub entries: u64,
    /// Devices that were left out.
    pub devices: u64,
    /// It has the files of an image's archive, not of a root file system.
    pub image: bool,
}
