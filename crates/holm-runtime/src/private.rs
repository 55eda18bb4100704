//! Directories that nobody else may change: whoever can put a socket, an image or a lock into one
//! of ours, or another directory into its place, gets what is meant for sandboxes.
//!
//! Every directory on the way counts, because who owns one may rename what is in it. From the root
//! on, each must belong to us or to the superuser; so once one was looked at, nobody else can
//! change what the next look finds, and paths may be used afterwards.

use std::ffi::{OsStr, OsString};
use std::fs::{DirBuilder, Metadata, symlink_metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Component, Path, PathBuf};

use crate::driver::{DriverError, DriverErrorKind};
use crate::failure::{Attempt, Failure};

/// What a directory is for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Purpose {
    Data,
    Runtime,
    /// Locks that all holms of the host share.
    Locks,
}

/// As many links in a path as the kernel itself follows.
const MAX_LINKS: usize = 40;
/// Who owns what is outside of a user namespace.
const NOBODY: u32 = 65_534;
const OTHERS_WRITE: u32 = 0o002;
const ANYBODY_ELSE_WRITES: u32 = 0o022;
const STICKY: u32 = 0o1000;

/// Makes it, where it is missing, and every missing one above, for us alone; refuses one that
/// another user could change. One that is there already may be readable by others: all that is
/// made in it is not.
pub(crate) fn make(path: &Path, purpose: Purpose) -> Result<(), Failure> {
    let me = rustix::process::geteuid().as_raw();
    make_as(path, me).map_err(|problem| match problem {
        Problem::Io(error) => {
            Failure::internal(format!("make {} ({}): {error}", purpose.name(), path.display()))
        }
        Problem::Unsafe(at, flaw) => {
            let public = format!(
                "Another user could change {}, and so take over sandboxes; {}.",
                purpose.name(),
                purpose.mend()
            );
            Failure::of(DriverErrorKind::UnsafeDirectory, public).because(format!(
                "{}: {}",
                at.display(),
                flaw.text()
            ))
        }
    })
}

/// True for a directory that is there and that [`make`] would accept. What a path of an earlier time
/// leads to is to be believed only then: another user may have made it meanwhile.
pub(crate) fn is_ours(path: &Path) -> bool {
    let me = rustix::process::geteuid().as_raw();
    walk(path, me, |path| symlink_metadata(path)).is_ok()
}

/// Makes a data directory, or looks whether one that is there is for us alone. For who keeps more in
/// it than the driver does.
///
/// # Errors
/// When it cannot be made, or another user could change it.
pub fn make_data_dir(path: &Path) -> Result<(), DriverError> {
    Ok(make(path, Purpose::Data)?)
}

/// Makes a directory that must not have been there, in one that was made by [`make`].
pub(crate) fn make_new(path: &Path) -> Result<(), Failure> {
    DirBuilder::new().mode(0o700).create(path).tried("make a directory of an instance")
}

impl Purpose {
    fn name(self) -> &'static str {
        match self {
            Self::Data => "holm's data directory",
            Self::Runtime => "holm's runtime directory",
            Self::Locks => "the directory of id range locks",
        }
    }

    fn mend(self) -> &'static str {
        match self {
            Self::Data => "set HOLM_DATA_DIR to a directory that only you can write to",
            Self::Runtime => "set HOLM_RUNTIME_DIR to a directory that only you can write to",
            Self::Locks => "give it, and what it lies in, to the superuser alone",
        }
    }
}

#[derive(Debug)]
enum Problem {
    Io(io::Error),
    Unsafe(PathBuf, Flaw),
}

#[derive(Debug, PartialEq, Eq)]
enum Flaw {
    /// It belongs to this user.
    Owner(u32),
    /// Its mode lets others write.
    Mode(u32),
}

impl Flaw {
    fn text(&self) -> String {
        match self {
            Self::Owner(uid) => format!("belongs to user {uid}"),
            Self::Mode(mode) => format!("others may write to it (mode {mode:o})"),
        }
    }
}

