//! The launcher: a single-threaded process that owns every sandbox of one holm. It forks builders
//! for what is slow, and is the one place where sandboxes are undone. When its control socket closes
//! it removes everything that is not to outlive its owner, and ends.

mod adopt;
mod binder;
mod builders;
mod guest;
mod host;
mod janitor;
mod keeper;
mod namer;
mod packer;
mod slot;
mod start;
mod undo;
mod watch;

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::process::{WaitOptions, WaitStatus};

use crate::channel::{Channel, encode};
use crate::driver::SandboxSpec;
use crate::failure::Failure;
use crate::message::{Event, Request};
use crate::sys;
pub use guest::Guest;
use host::Host;
use slot::{Order, Slot};

/// Runs the launcher on the socket at descriptor 3. `guest` is the program of PID 1.
pub fn main(guest: Guest) -> ! {
    sys::signals::ignore_requests();
    // A session of its own, so that no terminal's signal reaches it. It fails only for a group
    // leader, which has no need of it.
    let _ = rustix::process::setsid();
    let _ = rustix::process::chdir("/");
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    let Some(control) = sys::fds::take_control() else { sys::process::exit_now(2) };
    if rustix::io::fcntl_setfd(&control, rustix::io::FdFlags::CLOEXEC).is_err() {
        sys::process::exit_now(2);
    }
    let control = Channel::from_fd(control);
    let event = match control.receive::<Request>() {
        Ok(Some((Request::Start(settings), _))) if settings.lifetime.outlives_launcher() => {
            keeper::keep(&control, *settings, guest)
        }
        Ok(Some((Request::Start(settings), _))) => serve(&control, *settings, guest, None),
        Ok(Some((Request::Try, _))) => Event::Tried(crate::doctor::try_namespaces()),
        _ => sys::process::exit_now(2),
    };
    let _ = control.send(&event, &[]);
    sys::process::exit_now(0)
}

/// Is the launcher of whoever holds the other end, in an instance of the keeper's where there is one.
fn serve(
    control: &Channel,
    settings: crate::options::Settings,
    guest: Guest,
    instance: Option<&str>,
) -> ! {
    crate::step::this_is_the_launcher();
    let found = Host::find(settings, guest, instance);
    match found.and_then(|host| Launcher::start(host, control)) {
        Ok(mut launcher) => launcher.run(),
        Err(failure) => drop(control.send(&Event::Unusable(failure), &[])),
    }
    sys::process::exit_now(0)
}

/// How soon something that was still in use is tried again.
const RETRY: Duration = Duration::from_millis(1);

/// How long a launcher without an owner goes on removing what another one could remove.
const LAST_WORK: Duration = Duration::from_secs(30);

/// The state of the launcher.
struct Launcher<'a> {
    control: &'a Channel,
    /// Messages that the owner has not taken yet.
    unsent: VecDeque<(Vec<u8>, Vec<OwnedFd>)>,
    exits: OwnedFd,
    host: Host,
    slots: BTreeMap<u64, Slot>,
    next_slot: u64,
    /// What a launcher before us has left, until the owner has said whose it is.
    unclaimed: Vec<u64>,
    /// Owners that wait for everything to be gone.
    shutdown: Vec<u64>,
    /// No new sandboxes.
    closing: bool,
    /// The owner is gone.
    orphaned_since: Option<Instant>,
    /// A blank could not be made; none is tried until a sandbox was.
    blanks_fail: bool,
    last_request: Instant,
}

impl<'a> Launcher<'a> {
    fn start(host: Host, control: &'a Channel) -> Result<Self, Failure> {
        let exits = sys::signals::child_exits()
            .map_err(|errno| Failure::internal(format!("watch for exits: {errno}")))?;
        let mut launcher = Self {
            control,
            unsent: VecDeque::new(),
            exits,
            host,
            slots: BTreeMap::new(),
            next_slot: 0,
            unclaimed: Vec::new(),
            shutdown: Vec::new(),
            closing: false,
            orphaned_since: None,
            blanks_fail: false,
            last_request: Instant::now(),
        };
        launcher.tell(&Event::Ready(launcher.host.facts()));
        if launcher.host.settings.lifetime.outlives_launcher() {
            launcher.take_over()?;
        }
        launcher.host.sweep_others();
        Ok(launcher)
    }

    /// Until the owner is gone and nothing of ours is left.
    fn run(&mut self) {
        loop {
            self.host.look_if_due();
            self.advance();
            self.host.hand_over_disks();
            if self.orphaned_since.is_some() && (self.slots.is_empty() || self.is_late()) {
                self.host.close();
                return;
            }
            self.wait();
        }
    }

