//! Writes the root's lowest layer.

use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;

use super::{Fingerprint, copy, etc, make_dir, make_file};

/// Directories with their modes, in the order in which they can be made.
const DIRS: [(&str, u32); 38] = [
    ("boot", 0o755),
    ("dev", 0o755),
    ("etc", 0o755),
    ("etc/apt", 0o755),
    ("etc/apt/sources.list.d", 0o755),
    ("etc/opt", 0o755),
    ("etc/profile.d", 0o755),
    ("etc/ssl", 0o755),
    ("home", 0o755),
    ("media", 0o755),
    ("mnt", 0o755),
    ("opt", 0o755),
    ("proc", 0o555),
    ("root", 0o700),
    ("run", 0o755),
    ("run/lock", 0o1777),
    ("srv", 0o755),
    ("sys", 0o555),
    ("tmp", 0o1777),
    ("var", 0o755),
    ("var/cache", 0o755),
    ("var/cache/apt", 0o755),
    ("var/cache/apt/archives", 0o755),
    ("var/cache/apt/archives/partial", 0o700),
    ("var/cache/fontconfig", 0o755),
    ("var/lib", 0o755),
    ("var/lib/apt", 0o755),
    ("var/lib/apt/lists", 0o755),
    ("var/lib/apt/lists/partial", 0o700),
    ("var/lib/dpkg", 0o755),
    ("var/lib/dpkg/info", 0o755),
    ("var/lib/dpkg/updates", 0o755),
    ("var/lib/misc", 0o755),
    ("var/local", 0o755),
    ("var/log", 0o755),
    ("var/opt", 0o755),
    ("var/spool", 0o755),
    ("var/tmp", 0o1777),
];

/// Sources whose change makes the template new.
const SOURCES: [&str; 7] = [
    "/etc/alternatives",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf.d",
    "/etc/ssl/certs",
    "/etc/os-release",
    "/etc/localtime",
    "/etc",
];

/// Bytes of a certificate at most.
const MAX_AUTHORITY: u64 = 64 << 10;

/// Names the state of the host that a template is made from.
pub(super) fn fingerprint(authority: &Path) -> u64 {
    let mut print = Fingerprint::new();
    print.add_path(authority);
    print.add(&rustix::process::geteuid().as_raw().to_le_bytes());
    SOURCES.iter().for_each(|path| print.add_path(Path::new(path)));
    for name in ["bin", "sbin", "lib", "lib64"] {
        if let Ok(target) = std::fs::read_link(format!("/{name}")) {
            print.add(target.as_os_str().as_encoded_bytes());
        }
    }
    print.0
}

/// Writes the template into the empty directory `root`; `trees` are mounted over it later. What is
/// in `authority`, if it is there, is trusted besides what the host trusts.
pub(super) fn write(root: &Path, trees: &[String], authority: &Path) -> io::Result<()> {
    for (path, mode) in DIRS {
        make_dir(&root.join(path), mode)?;
    }
    for name in trees {
        make_dir(&root.join(name), 0o755)?;
    }
    // The merged /usr's links, as the host has them.
    for name in ["bin", "sbin", "lib", "lib32", "lib64", "libx32"] {
        if let Ok(target) = std::fs::read_link(format!("/{name}")) {
            symlink(target, root.join(name))?;
        }
    }
    symlink("/run", root.join("var/run"))?;
    symlink("/run/lock", root.join("var/lock"))?;
    symlink("/home/sandbox", root.join("home/user"))?;
    make_file(&root.join("var/lib/dpkg/status"), b"", 0o644)?;
    write_etc(&root.join("etc"))?;
    trust(&root.join("etc/ssl/certs"), authority)
}

/// Adds a certificate to those that programs read from one file.
fn trust(certs: &Path, authority: &Path) -> io::Result<()> {
    let more = match std::fs::File::open(authority) {
        Ok(file) => {
            let mut text = String::new();
            file.take(MAX_AUTHORITY).read_to_string(&mut text)?;
            text
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    if !certs.is_dir() {
        make_dir(certs, 0o755)?;
    }
    let bundle = certs.join("ca-certificates.crt");
    // The host's, for here it may be a link that leads elsewhere.
    let host = Path::new("/etc/ssl/certs/ca-certificates.crt");
    let mut text = match std::fs::read_to_string(host) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error),
    };
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(&more);
    match std::fs::remove_file(&bundle) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => make_file(&bundle, text.as_bytes(), 0o644),
    }
}