impl From<io::Error> for Problem {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

fn make_as(path: &Path, me: u32) -> Result<(), Problem> {
    walk(path, me, find_or_make)
}

/// Goes from the root to a directory, and judges each on the way. `find` looks at one of them.
fn walk(path: &Path, me: u32, find: impl Fn(&Path) -> io::Result<Metadata>) -> Result<(), Problem> {
    let mut at = PathBuf::from("/");
    let mut meta = symlink_metadata(&at)?;
    let trusted = Trusted { me, outside: meta.uid() };
    let mut left = parts(&std::path::absolute(path)?);
    let mut links = 0;
    while let Some(part) = left.pop() {
        trusted.passable(&at, &meta)?;
        if part == ".." {
            at.pop();
            meta = symlink_metadata(&at)?;
            continue;
        }
        let next = at.join(part);
        let found = find(&next)?;
        if !found.is_symlink() {
            (at, meta) = (next, found);
            continue;
        }
        trusted.owner(&next, &found)?;
        links += 1;
        if links > MAX_LINKS {
            return Err(io::Error::from(rustix::io::Errno::LOOP).into());
        }
        let target = std::fs::read_link(&next)?;
        if target.is_absolute() {
            at = PathBuf::from("/");
            meta = symlink_metadata(&at)?;
        }
        left.append(&mut parts(&target));
    }
    trusted.ours(&at, &meta)
}

/// Its components, the last one first.
fn parts(path: &Path) -> Vec<OsString> {
    let named = path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name),
        Component::ParentDir => Some(OsStr::new("..")),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    });
    let mut parts: Vec<_> = named.map(OsStr::to_owned).collect();
    parts.reverse();
    parts
}

fn find_or_make(path: &Path) -> io::Result<Metadata> {
    match symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            match DirBuilder::new().mode(0o700).create(path) {
                // Somebody was faster; whose it is, is looked at.
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
                _ => symlink_metadata(path),
            }
        }
        found => found,
    }
}

/// Whose directories may be used.
struct Trusted {
    me: u32,
    /// Owner of the root directory: the superuser, or in a user namespace nobody, which is then
    /// how the superuser looks.
    outside: u32,
}

impl Trusted {
    fn owner(&self, at: &Path, meta: &Metadata) -> Result<(), Problem> {
        let uid = meta.uid();
        let superuser = uid == 0 || (uid == NOBODY && self.outside == NOBODY);
        if superuser || uid == self.me {
            return Ok(());
        }
        Err(Problem::Unsafe(at.to_owned(), Flaw::Owner(uid)))
    }

    /// On the way. Of a group's members its owner has chosen to be robbed; in `/tmp` and the like
    /// nobody can rename what belongs to another.
    fn passable(&self, at: &Path, meta: &Metadata) -> Result<(), Problem> {
        directory(meta)?;
        self.owner(at, meta)?;
        if meta.mode() & OTHERS_WRITE != 0 && meta.mode() & STICKY == 0 {
            return Err(Problem::Unsafe(at.to_owned(), Flaw::Mode(meta.mode() & 0o7777)));
        }
        Ok(())
    }

    /// At the end.
    fn ours(&self, at: &Path, meta: &Metadata) -> Result<(), Problem> {
        directory(meta)?;
        let flaw = if meta.uid() != self.me {
            Flaw::Owner(meta.uid())
        } else if meta.mode() & ANYBODY_ELSE_WRITES != 0 {
            Flaw::Mode(meta.mode() & 0o7777)
        } else {
            return Ok(());
        };
        Err(Problem::Unsafe(at.to_owned(), flaw))
    }
}

