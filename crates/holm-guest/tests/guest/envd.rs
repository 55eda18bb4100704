//! The rest of envd: the filesystem service, watches, plain HTTP.

use std::time::Duration;

use holm_wire::client::CallLimits;
use holm_wire::connect::Code;
use holm_wire::filesystem::{
    EntryResponse, EventType, FileType, ListDirRequest, ListDirResponse, MoveRequest, PathRequest,
    WatchRequest, Watcher, WatcherEvents,
};
use holm_wire::guest::Configure;
use holm_wire::{ENVD_VERSION, paths::filesystem as at, process::Empty};
use serde::{Serialize, de::DeserializeOwned};

use crate::harness::{Guest, HANG, with_guest};

async fn call<Q: Serialize + Sync, R: DeserializeOwned>(
    guest: &Guest,
    path: &str,
    q: Q,
) -> Result<R, Code> {
    guest
        .client
        .unary(path, "", &q, CallLimits::default())
        .await
        .map_err(|error| error.code().unwrap_or_else(|| panic!("{path}: {error}")))
}

fn path(path: &str) -> PathRequest {
    PathRequest { path: path.into() }
}

#[test]
fn directories_are_made_moved_listed_and_removed() {
    with_guest(async |guest| {
        let made: EntryResponse = call(guest, at::MAKE_DIR, path("a/b")).await.unwrap();
        assert_eq!((made.entry.name.as_str(), made.entry.r#type), ("b", FileType::Directory));
        assert_eq!(made.entry.path, guest.path("a/b"));
        let again: Result<EntryResponse, _> = call(guest, at::MAKE_DIR, path("a/b")).await;
        assert_eq!(again.unwrap_err(), Code::AlreadyExists);
        guest.sh("echo hi > a/f; chmod 640 a/f; ln -s f a/l").await;
        let list = |depth| ListDirRequest { path: "a".into(), depth };
        let listed: ListDirResponse = call(guest, at::LIST_DIR, list(1)).await.unwrap();
        let names: Vec<_> = listed.entries.iter().map(|entry| entry.name.as_str()).collect();
        assert_eq!(names, ["b", "f", "l"]);
        assert_eq!(
            (listed.entries[1].size, listed.entries[1].permissions.as_str()),
            (3, "-rw-r-----")
        );
        assert_eq!(listed.entries[2].symlink_target.as_deref(), Some("f"));
        let to = |source: &str, destination: &str| MoveRequest {
            source: source.into(),
            destination: destination.into(),
        };
        let moved: EntryResponse = call(guest, at::MOVE, to("a/f", "new/place/g")).await.unwrap();
        assert_eq!(moved.entry.path, guest.path("new/place/g"));
        let deep: ListDirResponse =
            call(guest, at::LIST_DIR, ListDirRequest { path: "new".into(), depth: 3 })
                .await
                .unwrap();
        assert_eq!(deep.entries.len(), 2);
        for (wrong, want) in [("a/none", Code::NotFound), ("new/place/g", Code::InvalidArgument)] {
            let result: Result<ListDirResponse, _> =
                call(guest, at::LIST_DIR, ListDirRequest { path: wrong.into(), depth: 1 }).await;
            assert_eq!(result.unwrap_err(), want, "{wrong}");
        }
        let result: Result<EntryResponse, _> = call(guest, at::MOVE, to("none", "x")).await;
        assert_eq!(result.unwrap_err(), Code::NotFound);
        let result: Result<EntryResponse, _> = call(guest, at::STAT, path("none")).await;
        assert_eq!(result.unwrap_err(), Code::NotFound);
        for _ in 0..2 {
            let _: Empty = call(guest, at::REMOVE, path("new")).await.unwrap();
            assert!(!guest.work.join("new").exists());
        }
    });
}

#[test]
fn case_38_very_deep_trees_are_removed() {
    with_guest(async |guest| {
        let script =
            "import os\nfor i in range(3000):\n os.mkdir('d'); open('f','w'); os.chdir('d')";
        let made = guest.sh(&format!("mkdir deep; cd deep; python3 -c \"{script}\"")).await;
        assert_eq!(made.exit_code, 0, "{made:?}");
        let _: Empty = call(guest, at::REMOVE, path("deep")).await.unwrap();
        assert!(!guest.work.join("deep").exists());
    });
}

#[test]
fn a_polled_watcher_sees_changes_below() {
    with_guest(async |guest| {
        let asked = WatchRequest { path: ".".into(), recursive: true };
        let watcher: Watcher = call(guest, at::CREATE_WATCHER, asked).await.unwrap();
        guest
            .sh("mkdir -p x/y; echo 1 > x/y/f; sleep 0.1; chmod 600 x/y/f; mv x/y/f g; rm g")
            .await;
        let mut wanted = vec![
            ("x", EventType::Create),
            ("x/y/f", EventType::Create),
            ("x/y/f", EventType::Chmod),
            ("x/y/f", EventType::Rename),
            ("g", EventType::Create),
            ("g", EventType::Remove),
        ];
        let began = std::time::Instant::now();
        while !wanted.is_empty() {
            assert!(began.elapsed() < HANG, "missing: {wanted:?}");
            let seen: WatcherEvents =
                call(guest, at::GET_WATCHER_EVENTS, watcher.clone()).await.unwrap();
            wanted.retain(|(name, kind)| {
                !seen.events.iter().any(|e| e.name == *name && e.r#type == *kind)
            });
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let _: Empty = call(guest, at::REMOVE_WATCHER, watcher.clone()).await.unwrap();
        let gone: Result<WatcherEvents, _> = call(guest, at::GET_WATCHER_EVENTS, watcher).await;
        assert_eq!(gone.unwrap_err(), Code::NotFound);
        guest.sh("touch file").await;
        let file: Result<Watcher, _> =
            call(guest, at::CREATE_WATCHER, WatchRequest { path: "file".into(), recursive: false })
                .await;
        assert_eq!(file.unwrap_err(), Code::InvalidArgument);
    });
}

#[test]
fn files_travel_over_plain_http() {
    with_guest(async |guest| {
        let raw = "Content-Type: application/octet-stream\r\nX-Metadata-Team: blue\r\n";
        let (status, answer) = guest.http("POST", "/files?path=up/a%20b.txt", raw, b"data");
        assert_eq!(status, 200, "{answer}");
        assert!(answer.contains("a b.txt") && answer.contains("blue"), "{answer}");
        assert_eq!(guest.http("GET", "/files?path=up/a%20b.txt", "", b""), (200, "data".into()));
        let form = "Content-Type: multipart/form-data; boundary=b\r\n";
        let body = b"--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"m1\"\r\n\r\nAAA\r\n--b\r\n\
            Content-Disposition: form-data; name=\"file\"; filename=\"s/m2\"\r\n\r\nBBB\r\n--b--\r\n";
        assert_eq!(guest.http("POST", "/files", form, body).0, 200);
        assert_eq!(std::fs::read(guest.work.join("s/m2")).unwrap(), b"BBB");
        for (target, headers, want) in [
            ("/files?path=none", "", 404),
            ("/files?path=s", "", 400),
            ("/files", "", 400),
            ("/files?path=m1&username=nobody-here", "", 401),
            ("/files?path=m1", "Accept-Encoding: identity;q=0\r\n", 406),
        ] {
            assert_eq!(guest.http("GET", target, headers, b"").0, want, "{target} {headers}");
        }
        assert_eq!(guest.http("POST", "/files", form, b"--b\r\nbroken").0, 400);
    });
}

#[test]
fn health_metrics_and_variables() {
    with_guest(async |guest| {
        assert_eq!(guest.http("GET", "/health", "", b"").0, 204);
        let (status, text) = guest.http("GET", "/metrics", "", b"");
        let metrics: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert!(status == 200 && metrics["mem_total"].as_u64().unwrap() > 0, "{text}");
        let (_, text) = guest.http("GET", "/envs", "", b"");
        let envs: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(envs["HOLM_SANDBOX"], "1");
        assert_eq!(ENVD_VERSION, "0.6.4");
        let configured = guest.client.configure(&Configure::default()).await.unwrap();
        let probe = configured.measured;
        assert!(
            probe.no_new_privs && probe.disk_bytes > 0 && probe.namespaces.len() >= 6,
            "{probe:?}"
        );
    });
}
