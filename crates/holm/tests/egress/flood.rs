//! More connections than anybody needs: what the kernel notes of them is bounded, and passes.

use crate::bed::*;
use crate::common::*;

on_beds!(Root, root: thirty_thousand_quick_connects_leave_bounded_notes);
on_beds!(Rootless, rootless: thirty_thousand_quick_connects_leave_bounded_notes);

/// Makes connections to somebody who is refused always, each to another port, and leaves them at once.
/// Says how many microseconds that took, and how many connections the kernel has notes of then.
const CONNECT: &str = r#"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
int main() {
    struct timespec a, b;
    clock_gettime(CLOCK_MONOTONIC, &a);
    for (int n = 0; n < 30000; n++) {
        struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(1024 + n)};
        inet_pton(AF_INET, "169.254.169.254", &to.sin_addr);
        int s = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        if (s < 0) { perror("socket"); return 1; }
        connect(s, (struct sockaddr *)&to, sizeof to);
        close(s);
    }
    clock_gettime(CLOCK_MONOTONIC, &b);
    long count = -1;
    FILE *f = fopen("/proc/sys/net/netfilter/nf_conntrack_count", "r");
    if (!f || fscanf(f, "%ld", &count) != 1) { perror("count"); return 1; }
    printf("%ld %ld\n", (b.tv_sec - a.tv_sec) * 1000000 + (b.tv_nsec - a.tv_nsec) / 1000, count);
}
"#;

/// What the rules inside let through: at once, and in a second.
const AT_ONCE: u64 = 20_000;
const PER_SECOND: u64 = 10_000;

fn thirty_thousand_quick_connects_leave_bounded_notes(home: &Home, _bed: &Bed) {
    let program = static_program(CONNECT);
    let mcp = home.mcp();
    let sandbox = mcp.create_with(json!({"network": "open"}));
    mcp.write_program(&sandbox, "connect", &program);
    let reach = "curl -sS -o /dev/null -w '%{http_code}' http://203.0.113.10/";
    assert_eq!(mcp.sh(&sandbox, reach).good(), "200");
    let said = mcp.sh(&sandbox, "./connect").good().to_owned();
    let (took, count) = said.split_once(' ').expect("two numbers");
    let (took, count): (u64, u64) = (took.parse().expect("µs"), count.parse().expect("a number"));
    let most = AT_ONCE + PER_SECOND * took / 1_000_000 + 1000;
    assert!(count <= most, "{count} notes after {took} µs, {most} at most");
    // It goes on: what it may reach is reached, and the notes pass.
    assert_eq!(mcp.sh(&sandbox, reach).good(), "200");
    until("the kernel forgets them", || {
        let count = mcp.sh(&sandbox, "cat /proc/sys/net/netfilter/nf_conntrack_count");
        (count.good().parse::<u64>().expect("a number") < 1000).then_some(())
    });
    let shown = mcp.call("get_sandbox", json!({"sandbox_id": sandbox})).ok().clone();
    let denied = shown["traffic"]["denied"].as_u64().expect("a number");
    assert!(denied > 0 && shown["traffic"]["connections_open"] == 0, "{shown}");
    assert!(shown["network_denied"].as_array().is_some_and(|all| all.len() <= 20), "{shown}");
    mcp.end(home);
}
