//! Watching directories with inotify, recursively where asked.
//!
//! What the kernel reports is queued up to a bound. When the kernel's queue or this one overflows,
//! one event of unspecified type without a name says so: the directory must be listed again.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::ffi::{CStr, CString, OsStr};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::rc::Rc;
use std::sync::Arc;

use holm_wire::connect::{Code, Error};
use holm_wire::filesystem::{EventType, FilesystemEvent, WatchRequest, Watcher, WatcherEvents};
use holm_wire::process::Empty;
use rustix::fs::inotify::{CreateFlags, ReadFlags, Reader, WatchFlags, add_watch, init};
use rustix::fs::{CWD, Mode, OFlags, RawDir};
use rustix::io::Errno;
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;

use super::entry;
use super::envd::{target, trimmed};
use super::path::show;
use crate::errors::{self, Result, invalid, shorten};
use crate::identity::{Names, User};
use crate::state::Guest;

/// Directories that one watch covers.
const MAX_DIRECTORIES: usize = 8192;
/// Polling watchers at once.
const MAX_WATCHERS: usize = 64;
/// Events that wait in a polling watcher.
const MAX_EVENTS: usize = 4096;

/// A set watch: which directory (relative to the root) each number means.
pub struct Watch {
    inotify: Arc<AsyncFd<OwnedFd>>,
    root: CString,
    recursive: bool,
    directories: HashMap<i32, String>,
    user: User,
}

fn mask() -> WatchFlags {
    WatchFlags::CREATE
        | WatchFlags::MODIFY
        | WatchFlags::DELETE
        | WatchFlags::MOVED_FROM
        | WatchFlags::MOVED_TO
        | WatchFlags::ATTRIB
        | WatchFlags::ONLYDIR
}

fn failed(path: &CStr, error: Errno) -> Error {
    match error {
        Errno::NOTDIR => invalid(format!("{} is not a directory", shorten(&show(path)))),
        Errno::NOSPC => Error::new(
            Code::ResourceExhausted,
            "the system's limit of watches is reached (fs.inotify.max_user_watches)",
        ),
        Errno::MFILE => Error::new(
            Code::ResourceExhausted,
            "the system's limit of watchers is reached (fs.inotify.max_user_instances)",
        ),
        other => errors::file("watch", &show(path), other),
    }
}

fn join(above: &str, name: &str) -> String {
    if above.is_empty() { name.to_owned() } else { format!("{above}/{name}") }
}

/// The watches that were set, and what was seen below them.
type Tree = (Vec<(i32, String)>, Vec<String>);

