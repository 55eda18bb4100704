//! The files of /etc that we write ourselves.

/// Accounts: root, the user of commands, and the few that programs expect to exist.
pub(super) const PASSWD: &str = "\
root:x:0:0:root:/root:/bin/bash
daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin
bin:x:2:2:bin:/bin:/usr/sbin/nologin
sys:x:3:3:sys:/dev:/usr/sbin/nologin
man:x:6:12:man:/var/cache/man:/usr/sbin/nologin
mail:x:8:8:mail:/var/mail:/usr/sbin/nologin
www-data:x:33:33:www-data:/var/www:/usr/sbin/nologin
_apt:x:42:65534::/nonexistent:/usr/sbin/nologin
sandbox:x:1000:1000:sandbox:/home/sandbox:/bin/bash
nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin
";

/// Groups.
pub(super) const GROUP: &str = "\
root:x:0:
daemon:x:1:
bin:x:2:
sys:x:3:
adm:x:4:
tty:x:5:
disk:x:6:
mail:x:8:
man:x:12:
sudo:x:27:
www-data:x:33:
shadow:x:42:
utmp:x:43:
video:x:44:
staff:x:50:
users:x:100:
sandbox:x:1000:
nogroup:x:65534:
";

/// Names come from files and name servers; there is no module that would ask a daemon.
pub(super) const NSSWITCH: &str = "\
passwd: files
group: files
shadow: files
hosts: files dns
networks: files
protocols: files
services: files
ethers: files
rpc: files
";

/// What every shell starts with.
pub(super) const PROFILE: &str = "\
export PATH=/home/sandbox/.local/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
[ -n \"$LANG\" ] || export LANG=C.UTF-8
";

/// Files of the host's /etc that programs below /usr need and that say nothing about its owner.
/// Never listed: machine-id, ssh, shadow, keys, network and user data, credentials of package
/// tools.
pub(super) const FROM_HOST: [&str; 50] = [
    "alternatives",
    "bash.bashrc",
    "bash_completion.d",
    "bindresvport.blacklist",
    "ca-certificates",
    "ca-certificates.conf",
    "debian_version",
    "dpkg",
    "emacs",
    "ethertypes",
    "fonts",
    "gai.conf",
    "glvnd",
    "groff",
    "gtk-3.0",
    "host.conf",
    "inputrc",
    "java-11-openjdk",
    "java-17-openjdk",
    "java-21-openjdk",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "libaudit.conf",
    "libnl-3",
    "lsb-release",
    "locale.alias",
    "locale.conf",
    "locale.gen",
    "localtime",
    "login.defs",
    "lynx",
    "magic",
    "magic.mime",
    "mailcap",
    "manpath.config",
    "mime.types",
    "mke2fs.conf",
    "networks",
    "OpenCL",
    "os-release",
    "perl",
    "protocols",
    "python3",
    "R",
    "rpc",
    "services",
    "terminfo",
    "timezone",
    "xattr.conf",
];

/// Further names by their beginning.
pub(super) const FROM_HOST_PREFIX: [&str; 2] = ["python3.", "ImageMagick"];
