//! Users of the sandbox, read from its own /etc/passwd and /etc/group.
//!
//! The C library's functions are not used: in a static program they would load name service
//! modules of the sandbox into PID 1. What the two files say concerns the sandbox only, so a
//! sandbox that forges them fools itself; the reads are bounded and never block.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::Read as _;

use holm_wire::connect::{Code, Error};
use holm_wire::guest::DEFAULT_USER;
use rustix::fs::{FileType, Mode, OFlags};

use crate::errors::{Result, shorten};
use crate::sys::child::Ids;

/// Most bytes read of either file.
const MOST: u64 = 1 << 20;
/// The highest id that a sandbox has.
const MAX_ID: u32 = 65_534;
/// What is assumed of `sandbox` and `root` where /etc/passwd does not know them.
const BUILT_IN: &str =
    "root:x:0:0:root:/root:/bin/bash\nsandbox:x:1000:1000::/home/sandbox:/bin/bash\n";

/// A user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// Login name.
    pub name: String,
    /// User id.
    pub uid: u32,
    /// Main group.
    pub gid: u32,
    /// All groups.
    pub groups: Vec<u32>,
    /// Home directory.
    pub home: String,
    /// Login shell.
    pub shell: String,
}

impl User {
    /// The ids to switch to.
    pub fn ids(&self) -> Ids {
        Ids { uid: self.uid, gid: self.gid, groups: self.groups.clone() }
    }
}

/// Whom the guest can act as.
#[derive(Debug, Clone)]
pub enum Switch {
    /// Every user of the sandbox: the guest is root in it.
    All,
    /// Only this one, which the guest is itself; the text says how to get the others.
    Only(User, &'static str),
}

/// Names the mend for `user: root` where only one id is mapped.
pub const ROOTLESS: &str = "this sandbox has only the user `sandbox`, because the host gave it one \
    user id; install `uidmap` on the host and give the user a range in /etc/subuid and /etc/subgid";
/// The same for a guest started by hand.
pub const PLAIN: &str = "this guest runs as an ordinary process and cannot change users";

/// The users a guest knows.
#[derive(Debug)]
pub struct Users {
    mode: Switch,
    /// Who is meant where nobody is named, if that is not `sandbox`.
    default: RefCell<Option<User>>,
}

impl Users {
    /// Users as `mode` allows.
    pub fn new(mode: Switch) -> Self {
        Self { mode, default: RefCell::default() }
    }

    /// From now on who is meant where nobody is named is whom an image names: see
    /// [`holm_wire::guest::Image::user`].
    ///
    /// # Errors
    /// When the image has no such user or group.
    pub fn set_default(&self, spec: &str) -> Result<()> {
        if let Switch::All = self.mode {
            let user = named_by_image(&read("/etc/passwd"), &read("/etc/group"), spec)?;
            self.default.replace(Some(with_shell(user)));
        }
        Ok(())
    }

    /// `sandbox` as it is where no file says anything else.
    pub fn built_in(&self) -> Option<User> {
        match &self.mode {
            Switch::Only(me, _) => Some(me.clone()),
            Switch::All => lookup(BUILT_IN, "", DEFAULT_USER),
        }
    }

    /// True when the guest can switch users.
    pub fn switches(&self) -> bool {
        matches!(self.mode, Switch::All)
    }

