//! How long the kernel remembers a connection to the gate that has ended.
//!
//! It keeps a note of each, which counts against no limit of the sandbox, and a namespace may have as
//! many as the whole host is to have. On loopback nothing is late or lost, so that the notes need
//! not stay for minutes. Together with the rules' limit on new connections this bounds them.

/// Seconds, by the name of the setting.
const TIMEOUTS: [(&str, &str); 5] = [
    ("tcp_timeout_time_wait", "5"),
    ("tcp_timeout_syn_sent", "10"),
    // This one longer than usual: whoever has said all may wait for its answer.
    ("tcp_timeout_close_wait", "7200"),
    ("udp_timeout", "10"),
    ("udp_timeout_stream", "10"),
];

/// Sets them where the kernel lets us. In a container that shows /proc/sys read-only the bound is
/// wider: what the kernel gives every namespace.
pub(super) fn set() {
    for (name, seconds) in TIMEOUTS {
        let _ = std::fs::write(format!("/proc/sys/net/netfilter/nf_conntrack_{name}"), seconds);
    }
}
