//! Archives byte by byte, so that every field can be wrong.

/// An archive that grows.
#[derive(Clone, Default)]
pub struct Tar(Vec<u8>);

/// A header, to be changed before it is added.
#[derive(Clone)]
pub struct Head {
    pub block: [u8; 512],
}

fn octal(field: &mut [u8], value: u64) {
    let digits = field.len() - 1;
    field[..digits].copy_from_slice(format!("{value:0digits$o}").as_bytes());
    field[digits] = 0;
}

impl Head {
    pub fn new(name: &[u8], kind: u8) -> Self {
        let mut block = [0; 512];
        block[..name.len()].copy_from_slice(name);
        block[156] = kind;
        block[257..265].copy_from_slice(b"ustar\x0000");
        let mode = if kind == b'5' { 0o755 } else { 0o644 };
        Self { block }.mode(mode).owner(0, 0).size(0).mtime(1_000_000)
    }

    pub fn mode(mut self, mode: u64) -> Self {
        octal(&mut self.block[100..108], mode);
        self
    }

    pub fn owner(mut self, uid: u64, gid: u64) -> Self {
        for (at, id) in [(108, uid), (116, gid)] {
            if id > 0o7_777_777 {
                self.block[at..at + 8].copy_from_slice(&id.to_be_bytes());
                self.block[at] = 0x80;
            } else {
                octal(&mut self.block[at..at + 8], id);
            }
        }
        self
    }

    pub fn size(mut self, size: u64) -> Self {
        octal(&mut self.block[124..136], size);
        self
    }

    pub fn mtime(mut self, time: u64) -> Self {
        octal(&mut self.block[136..148], time);
        self
    }

    pub fn link(mut self, target: &[u8]) -> Self {
        self.block[157..157 + target.len()].copy_from_slice(target);
        self
    }

    /// As GNU's programs have it.
    pub fn gnu(mut self) -> Self {
        self.block[257..265].copy_from_slice(b"ustar  \0");
        self
    }

    fn sealed(mut self) -> [u8; 512] {
        self.block[148..156].fill(b' ');
        let sum: u64 = self.block.iter().map(|byte| u64::from(*byte)).sum();
        octal(&mut self.block[148..155], sum);
        self.block
    }
}

impl Tar {
    pub fn head(mut self, head: Head, content: &[u8]) -> Self {
        self.0.extend(head.sealed());
        self.raw(content)
    }

    /// Bytes, filled up to a block.
    pub fn raw(mut self, content: &[u8]) -> Self {
        self.0.extend(content);
        self.0.resize(self.0.len().next_multiple_of(512), 0);
        self
    }

    pub fn file(self, name: &str, content: &str) -> Self {
        let head = Head::new(name.as_bytes(), b'0').size(content.len() as u64);
        self.head(head, content.as_bytes())
    }

    pub fn dir(self, name: &str) -> Self {
        self.head(Head::new(name.as_bytes(), b'5'), b"")
    }

    pub fn symlink(self, name: &str, target: &str) -> Self {
        self.head(Head::new(name.as_bytes(), b'2').link(target.as_bytes()), b"")
    }

    pub fn hard(self, name: &str, target: &str) -> Self {
        self.head(Head::new(name.as_bytes(), b'1').link(target.as_bytes()), b"")
    }

    /// Records for the next entry.
    pub fn pax(self, records: &[(&str, &[u8])]) -> Self {
        let mut text = Vec::new();
        for (key, value) in records {
            let rest = key.len() + value.len() + 3;
            let length = (rest + 1..).find(|length| rest + length.to_string().len() == *length);
            text.extend(format!("{} {key}=", length.unwrap()).as_bytes());
            text.extend(*value);
            text.push(b'\n');
        }
        let head = Head::new(b"pax", b'x').size(text.len() as u64);
        self.head(head, &text)
    }

    /// GNU's long name for the next entry.
    pub fn long(self, kind: u8, name: &[u8]) -> Self {
        let name = [name, b"\0"].concat();
        self.head(Head::new(b"././@LongLink", kind).gnu().size(name.len() as u64), &name)
    }

    pub fn done(mut self) -> Vec<u8> {
        self.0.extend([0; 1024]);
        self.0
    }

    /// Without the blocks that end it.
    pub fn open(self) -> Vec<u8> {
        self.0
    }
}

pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    use std::io::Write as _;
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    out.write_all(bytes).unwrap();
    out.finish().unwrap()
}

pub fn zstd(bytes: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest)
}
