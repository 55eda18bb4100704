//! One piece of code, from the request to the answer.

use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use holm_wire::kernel::{Executed, Kind, Status, YIELD_MS};
use serde_json::json;

use super::Orders;
use super::kernel::{Kernel, News};
use super::lines::Run;
use super::message::{self, Heard};
use super::outputs::Outputs;

/// How long after the answer what was published before it may take to come.
const QUIET: Duration = Duration::from_secs(2);

/// How long what a kernel that has ended said last is waited for; processes that it left may hold its
/// sockets open.
const LAST: Duration = Duration::from_secs(1);

/// What is known of the code so far.
#[derive(Debug, Default)]
struct Course {
    id: String,
    outputs: Outputs,
    count: Option<u64>,
    answered: Option<Instant>,
    failed: bool,
    idle: bool,
}

/// Runs code. An interrupt comes at its time limit, or when an order or the end of the orders wants it;
/// the kernel then has some seconds to yield.
pub fn execute(kernel: &mut Kernel, orders: &mut Orders, run: &Run) -> Executed {
    let content = json!({
        "code": run.code, "silent": false, "store_history": true, "user_expressions": {},
        "allow_stdin": false, "stop_on_error": true,
    });
    let mut course = Course::default();
    match kernel.ask("execute_request", &content) {
        Ok(id) => course.id = id,
        // It may have ended this moment; else it is as good as stuck.
        Err(_) => return course.finish(kernel, Status::Stuck, false),
    }
    let mut deadline = Instant::now() + Duration::from_millis(run.timeout_ms);
    let mut interrupts = 0;
    loop {
        if course.is_done(Instant::now()) {
            let status = match (interrupts, course.failed) {
                (0, false) => Status::Ok,
                (0, true) => Status::Error,
                _ => Status::Interrupted,
            };
            return course.finish(kernel, status, true);
        }
        let until = course.answered.map_or(deadline, |at| deadline.min(at + QUIET));
        let input = std::io::stdin();
        let news = kernel.wait(Some(input.as_fd()), Some(until));
        let is_asked = news.besides && orders.stop();
        course.take(news);
        if kernel.end().is_some() {
            course.take_last(kernel);
            return course.finish(kernel, Status::Died, true);
        }
        if course.answered.is_some()
            || (Instant::now() < deadline && !(is_asked && interrupts == 0))
        {
            continue;
        }
        if interrupts == 2 {
            return course.finish(kernel, Status::Stuck, false);
        }
        // A second one for code that has stopped one thing and begun the next.
        kernel.interrupt();
        interrupts += 1;
        deadline = Instant::now() + Duration::from_millis(YIELD_MS / 2);
    }
}

impl Course {
    fn is_done(&self, now: Instant) -> bool {
        self.answered.is_some_and(|at| self.idle || now >= at + QUIET)
    }

    fn finish(self, kernel: &mut Kernel, status: Status, complete: bool) -> Executed {
        let end = kernel.end();
        let status = if end.is_some() { Status::Died } else { status };
        let incomplete = complete && status != Status::Died && !self.idle;
        let executed =
            Executed { status, count: self.count, end, incomplete, ..Executed::default() };
        self.outputs.finish(executed)
    }

    /// What a kernel that has ended said last is still there.
    fn take_last(&mut self, kernel: &mut Kernel) {
        let until = Instant::now() + LAST;
        let mut is_over = false;
        while !is_over && Instant::now() < until {
            let news = kernel.wait(None, Some(until));
            is_over = news.is_over;
            self.take(news);
        }
    }

    fn take(&mut self, news: News) {
        for heard in news.published {
            self.publish(&heard);
        }
        for heard in news.answers {
            if heard.parent == self.id && heard.kind == "execute_reply" {
                let reply: message::Reply = heard.content();
                self.count = reply.execution_count.or(self.count);
                self.failed = reply.status != "ok";
                self.answered = Some(Instant::now());
            }
        }
    }

    fn publish(&mut self, heard: &Heard) {
        let is_ours = heard.parent == self.id;
        match &*heard.kind {
            // Also what threads write that code before this has left.
            "stream" => {
                let (stream, tail) = match heard.dropped {
                    0 => (heard.content::<message::Stream>(), None),
                    dropped => {
                        let (stream, tail) = heard.ends();
                        (stream, Some((dropped, tail)))
                    }
                };
                let kind = if stream.name == "stderr" { Kind::Stderr } else { Kind::Stdout };
                self.outputs.write(kind, &stream.text);
                if let Some((dropped, tail)) = tail {
                    self.outputs.skip(kind, dropped);
                    self.outputs.write(kind, &tail);
                }
            }
            _ if !is_ours => {}
            "status" => {
                let status: message::Status = heard.content();
                self.idle |= status.execution_state == "idle";
            }
            "execute_result" => self.outputs.display(Kind::Result, heard.content(), heard.dropped),
            "display_data" => self.outputs.display(Kind::Display, heard.content(), heard.dropped),
            "update_display_data" => self.outputs.update(heard.content()),
            "clear_output" => self.outputs.clear(heard.content::<message::Clear>().wait),
            "error" => self.outputs.raise(heard.content()),
            _ => {}
        }
    }
}