fn directory(meta: &Metadata) -> io::Result<()> {
    if meta.is_dir() { Ok(()) } else { Err(io::ErrorKind::NotADirectory.into()) }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    struct Place(PathBuf);

    impl Place {
        fn new(name: &str) -> Self {
            let dir =
                std::env::temp_dir().join(format!("holm-private-{name}-{}", std::process::id()));
            fs::create_dir(&dir).unwrap();
            fs::set_permissions(&dir, Permissions::from_mode(0o755)).unwrap();
            Self(dir)
        }

        fn dir(&self, name: &str, mode: u32) -> PathBuf {
            let path = self.0.join(name);
            fs::create_dir(&path).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            path
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn me() -> u32 {
        rustix::process::geteuid().as_raw()
    }

    /// Where it was refused, and why.
    fn refused(path: &Path, me: u32) -> (PathBuf, Flaw) {
        match make_as(path, me) {
            Err(Problem::Unsafe(at, flaw)) => (at, flaw),
            other => panic!("{}: {other:?}", path.display()),
        }
    }

    #[test]
    fn what_is_missing_is_made_for_us_alone() {
        let place = Place::new("new");
        let path = place.0.join("a/../a/b");
        make_as(&path, me()).unwrap();
        make_as(&path, me()).unwrap();
        for made in ["a", "a/b"] {
            assert_eq!(place.0.join(made).metadata().unwrap().mode() & 0o7777, 0o700, "{made}");
        }
        // As an administrator or a service manager makes them.
        make_as(&place.dir("given", 0o755), me()).unwrap();
        assert!(make_new(&place.0.join("given")).is_err(), "it was there");
    }

    #[test]
    fn what_is_believed_is_not_made() {
        let place = Place::new("believed");
        assert!(is_ours(&place.dir("ours", 0o700)));
        assert!(!is_ours(&place.dir("open", 0o777)));
        assert!(!is_ours(&place.0.join("gone")));
        assert!(!place.0.join("gone").exists());
    }

    #[test]
    fn a_directory_that_others_may_write_to_is_refused() {
        let place = Place::new("mode");
        for (name, mode) in
            [("group", 0o770), ("others", 0o702), ("all", 0o777), ("sticky", 0o1777)]
        {
            let dir = place.dir(name, mode);
            assert_eq!(refused(&dir, me()), (dir, Flaw::Mode(mode)));
        }
        // On the way only what would let others rename our own.
        assert_eq!(
            refused(&place.0.join("all/deep"), me()),
            (place.0.join("all"), Flaw::Mode(0o777))
        );
        make_as(&place.0.join("sticky/deep"), me()).unwrap();
        make_as(&place.0.join("group/deep"), me()).unwrap();
    }

    #[test]
    fn a_directory_of_somebody_else_is_refused_at_the_end_and_on_the_way() {
        let place = Place::new("owner");
        // The root of all is the superuser's or nobody's; to be neither of them, be another user.
        let theirs = place.dir("theirs", 0o700);
        if me() == 0 {
            std::os::unix::fs::chown(&theirs, Some(12_345), None).unwrap();
        }
        let (us, them) = if me() == 0 { (0, 12_345) } else { (me() + 1, me()) };
        let first = if me() == 0 { &theirs } else { &place.0 };
        assert_eq!(refused(&theirs.join("a"), us), (first.clone(), Flaw::Owner(them)));
        assert!(!theirs.join("a").exists(), "nothing is made in it");
        if me() == 0 {
            assert_eq!(refused(&theirs, us), (theirs.clone(), Flaw::Owner(them)));
            // The superuser's own is passable for a user, and is not the user's.
            let ours = place.dir("ours", 0o755);
            assert_eq!(refused(&ours, 12_345), (ours, Flaw::Owner(0)));
        }
    }

    #[test]
    fn a_link_is_followed_when_it_and_what_it_leads_to_are_ours() {
        let place = Place::new("link");
        let (real, open) = (place.dir("real", 0o700), place.dir("open", 0o777));
        let link = |name: &str, target: &Path| {
            symlink(target, place.0.join(name)).unwrap();
            place.0.join(name)
        };
        make_as(&link("absolute", &real), me()).unwrap();
        make_as(
            &link(
                "relative",
                Path::new("../").join(place.0.file_name().unwrap()).join("real").as_path(),
            ),
            me(),
        )
        .unwrap();
        assert_eq!(refused(&link("to-open", &open), me()), (open, Flaw::Mode(0o777)));
        let round = link("round", Path::new("round"));
        assert!(matches!(make_as(&round, me()), Err(Problem::Io(_))));
        let file = place.0.join("file");
        fs::write(&file, "").unwrap();
        assert!(matches!(make_as(&file, me()), Err(Problem::Io(_))));
        if me() == 0 {
            let theirs = link("theirs", &real);
            std::os::unix::fs::lchown(&theirs, Some(12_345), None).unwrap();
            assert_eq!(refused(&theirs, 0), (theirs, Flaw::Owner(12_345)));
        }
    }

    #[test]
    fn the_message_says_what_to_do_and_the_log_says_where() {
        let place = Place::new("text");
        let dir = place.dir("all", 0o777);
        let failure = make(&dir, Purpose::Runtime).unwrap_err();
        assert_eq!(failure.kind, DriverErrorKind::UnsafeDirectory);
        assert!(failure.public.contains("set HOLM_RUNTIME_DIR"), "{failure:?}");
        assert!(!failure.public.contains("holm-private"), "{failure:?}");
        assert!(failure.internal.contains(dir.to_str().unwrap()), "{failure:?}");
    }
}