    /// The user of a call; empty means the one that an image names, or `sandbox`. `user`, E2B's
    /// name for it, means that one too where /etc/passwd has no such user.
    ///
    /// # Errors
    /// When there is no such user, or the guest cannot act as it.
    pub fn find(&self, name: &str) -> Result<User> {
        if name.is_empty()
            && let Some(user) = &*self.default.borrow()
        {
            return Ok(user.clone());
        }
        let asked = if name.is_empty() { DEFAULT_USER } else { name };
        if asked.len() > 64 || !asked.bytes().all(|b| b.is_ascii_graphic() && b != b':') {
            return Err(Error::new(Code::Unauthenticated, "this is not a user name"));
        }
        if let Switch::Only(me, why) = &self.mode {
            return match asked {
                "sandbox" | "user" => Ok(me.clone()),
                "root" if me.uid == 0 => Ok(me.clone()),
                "root" => Err(Error::new(
                    Code::FailedPrecondition,
                    format!("no commands or files as root: {why}"),
                )),
                _ if asked == me.name => Ok(me.clone()),
                _ => Err(unknown(asked)),
            };
        }
        let passwd = read("/etc/passwd");
        let group = read("/etc/group");
        lookup(&passwd, &group, asked)
            .or_else(|| lookup(BUILT_IN, &group, asked))
            .or_else(|| (asked == "user").then(|| lookup(&passwd, &group, "sandbox"))?)
            .or_else(|| (asked == "user").then(|| lookup(BUILT_IN, &group, "sandbox"))?)
            .map(with_shell)
            .ok_or_else(|| unknown(asked))
    }
}

fn unknown(name: &str) -> Error {
    Error::new(
        Code::Unauthenticated,
        format!("there is no user `{name}` in the sandbox; use `sandbox` or `root`"),
    )
}

/// With a shell that is there: an image need not have bash.
fn with_shell(mut user: User) -> User {
    if rustix::fs::stat(user.shell.as_str()).is_err() {
        "/bin/sh".clone_into(&mut user.shell);
    }
    user
}

/// Whom an image's config names, as other runtimes read it: a name before a number; a number
/// need not be in /etc/passwd; a group that is given replaces all others.
fn named_by_image(passwd: &str, group: &str, spec: &str) -> Result<User> {
    let refused = |what: &str| {
        let text = format!(
            "the template's user is {}, and {what}; make the image with another USER",
            shorten(spec)
        );
        Error::new(Code::FailedPrecondition, text)
    };
    let (name, group_name) = spec.split_once(':').unwrap_or((spec, ""));
    let name = if name.is_empty() { "root" } else { name };
    let number = |text: &str| text.parse::<u32>().ok().filter(|id| *id <= MAX_ID);
    let by_number = || {
        let id = number(name)?;
        let known = lines_of(passwd).find(|(_, uid)| *uid == id);
        known.and_then(|(known, _)| lookup(passwd, group, known)).or_else(|| {
            let (name, home) = (name.to_owned(), "/".to_owned());
            let shell = "/bin/sh".to_owned();
            Some(User { name, uid: id, gid: 0, groups: vec![0], home, shell })
        })
    };
    let found = lookup(passwd, group, name)
        .or_else(|| (name == "root").then(|| lookup(BUILT_IN, group, name))?)
        .or_else(by_number);
    let mut user = found.ok_or_else(|| refused("its /etc/passwd has no such user"))?;
    if !group_name.is_empty() {
        let known = lines_of(group).find(|(known, _)| *known == group_name);
        let gid = known.map(|(_, gid)| gid).or_else(|| number(group_name));
        user.gid = gid.ok_or_else(|| refused("its /etc/group has no such group"))?;
        user.groups = vec![user.gid];
    }
    if user.uid > MAX_ID || user.groups.iter().any(|gid| *gid > MAX_ID) {
        return Err(refused("a sandbox has ids up to 65534 only"));
    }
    Ok(user)
}

/// Names and numbers of a file of users or groups.
fn lines_of(text: &str) -> impl Iterator<Item = (&str, u32)> {
    text.lines().filter_map(|line| {
        let mut fields = line.split(':');
        Some((fields.next()?, fields.nth(1)?.parse().ok()?))
    })
}

fn lookup(passwd: &str, group: &str, name: &str) -> Option<User> {
    let line = passwd.lines().find(|line| line.split(':').next() == Some(name))?;
    let mut fields = line.split(':');
    let name = fields.next()?.to_owned();
    let uid = fields.nth(1)?.parse().ok()?;
    let gid = fields.next()?.parse().ok()?;
    let home = fields.nth(1)?;
    let shell = fields.next().unwrap_or("");
    let absolute = |text: &str, other: &str| {
        if text.starts_with('/') { text.to_owned() } else { other.to_owned() }
    };
    let (home, shell) = (absolute(home, "/"), absolute(shell, "/bin/sh"));
    let mut groups = vec![gid];
    for line in group.lines() {
        let mut fields = line.split(':');
        let id = fields.nth(2).and_then(|id| id.parse().ok());
        let member = fields.next().is_some_and(|list| list.split(',').any(|one| one == name));
        if let Some(id) = id.filter(|id| member && !groups.contains(id) && groups.len() < 64) {
            groups.push(id);
        }
    }
    Some(User { name, uid, gid, groups, home, shell })
}

/// The text of a small regular file; empty where it is none.
fn read(path: &str) -> String {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let Ok(fd) = rustix::fs::open(path, flags, Mode::empty()) else { return String::new() };
    let regular = rustix::fs::fstat(&fd)
        .is_ok_and(|facts| FileType::from_raw_mode(facts.st_mode) == FileType::RegularFile);
    let mut bytes = Vec::new();
    if regular {
        // A file that stops being readable half-way counts as what was read.
        let _ = std::fs::File::from(fd).take(MOST).read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Names of ids, for listings. Read once per call.
#[derive(Debug, Default)]
pub struct Names {
    users: BTreeMap<u32, String>,
    groups: BTreeMap<u32, String>,
}

impl Names {
    /// Reads both files.
    pub fn load() -> Self {
        let parse = |text: &str| {
            let mut map = BTreeMap::new();
            for line in text.lines() {
                let mut fields = line.split(':');
                let name = fields.next().unwrap_or("");
                if let Some(id) = fields.nth(1).and_then(|id| id.parse().ok()) {
                    map.entry(id).or_insert_with(|| name.to_owned());
                }
            }
            map
        };
        Self { users: parse(&read("/etc/passwd")), groups: parse(&read("/etc/group")) }
    }

    /// A user's name, or its number.
    pub fn user(&self, id: u32) -> String {
        self.users.get(&id).cloned().unwrap_or_else(|| id.to_string())
    }

    /// A group's name, or its number.
    pub fn group(&self, id: u32) -> String {
        self.groups.get(&id).cloned().unwrap_or_else(|| id.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str =
        "root:x:0:0::/root:/bin/bash\nbad\nana:x:1001:100:Ana:/home/ana:\nrel:x:7:7::x:y\n";
    const GROUP: &str = "users:x:100:\nwheel:x:10:root,ana\nx\nvideo:x:44:ana\n";

    #[test]
    fn users_are_found_with_their_groups() {
        let ana = lookup(PASSWD, GROUP, "ana").unwrap();
        assert_eq!((ana.uid, ana.gid), (1001, 100));
        assert_eq!(ana.groups, [100, 10, 44]);
        assert_eq!((ana.home.as_str(), ana.shell.as_str()), ("/home/ana", "/bin/sh"));
    }

    #[test]
    fn an_image_names_its_user_as_elsewhere() {
        let check = |spec: &str, want: Option<(u32, u32, &[u32], &str)>| {
            let got = named_by_image(PASSWD, GROUP, spec);
            let got = got.as_ref().ok().map(|u| (u.uid, u.gid, &*u.groups, u.home.as_str()));
            assert_eq!(got, want, "{spec}");
        };
        check("", Some((0, 0, &[0, 10], "/root")));
        check("root", Some((0, 0, &[0, 10], "/root")));
        check("ana", Some((1001, 100, &[100, 10, 44], "/home/ana")));
        check("1001", Some((1001, 100, &[100, 10, 44], "/home/ana")));
        check("ana:video", Some((1001, 44, &[44], "/home/ana")));
        check("ana:7", Some((1001, 7, &[7], "/home/ana")));
        check("4321", Some((4321, 0, &[0], "/")));
        check("4321:users", Some((4321, 100, &[100], "/")));
        check(":video", Some((0, 44, &[44], "/root")));
        for bad in ["nobody", "ana:none", "65535", "-1", "ana:99999", "9:9:9"] {
            check(bad, None);
        }
        let without_files = named_by_image("", "", "").unwrap();
        assert_eq!((without_files.uid, without_files.home.as_str()), (0, "/root"));
        let error = named_by_image(PASSWD, GROUP, "nobody").unwrap_err();
        assert!(error.message.contains("/etc/passwd has no such user"), "{}", error.message);
    }

    #[test]
    fn broken_lines_are_no_users() {
        for name in ["bad", "nobody", "", "x"] {
            assert_eq!(lookup(PASSWD, GROUP, name), None, "{name:?}");
        }
        assert_eq!(lookup(PASSWD, GROUP, "rel").unwrap().home, "/");
    }

    #[test]
    fn one_id_refuses_root_and_names_the_mend() {
        let me = lookup(BUILT_IN, "", "sandbox").unwrap();
        let users = Users::new(Switch::Only(me.clone(), ROOTLESS));
        assert_eq!(users.find("").unwrap(), me);
        assert_eq!(users.find("user").unwrap(), me);
        let error = users.find("root").unwrap_err();
        assert_eq!(error.code, Code::FailedPrecondition);
        assert!(error.message.contains("/etc/subuid"));
        assert_eq!(users.find("ana").unwrap_err().code, Code::Unauthenticated);
        assert_eq!(users.find("a:b").unwrap_err().code, Code::Unauthenticated);
    }
}
