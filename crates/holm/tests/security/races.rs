//! Paths that change while the file calls look at them.

use std::fs;

use crate::common::*;

as_root!(swapped_links_never_show_the_host, renamed_directories_under_a_listing);
as_rootless!(swapped_links_never_show_the_host);

/// Swaps a directory with a link to the root, as fast as it can.
const SWAP: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>
int main(void) {
    mkdir("real", 0777); symlink("/", "sly"); mkdir("real/etc", 0777); mkdir("real/tmp", 0777);
    FILE *f = fopen("real/etc/hostname", "w"); fputs("decoy\n", f); fclose(f);
    rename("real", "d"); close(open("ready", O_CREAT | O_WRONLY, 0644));
    for (;;) renameat2(AT_FDCWD, "d", AT_FDCWD, "sly", RENAME_EXCHANGE);
}
"#;

fn swapped_links_never_show_the_host(home: &Home) {
    let program = static_program(SWAP);
    let victim = format!("holm-race-{}-{}", std::process::id(), home.mode as u8);
    let host_name = fs::read_to_string("/etc/hostname").unwrap_or_default();
    let mcp = home.mcp();
    let sandbox = mcp.create();
    let own = mcp.sh(&sandbox, "cat /etc/hostname").good().to_owned();
    mcp.write_program(&sandbox, "swap", &program);
    for user in home.users() {
        let place = format!("/tmp/race-{user}");
        let swapper = mcp.start_sh(
            &sandbox,
            &format!("mkdir -p {place} && cd {place} && exec /workspace/swap"),
            json!({"user": user, "timeout_ms": 600_000}),
        );
        until("it swaps", || {
            (mcp.sh(&sandbox, &format!("ls {place}/ready 2>/dev/null | wc -l")).stdout == "1\n")
                .then_some(())
        });
        let mut seen = std::collections::BTreeMap::<String, u32>::new();
        for _ in 0..if long() { 3000 } else { 300 } {
            let read = mcp.start(
                "read_file",
                json!({"sandbox_id": sandbox, "path": format!("{place}/d/etc/hostname")}),
            );
            let write = mcp.start("write_file", json!({"sandbox_id": sandbox, "path": format!("{place}/d/tmp/{victim}"), "content": "x"}));
            let list = mcp.start(
                "list_files",
                json!({"sandbox_id": sandbox, "path": format!("{place}/d"), "recursive": false}),
            );
            let read = mcp.finish(read);
            let text = if read.is_error() {
                read.code()
            } else {
                read.ok()["content"].as_str().expect("text").trim().to_owned()
            };
            assert!(
                text == "decoy"
                    || text == own
                    || text == "file_not_found"
                    || text == "permission_denied",
                "{user}: read {text:?}"
            );
            assert!(host_name.trim().is_empty() || text != host_name.trim() || text == own);
            *seen.entry(text).or_default() += 1;
            assert_ne!(
                mcp.finish(write).result()["structuredContent"]["error"]["code"],
                "internal"
            );
            let list = mcp.finish(list);
            assert!(!list.text().contains("holm-t"), "{user}: the host's /tmp or root is listed");
        }
        println!("{user}: {seen:?}");
        mcp.cancel(swapper);
    }
    assert!(
        !std::path::Path::new("/tmp").join(&victim).exists(),
        "nothing was written on the host"
    );
    mcp.end(home);
}

fn renamed_directories_under_a_listing(home: &Home) {
    let mcp = home.mcp();
    let sandbox = mcp.create();
    let mover = "mkdir -p t/a/b/c/d x && while :; do mv t/a/b x/b; mv x/b t/a/b; done";
    let id = mcp.start_sh(&sandbox, mover, json!({"timeout_ms": 600_000}));
    until("it moves", || {
        (mcp.sh(&sandbox, "test -d x && echo 1 || echo 0").stdout == "1\n").then_some(())
    });
    for _ in 0..200 {
        let list = mcp.call("list_files", json!({"sandbox_id": sandbox, "path": "t"}));
        assert_ne!(list.data()["error"]["code"], "internal", "{}", list.text());
        let paths = list.data()["files"].to_string();
        assert!(!paths.contains("/etc/"), "a listing stays below its directory: {paths}");
        let write = mcp.call(
            "write_file",
            json!({"sandbox_id": sandbox, "path": "t/a/b/c/d/f", "content": "x"}),
        );
        assert_ne!(write.data()["error"]["code"], "internal", "{}", write.text());
    }
    mcp.cancel(id);
    mcp.end(home);
}