    /// True when something that is to be removed has taken so long that the next launcher, which
    /// waits for us, shall try.
    fn is_late(&mut self) -> bool {
        let late = self.orphaned_since.is_some_and(|since| since.elapsed() > LAST_WORK)
            && self.host.settings.lifetime.outlives_owner();
        // Its records stay.
        self.host.keeps |= late;
        late
    }

    /// Sleeps until something happens, and takes note of it.
    fn wait(&mut self) {
        enum Source {
            Control,
            Exits,
            Watch,
            Report(u64),
            Init(u64),
        }
        let mut sources = vec![Source::Exits];
        let mut fds = vec![PollFd::new(&self.exits, PollFlags::IN)];
        if self.orphaned_since.is_none() {
            let mut flags = PollFlags::IN;
            flags.set(PollFlags::OUT, !self.unsent.is_empty());
            sources.push(Source::Control);
            fds.push(PollFd::new(self.control, flags));
        }
        if let Some(watch) = self.host.watched() {
            sources.push(Source::Watch);
            fds.push(PollFd::new(watch, PollFlags::IN));
        }
        for (id, slot) in &self.slots {
            if let Some(report) = &slot.report {
                sources.push(Source::Report(*id));
                fds.push(PollFd::new(report, PollFlags::IN));
            }
            if let Some(channel) = &slot.channel {
                sources.push(Source::Init(*id));
                fds.push(PollFd::new(channel, PollFlags::IN));
            }
        }
        // Removing a cgroup is the one thing without an event of its own.
        let retry = self.slots.values().any(|slot| slot.retry).then_some(RETRY);
        let last = self.orphaned_since.map(|_| LAST_WORK);
        let later = [self.host.until_next_look(), self.until_refill(), last];
        let timeout = retry.or_else(|| later.into_iter().flatten().min());
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        match rustix::event::poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            // Only for lack of memory; the next round tries again.
            Err(_) => return,
        }
        let ready: Vec<Source> = sources
            .into_iter()
            .zip(&fds)
            .filter(|(_, fd)| !fd.revents().is_empty())
            .map(|(source, _)| source)
            .collect();
        for source in ready {
            match source {
                Source::Exits => self.reap(),
                Source::Watch => self.note_gone(),
                Source::Control => self.serve_owner(),
                Source::Report(id) => self.read_report(id),
                Source::Init(id) => self.read_init(id),
            }
        }
    }

    fn serve_owner(&mut self) {
        self.flush();
        // A bounded number at a time, so that a busy owner does not starve the rest.
        for _ in 0..64 {
            match self.control.try_receive::<Request>() {
                Ok(Some((request, _))) => self.obey(request),
                Err(Errno::AGAIN | Errno::INTR) => return,
                // The owner is gone, or sends what no owner sends.
                Ok(None) | Err(_) => {
                    self.orphaned_since = Some(Instant::now());
                    // Whoever reads what the owner wrote there must not wait for us.
                    sys::fds::silence();
                    if self.host.settings.lifetime.outlives_owner() {
                        self.let_go();
                    }
                    self.end_all();
                    return;
                }
            }
        }
    }

    fn obey(&mut self, request: Request) {
        self.last_request = Instant::now();
        match request {
            Request::Have { id, socket } => self.claim_found(id, &socket),
            Request::HaveAll => self.end_unclaimed(),
            Request::Create { seq, spec } => self.create(seq, *spec),
            Request::Destroy { seq, id } => self.destroy(seq, &id),
            Request::Cancel { seq } => {
                if let Some(slot) = self.slots.values_mut().find(|slot| slot.seq == Some(seq)) {
                    slot.end(None);
                }
            }
            Request::Gate { seq, id } => self.make_sockets(binder::Errand::Gate, seq, &id),
            Request::Ports { seq, id } => self.make_sockets(binder::Errand::Ports, seq, &id),
            Request::Pack { seq, id } => self.pack(seq, &id),
            Request::Shutdown { seq } => {
                self.shutdown.push(seq);
                self.end_all();
            }
            // Only ever the first message.
            Request::Start(_) | Request::Try => {}
        }
    }

    fn create(&mut self, seq: u64, spec: SandboxSpec) {
        let exists = || self.find(&spec.id).map(|_| format!("{} exists already", spec.id));
        let closing = self.closing.then(|| "create after shutdown".to_owned());
        if let Some(refused) = closing.or_else(exists) {
            self.tell(&Event::Failed { seq, failure: Failure::internal(refused) });
            return;
        }
        let order = Order { seq, spec };
        if let Some(id) = self.best_blank(&order.spec) {
            if let Some(slot) = self.slots.get_mut(&id) {
                slot.claim(order);
            }
            self.hand_over(id);
            return;
        }
        self.build(Some(order));
    }

    /// The sandbox of that name.
    fn find(&self, sandbox: &str) -> Option<u64> {
        self.slots.iter().find(|(_, slot)| slot.is_named(sandbox)).map(|(id, _)| *id)
    }

    fn destroy(&mut self, seq: Option<u64>, sandbox: &str) {
        match self.find(sandbox).and_then(|id| self.slots.get_mut(&id)) {
            Some(slot) => {
                slot.waiters.extend(seq);
                slot.end(None);
            }
            None => {
                if let Some(seq) = seq {
                    self.tell(&Event::Done { seq, failure: None });
                }
            }
        }
    }

    fn end_all(&mut self) {
        self.closing = true;
        self.slots.values_mut().for_each(|slot| slot.end(None));
    }

    /// Takes note of children that are gone.
    fn reap(&mut self) {
        sys::signals::quiet(&self.exits);
        while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
            let pid = pid.as_raw_nonzero().get();
            if self.host.is_helper_gone(pid) {
                continue;
            }
            for slot in self.slots.values_mut() {
                slot.note_exit(pid);
            }
            self.note_named(pid, status);
            self.note_bound(pid);
            self.note_packed(pid);
            self.note_death(pid, status);
        }
    }

    /// Takes note of PID 1s that are gone and were not our children.
    fn note_gone(&mut self) {
        let gone = self.host.watched().map(watch::Watch::gone).unwrap_or_default();
        for id in gone {
            let Some(slot) = self.slots.get_mut(&id) else { continue };
            slot.init_gone = true;
            if slot.running && !slot.ending {
                let out_of_memory = slot.was_out_of_memory();
                self.tell_exit(id, out_of_memory);
            }
        }
    }

    /// The helper that sets a host name is done.
    fn note_named(&mut self, pid: i32, status: WaitStatus) {
        let found = self.slots.iter_mut().find(|(_, slot)| slot.namer == Some(pid));
        let Some((id, slot)) = found else { return };
        let id = *id;
        slot.namer = None;
        if status.exit_status() == Some(0) {
            slot.nameless = false;
            self.hand_over(id);
        } else {
            let failure = Failure::internal(format!("setting the host name: {status:?}"));
            slot.end(Some(failure.in_step(crate::step::Step::Name)));
        }
    }

    /// Tells the owner about a PID 1 that ended by itself.
    fn note_death(&mut self, pid: i32, status: WaitStatus) {
        let ours = |slot: &Slot| slot.init_pid == Some(pid) && !slot.is_detached();
        let Some((id, slot)) = self.slots.iter().find(|(_, slot)| ours(slot)) else { return };
        if slot.running && !slot.ending {
            let killed = status.terminating_signal() == Some(libc::SIGKILL);
            self.tell_exit(*id, killed && slot.was_out_of_memory());
        }
    }

    fn tell_exit(&mut self, id: u64, out_of_memory: bool) {
        let Some(slot) = self.slots.get_mut(&id) else { return };
        match slot.sandbox() {
            Some(id) => {
                let event = Event::Exited { id: id.to_owned(), out_of_memory };
                self.tell(&event);
            }
            None => slot.end(Some(Failure::internal("the guest of a blank died"))),
        }
    }

    /// Sends to the owner, or keeps it until the owner reads.
    fn tell(&mut self, event: &Event) {
        self.tell_with(event, Vec::new());
    }

    fn tell_with(&mut self, event: &Event, fds: Vec<OwnedFd>) {
        if self.orphaned_since.is_some() {
            return;
        }
        // Events are small; one that cannot be encoded does not exist.
        if let Ok(bytes) = encode(event) {
            self.unsent.push_back((bytes, fds));
        }
        self.flush();
    }

    fn flush(&mut self) {
        while let Some((bytes, fds)) = self.unsent.front() {
            let fds: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
            match self.control.try_send_bytes(bytes, &fds) {
                Ok(()) => drop(self.unsent.pop_front()),
                Err(Errno::AGAIN | Errno::NOBUFS) => return,
                // The owner is gone; its socket will say so.
                Err(_) => self.unsent.clear(),
            }
        }
    }
}
