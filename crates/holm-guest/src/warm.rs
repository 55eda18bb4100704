//! Looking at what the first command will need, while nobody waits for it.
//!
//! A sandbox's root is a new mount, of which the kernel knows no entry yet: the first command would
//! wait until it has found each part of the way to its shell and that one's libraries in all layers.

/// What nearly every command begins with. A template may lack any of them.
const WAYS: [&str; 8] = [
    "/bin/sh",
    "/bin/bash",
    "/usr/bin/python3",
    "/etc/ld.so.cache",
    "/etc/passwd",
    #[cfg(target_arch = "x86_64")]
    "/lib64/ld-linux-x86-64.so.2",
    #[cfg(target_arch = "x86_64")]
    "/lib/x86_64-linux-gnu/libc.so.6",
    #[cfg(target_arch = "aarch64")]
    "/lib/ld-linux-aarch64.so.1",
    #[cfg(target_arch = "aarch64")]
    "/lib/aarch64-linux-gnu/libc.so.6",
    "/workspace",
];

/// Looks, and opens nothing: what is there may be a pipe.
pub fn look() {
    for way in WAYS {
        // One that is missing need not be found.
        let _ = rustix::fs::stat(way);
    }
}
