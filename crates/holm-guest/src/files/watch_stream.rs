//! `WatchDir`.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use holm_wire::filesystem::{WatchRequest, WatchResponse};
use holm_wire::process::Empty;
use hyper::body::Incoming;
use hyper::{Request, Response};
use tokio::sync::Notify;

use super::watch::Watch;
use crate::process::queue::{Follower, Queue, wait_for_room};
use crate::server::body::Reply;
use crate::server::route::with_stream;
use crate::server::rpc::{self, message_frame};
use crate::state::Shared;

/// How long a reader of events may read nothing once much waits. The kernel's own queue overflows
/// meanwhile, which is told.
const PATIENCE: Duration = Duration::from_secs(60);

/// `filesystem.Filesystem/WatchDir`.
pub async fn watch(guest: Shared, request: Request<Incoming>) -> Response<Reply> {
    let headers = request.headers().clone();
    with_stream(request, async move |asked: WatchRequest| {
        let user = rpc::user(&headers)?;
        let mut watch = Watch::set(&guest, &user, &asked).await?;
        let room = Rc::new(Notify::new());
        let queue = Queue::new(PATIENCE, Rc::clone(&room));
        queue.push(message_frame(&WatchResponse::Start(Empty {})));
        let alive = message_frame(&WatchResponse::Keepalive(Empty {}));
        let follower = Follower::new(Rc::clone(&queue), rpc::keepalive(&headers), alive);
        tokio::task::spawn_local(async move {
            let queues = RefCell::new(vec![Rc::clone(&queue)]);
            while queue.lives() {
                wait_for_room(&queues, &room).await;
                tokio::select! {
                    // Something was taken, or the reader left: look again.
                    () = room.notified() => continue,
                    () = watch.ready() => {}
                }
                match watch.next(&guest).await {
                    Ok(events) => {
                        for event in events {
                            queue.push(message_frame(&WatchResponse::Filesystem(event)));
                        }
                    }
                    Err(error) => queue.end(Some(error)),
                }
            }
        });
        Ok(rpc::stream(Reply::parts(follower)))
    })
    .await
}
