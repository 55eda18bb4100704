//! Layouts on disk.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::tar::{Tar, gzip, zstd};

pub const PLAIN: &str = "application/vnd.oci.image.layer.v1.tar";
pub const GZIP: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
pub const ZSTD: &str = "application/vnd.oci.image.layer.v1.tar+zstd";

pub fn digest(bytes: &[u8]) -> String {
    let hash: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hash}")
}

/// A layout that is being made.
pub struct Layout {
    pub dir: PathBuf,
}

impl Layout {
    pub fn new(dir: PathBuf) -> Self {
        std::fs::create_dir_all(dir.join("blobs/sha256")).unwrap();
        std::fs::write(dir.join("oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#).unwrap();
        Self { dir }
    }

    pub fn path_of(&self, digest: &str) -> PathBuf {
        self.dir.join("blobs").join(digest.replace(':', "/"))
    }

    pub fn blob(&self, bytes: &[u8], kind: &str) -> Value {
        let digest = digest(bytes);
        std::fs::write(self.path_of(&digest), bytes).unwrap();
        json!({"mediaType": kind, "digest": digest, "size": bytes.len()})
    }

    /// An image of layers, each an archive and the type in which it is packed. Gives its descriptor.
    pub fn image(&self, layers: &[(Vec<u8>, &str)]) -> Value {
        self.image_with(layers, &json!({}))
    }

    pub fn image_with(&self, layers: &[(Vec<u8>, &str)], process: &Value) -> Value {
        let packed = |(bytes, kind): &(Vec<u8>, &str)| {
            let packed = match *kind {
                GZIP => gzip(bytes),
                ZSTD => zstd(bytes),
                _ => bytes.clone(),
            };
            self.blob(&packed, kind)
        };
        let ids: Vec<String> = layers.iter().map(|(bytes, _)| digest(bytes)).collect();
        let config = json!({
            "architecture": "amd64", "os": "linux", "config": process,
            "rootfs": {"type": "layers", "diff_ids": ids},
        });
        let kind = "application/vnd.oci.image.config.v1+json";
        let config = self.blob(config.to_string().as_bytes(), kind);
        let manifest = json!({
            "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": config, "layers": layers.iter().map(packed).collect::<Vec<_>>(),
        });
        self.blob(manifest.to_string().as_bytes(), "application/vnd.oci.image.manifest.v1+json")
    }

    pub fn index(&self, manifests: &[Value]) {
        let index = json!({"schemaVersion": 2, "manifests": manifests});
        std::fs::write(self.dir.join("index.json"), index.to_string()).unwrap();
    }

    /// The whole layout as an archive.
    pub fn archive(&self, to: &Path) {
        let mut tar = Tar::default();
        for name in ["oci-layout", "index.json"] {
            let text = std::fs::read_to_string(self.dir.join(name)).unwrap();
            tar = tar.file(name, &text);
        }
        for blob in std::fs::read_dir(self.dir.join("blobs/sha256")).unwrap() {
            let blob = blob.unwrap();
            let name = format!("blobs/sha256/{}", blob.file_name().to_str().unwrap());
            let bytes = std::fs::read(blob.path()).unwrap();
            let head = crate::tar::Head::new(name.as_bytes(), b'0').size(bytes.len() as u64);
            tar = tar.head(head, &bytes);
        }
        std::fs::write(to, tar.done()).unwrap();
    }
}

/// A layout of one image.
pub fn layout(dir: PathBuf, layers: &[(Vec<u8>, &str)]) -> Layout {
    let layout = Layout::new(dir);
    let image = layout.image(layers);
    layout.index(&[image]);
    layout
}
