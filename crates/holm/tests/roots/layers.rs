//! Layers of an image as a sandbox sees them (case 93), and what set-id bits are worth (case 97).

use serde_json::json;

use super::image::{Image, root_is, run};
use crate::common::*;

as_root!(case_93_deleted_things_stay_deleted, case_97_set_id_bits_gain_nothing, sixty_layers);
as_rootless!(case_93_deleted_things_stay_deleted, sixty_layers);

fn case_93_deleted_things_stay_deleted(home: &Home) {
    let mut image = Image::with_shell(home);
    image.file("a/b", "b").file("a/stays", "").file("c/d", "d");
    image.layer().file("a/.wh.b", "");
    image.layer().file("c/.wh..wh..opq", "").file("c/e", "e");
    image.import(home, "three");
    let line = "cd /; find a c | sort; cat a/b c/d 2>/dev/null; \
                echo again > a/b; cat a/b; rm a/b; ls a; \
                rm -r c && mkdir c && ls -A c; mkdir c/d && ls -A c/d; mv a/stays c/d/ && find a c";
    let want = "a\na/stays\nc\nc/e\nagain\nstays\na\nc\nc/d\nc/d/stays\n";
    assert_eq!(run(home, "three", &[], &["sh", "-c", line]), want);
    // Each sandbox begins with the image.
    let first = want.split("again").next().unwrap();
    assert_eq!(run(home, "three", &[], &["sh", "-c", "cd /; find a c | sort"]), first);
    // No marker of either form is to be seen, also not by what looks for devices.
    let line = "find / -name '.wh.*' 2>/dev/null; find / -xdev -type c 2>/dev/null";
    assert_eq!(run(home, "three", &[], &["sh", "-c", line]), "");
}

fn case_97_set_id_bits_gain_nothing(home: &Home) {
    let mut image = Image::with_shell(home);
    image.program("suid/busybox").mode("suid/busybox", 0o6755);
    image.file("writable", "x").mode("writable", 0o4777);
    image.import(home, "setid");
    let mcp = home.mcp();
    let id = mcp.create_with(json!({"template": "setid"}));
    let as_user = |line: &str| {
        mcp.sh_with(&id, line, json!({"user": "sandbox"})).stdout.trim_end().to_owned()
    };
    assert_eq!(as_user("stat -c %a /suid/busybox; /suid/busybox id -u"), "6755\n1000");
    assert_eq!(
        as_user("cp /bin/busybox /tmp/busybox; chmod 4755 /tmp/busybox; /tmp/busybox id -u"),
        "1000"
    );
    assert_eq!(as_user("echo y >> /writable; stat -c %a /writable"), "777");
    // Files that are written by a call have no such bits, and keep none.
    mcp.sh_root(&id, "cp /bin/busybox /tmp/s; chmod 6755 /tmp/s");
    mcp.write(&id, "/tmp/s", "text");
    assert_eq!(mcp.sh_root(&id, "stat -c %a /tmp/s").stdout, "755\n");
    mcp.end(home);
}

fn sixty_layers(home: &Home) {
    let mut image = Image::with_shell(home);
    for number in 0..60 {
        image.layer().file(&format!("n/{number}"), "").file("last", &number.to_string());
        // The same one twice and more.
        image.layer().file("twin", "twin");
    }
    image.import(home, "many");
    let line = "ls /n | wc -l; cat /last /twin; echo; id -u";
    let want = format!("60\n59twin\n{}\n", root_is(home));
    assert_eq!(run(home, "many", &[], &["sh", "-c", line]), want);
}