/// Watches a directory and (where asked) those below it, and lists what is there below it.
/// Entries that cannot be watched are left out.
fn add_tree(
    inotify: &OwnedFd,
    path: &CStr,
    relative: String,
    recursive: bool,
    room: usize,
) -> rustix::io::Result<Tree> {
    let mut set = Vec::new();
    let mut seen = Vec::new();
    let mut waiting = vec![(path.to_owned(), relative)];
    while let Some((path, relative)) = waiting.pop() {
        if set.len() >= room {
            return Err(Errno::NOSPC);
        }
        match add_watch(inotify, &path, mask() | WatchFlags::DONT_FOLLOW) {
            Ok(number) => set.push((number, relative.clone())),
            Err(error) if set.is_empty() || error == Errno::NOSPC => return Err(error),
            Err(_) => continue,
        }
        if !recursive {
            continue;
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let Ok(directory) = rustix::fs::openat(CWD, &path, flags, Mode::empty()) else { continue };
        let mut buffer = Vec::with_capacity(16 << 10);
        let mut reader = RawDir::new(&directory, buffer.spare_capacity_mut());
        while let Some(Ok(entry)) = reader.next() {
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let below = join(&relative, &name.to_string_lossy());
            if entry.file_type().is_dir() {
                let full = [path.to_bytes(), b"/", name.to_bytes()].concat();
                waiting.push((CString::new(full).unwrap_or_default(), below.clone()));
            }
            if seen.len() < MAX_EVENTS {
                seen.push(below);
            }
        }
    }
    Ok((set, seen))
}

impl Watch {
    /// Sets a watch.
    ///
    /// # Errors
    /// When the path is no directory, the user may not read it, or limits are reached.
    pub async fn set(guest: &Guest, user: &str, request: &WatchRequest) -> Result<Self> {
        let (user, path) = target(guest, user, &request.path)?;
        let recursive = request.recursive;
        let work = move || {
            // A link to a directory may be watched, but what is watched is the directory.
            let root = resolve(&path).map_err(|error| failed(&path, error))?;
            let inotify = init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)
                .map_err(|error| failed(&root, error))?;
            let (set, _) = add_tree(&inotify, &root, String::new(), recursive, MAX_DIRECTORIES)
                .map_err(|error| failed(&root, error))?;
            Ok((inotify, root, set))
        };
        let (inotify, root, set) = guest.files.run(&user, work).await??;
        let inotify = crate::sys::raw::watched(inotify)
            .map_err(|error| errors::internal("cannot watch a directory", error))?;
        let directories = set.into_iter().collect();
        Ok(Self { inotify: Arc::new(inotify), root, recursive, directories, user })
    }

    /// Waits until there are events. May be given up at any time.
    pub async fn ready(&self) {
        // An error shows again, with its text, when the events are read.
        let _ = self.inotify.readable().await;
    }

    /// Waits for events and gives them, with what is known of each entry. Given up half-way, it
    /// loses events.
    ///
    /// # Errors
    /// When the watch can go on no longer.
    pub async fn next(&mut self, guest: &Guest) -> Result<Vec<FilesystemEvent>> {
        let mut raw = Vec::new();
        while raw.is_empty() {
            let mut ready = self
                .inotify
                .readable()
                .await
                .map_err(|error| errors::internal("cannot read events", error))?;
            let mut buffer = [MaybeUninit::<u8>::uninit(); 16 << 10];
            let mut reader = Reader::new(self.inotify.get_ref(), &mut buffer);
            loop {
                match reader.next() {
                    Ok(event) => raw.push((
                        event.wd(),
                        event.events(),
                        event.file_name().map(CStr::to_owned),
                    )),
                    Err(Errno::AGAIN) => {
                        ready.clear_ready();
                        break;
                    }
                    Err(Errno::INTR) => {}
                    Err(error) => return Err(errors::internal("cannot read events", error)),
                }
                if raw.len() >= 1024 {
                    break;
                }
            }
        }
        self.translate(guest, raw).await
    }

    async fn translate(
        &mut self,
        guest: &Guest,
        raw: Vec<(i32, ReadFlags, Option<CString>)>,
    ) -> Result<Vec<FilesystemEvent>> {
        let mut events = Vec::new();
        for (number, flags, name) in raw {
            if flags.contains(ReadFlags::QUEUE_OVERFLOW) {
                events.push(FilesystemEvent::default());
                continue;
            }
            if flags.contains(ReadFlags::IGNORED) {
                self.directories.remove(&number);
                continue;
            }
            let (Some(above), Some(name)) = (self.directories.get(&number).cloned(), name) else {
                continue;
            };
            let relative = join(&above, &name.to_string_lossy());
            for kind in kinds(flags) {
                events.push(FilesystemEvent { name: relative.clone(), r#type: kind, entry: None });
            }
            let appeared = flags.intersects(ReadFlags::CREATE | ReadFlags::MOVED_TO);
            if self.recursive && appeared && flags.contains(ReadFlags::ISDIR) {
                self.descend(guest, &above, &name, relative, &mut events).await?;
            }
        }
        // Many writes in a row say no more than one.
        events.dedup_by(|one, other| one.r#type == EventType::Write && one == other);
        self.fill(guest, events).await
    }

    /// A new directory: watch it too, and report what was already put into it.
    async fn descend(
        &mut self,
        guest: &Guest,
        above: &str,
        name: &CStr,
        relative: String,
        events: &mut Vec<FilesystemEvent>,
    ) -> Result<()> {
        let mut full = self.root.to_bytes().to_vec();
        if !above.is_empty() {
            full.push(b'/');
            full.extend_from_slice(above.as_bytes());
        }
        full.push(b'/');
        full.extend_from_slice(name.to_bytes());
        let full = CString::new(full).unwrap_or_default();
        let inotify = Arc::clone(&self.inotify);
        let room = MAX_DIRECTORIES.saturating_sub(self.directories.len());
        let work = move || add_tree(inotify.get_ref(), &full, relative, true, room);
        match guest.files.run(&self.user, work).await? {
            Ok((set, seen)) => {
                self.directories.extend(set);
                events.extend(seen.into_iter().map(|name| FilesystemEvent {
                    name,
                    r#type: EventType::Create,
                    entry: None,
                }));
            }
            // It is gone again.
            Err(Errno::NOENT | Errno::NOTDIR) => {}
            // What is below cannot be watched: say that events are missing.
            Err(_) => events.push(FilesystemEvent::default()),
        }
        Ok(())
    }

    /// Adds what each entry looks like now.
    async fn fill(
        &self,
        guest: &Guest,
        mut events: Vec<FilesystemEvent>,
    ) -> Result<Vec<FilesystemEvent>> {
        let root = self.root.clone();
        let work = move || {
            let names = Names::load();
            for event in events.iter_mut().filter(|event| !event.name.is_empty()) {
                let full = [root.to_bytes(), b"/", event.name.as_bytes()].concat();
                let full = CString::new(full).unwrap_or_default();
                event.entry = entry::read(CWD, &full, show(&full), &names).ok();
            }
            events
        };
        guest.files.run(&self.user, work).await
    }
}

/// The directory that a path leads to, without links and without a slash at the end.
fn resolve(path: &CStr) -> rustix::io::Result<CString> {
    let real = std::fs::canonicalize(OsStr::from_bytes(path.to_bytes()))
        .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    let real =
        CString::new(real.into_os_string().into_encoded_bytes()).map_err(|_| Errno::INVAL)?;
    Ok(trimmed(&real))
}

fn kinds(flags: ReadFlags) -> impl Iterator<Item = EventType> {
    [
        (ReadFlags::CREATE | ReadFlags::MOVED_TO, EventType::Create),
        (ReadFlags::MODIFY, EventType::Write),
        (ReadFlags::DELETE, EventType::Remove),
        (ReadFlags::MOVED_FROM, EventType::Rename),
        (ReadFlags::ATTRIB, EventType::Chmod),
    ]
    .into_iter()
    .filter(move |(mask, _)| flags.intersects(*mask))
    .map(|(_, kind)| kind)
}

/// Events that wait to be asked for.
#[derive(Debug, Default)]
struct Waiting {
    events: RefCell<Vec<FilesystemEvent>>,
    failed: RefCell<Option<Error>>,
    stop: Notify,
}

/// Polling watchers.
#[derive(Debug, Default)]
pub struct Watchers {
    next: Cell<u64>,
    all: RefCell<BTreeMap<String, Rc<Waiting>>>,
}

impl Watchers {
    fn find(&self, id: &str) -> Result<Rc<Waiting>> {
        self.all.borrow().get(id).cloned().ok_or_else(|| {
            Error::new(Code::NotFound, format!("there is no watcher {}", shorten(id)))
        })
    }

    /// `GetWatcherEvents`.
    ///
    /// # Errors
    /// `not_found`; also once, when watching has failed.
    pub fn events(&self, request: &Watcher) -> Result<WatcherEvents> {
        let waiting = self.find(&request.watcher_id)?;
        let events = waiting.events.take();
        match waiting.failed.borrow_mut().take() {
            Some(error) if events.is_empty() => Err(error),
            _ => Ok(WatcherEvents { events }),
        }
    }

    /// `RemoveWatcher`.
    ///
    /// # Errors
    /// `not_found`.
    pub fn remove(&self, request: &Watcher) -> Result<Empty> {
        let waiting = self.find(&request.watcher_id)?;
        self.all.borrow_mut().remove(&request.watcher_id);
        waiting.stop.notify_one();
        Ok(Empty {})
    }
}

/// `CreateWatcher`.
///
/// # Errors
/// As [`Watch::set`]; `resource_exhausted` when there are too many.
pub async fn create(guest: &Rc<Guest>, user: &str, request: WatchRequest) -> Result<Watcher> {
    if guest.watchers.all.borrow().len() >= MAX_WATCHERS {
        let text = format!("there are {MAX_WATCHERS} watchers already; remove some first");
        return Err(Error::new(Code::ResourceExhausted, text));
    }
    let mut watch = Watch::set(guest, user, &request).await?;
    let number = guest.watchers.next.get() + 1;
    guest.watchers.next.set(number);
    let watcher_id = format!("w{number:x}");
    let waiting = Rc::<Waiting>::default();
    guest.watchers.all.borrow_mut().insert(watcher_id.clone(), Rc::clone(&waiting));
    let guest = Rc::clone(guest);
    tokio::task::spawn_local(async move {
        loop {
            let next = tokio::select! {
                () = waiting.stop.notified() => return,
                next = watch.next(&guest) => next,
            };
            match next {
                Ok(events) => keep(&mut waiting.events.borrow_mut(), events),
                Err(error) => {
                    waiting.failed.replace(Some(error));
                    return;
                }
            }
        }
    });
    Ok(Watcher { watcher_id })
}

/// Keeps events up to the bound; the last one says that others were lost.
fn keep(kept: &mut Vec<FilesystemEvent>, events: Vec<FilesystemEvent>) {
    for event in events {
        if kept.len() + 1 < MAX_EVENTS {
            kept.push(event);
        } else if kept.len() < MAX_EVENTS {
            kept.push(FilesystemEvent::default());
        }
    }
}