fn write_etc(etc_dir: &Path) -> io::Result<()> {
    for (name, text) in [
        ("passwd", etc::PASSWD),
        ("group", etc::GROUP),
        ("nsswitch.conf", etc::NSSWITCH),
        ("resolv.conf", crate::network::resolver::BOTH),
        ("profile", etc::PROFILE),
        ("shells", "/bin/sh\n/bin/bash\n"),
        ("fstab", ""),
        ("motd", ""),
        ("environment", ""),
    ] {
        make_file(&etc_dir.join(name), text.as_bytes(), 0o644)?;
    }
    symlink("/proc/self/mounts", etc_dir.join("mtab"))?;
    let host = Path::new("/etc");
    let mut entries = 0;
    for entry in std::fs::read_dir(host)? {
        let name = entry?.file_name();
        let Some(name) = name.to_str() else { continue };
        let listed = etc::FROM_HOST.contains(&name)
            || etc::FROM_HOST_PREFIX.iter().any(|prefix| name.starts_with(prefix));
        if listed {
            copy_followed(&host.join(name), &etc_dir.join(name), &mut entries)?;
        }
    }
    // Certificates, never /etc/ssl/private.
    for name in ["certs", "openssl.cnf"] {
        let not_private = |name: &str| !name.contains("private") && !name.ends_with(".key");
        copy::tree(
            &host.join("ssl").join(name),
            &etc_dir.join("ssl").join(name),
            &not_private,
            &mut entries,
        )?;
    }
    write_apt_sources(etc_dir)
}

/// Copies; a link that leaves /usr and /etc (an operator's own arrangement) is replaced by what it
/// points to, because its target will not be there.
fn copy_followed(from: &Path, to: &Path, entries: &mut usize) -> io::Result<()> {
    let Ok(meta) = std::fs::symlink_metadata(from) else { return Ok(()) };
    if meta.is_symlink() {
        let target = std::fs::canonicalize(from).unwrap_or_default();
        if !target.starts_with("/usr") && !target.starts_with("/etc") {
            return copy::tree(&target, to, &|_| true, entries);
        }
    }
    copy::tree(from, to, &|_| true, entries)
}

/// Package sources, with whatever could be a credential removed.
fn write_apt_sources(etc_dir: &Path) -> io::Result<()> {
    let host = Path::new("/etc/apt");
    let mut files = vec!["sources.list".to_owned()];
    if let Ok(list) = std::fs::read_dir(host.join("sources.list.d")) {
        for entry in list.flatten() {
            let name = entry.file_name();
            if let Some(name) =
                name.to_str().filter(|n| n.ends_with(".list") || n.ends_with(".sources"))
            {
                files.push(format!("sources.list.d/{name}"));
            }
        }
    }
    for name in files {
        let path = host.join(&name);
        let readable = std::fs::metadata(&path).is_ok_and(|m| m.is_file() && m.mode() & 0o004 != 0);
        if readable && let Ok(text) = std::fs::read_to_string(&path) {
            let clean: String = text.lines().map(|line| without_userinfo(line) + "\n").collect();
            make_file(&etc_dir.join("apt").join(&name), clean.as_bytes(), 0o644)?;
        }
    }
    Ok(())
}

/// Removes `user:password@` from every address in a line.
fn without_userinfo(line: &str) -> String {
    let mut clean = String::new();
    let mut rest = line;
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + 3);
        clean.push_str(before);
        let end = after.find(|c: char| c == '/' || c.is_whitespace()).unwrap_or(after.len());
        let (authority, tail) = after.split_at(end);
        clean.push_str(authority.rsplit_once('@').map_or(authority, |(_, host)| host));
        rest = tail;
    }
    clean.push_str(rest);
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_leave_package_sources() {
        for (line, want) in [
            ("deb https://u:p@host/debian x main", "deb https://host/debian x main"),
            ("deb http://host/debian x main", "deb http://host/debian x main"),
            ("URIs: https://a@h:80/ http://b:c@i", "URIs: https://h:80/ http://i"),
            ("# no address user@example.org", "# no address user@example.org"),
        ] {
            assert_eq!(without_userinfo(line), want);
        }
    }

    #[test]
    fn holds_no_secret_of_the_host() {
        let root = std::env::temp_dir().join(format!("holm-skeleton-{}", std::process::id()));
        std::fs::create_dir(&root).unwrap();
        let authority = root.with_extension("crt");
        std::fs::write(&authority, "the gate's\n").unwrap();
        write(&root, &["usr".into()], &authority).unwrap();
        let bundle = root.join("etc/ssl/certs/ca-certificates.crt");
        assert!(std::fs::read_to_string(bundle).unwrap().ends_with("the gate's\n"));
        let with = fingerprint(&authority);
        std::fs::remove_file(&authority).unwrap();
        assert_ne!(fingerprint(&authority), with, "another template");
        for path in ["etc/shadow", "etc/machine-id", "etc/ssh", "etc/ssl/private", "etc/hostname"] {
            assert!(!root.join(path).exists(), "{path}");
        }
        for path in ["etc/passwd", "etc/group", "etc/nsswitch.conf", "usr", "tmp"] {
            assert!(root.join(path).exists(), "{path}");
        }
        assert_eq!(root.join("tmp").metadata().unwrap().mode() & 0o7777, 0o1777);
        std::fs::remove_dir_all(root).unwrap();
    }
}
