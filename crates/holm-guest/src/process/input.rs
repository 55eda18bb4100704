//! `StreamInput`: input for one program in one long request, so that its order is kept.

use holm_wire::connect::Decoder;
use holm_wire::process::{Empty, StreamInputRequest};
use hyper::body::Incoming;
use hyper::{Request, Response};

use crate::errors::{Result, invalid};
use crate::server::body::{Reply, next_part_within};
use crate::server::rpc;
use crate::state::Shared;

/// Most bytes of one message.
const MAX_MESSAGE: usize = 4 << 20;

/// `process.Process/StreamInput`: names the program first, then sends data. The caller says now
/// and then that it lives; after twice that time without a word it counts as gone.
pub async fn stream_input(guest: Shared, request: Request<Incoming>) -> Response<Reply> {
    match feed(&guest, request).await {
        Ok(()) => {
            let mut reply = rpc::message_frame(&Empty {}).to_vec();
            reply.extend_from_slice(&rpc::end_frame(None));
            rpc::stream(Reply::whole(reply))
        }
        Err(error) => rpc::stream_failure(error),
    }
}

async fn feed(guest: &Shared, request: Request<Incoming>) -> Result<()> {
    rpc::check_stream(request.headers())?;
    let silence = rpc::keepalive(request.headers()) * 2;
    let mut body = request.into_body();
    let mut decoder = Decoder::new(MAX_MESSAGE);
    let mut program = None;
    while let Some(part) = next_part_within(&mut body, silence).await? {
        decoder.push(&part);
        while let Some(frame) = decoder.next_frame().map_err(|e| invalid(e.to_string()))? {
            if frame.end {
                continue;
            }
            match (rpc::parse(&frame.payload)?, &program) {
                (StreamInputRequest::Start(start), None) => {
                    program = Some(guest.processes.running(&start.process)?);
                }
                (StreamInputRequest::Start(_), Some(_)) => {
                    return Err(invalid("the stream names its process twice"));
                }
                (StreamInputRequest::Data(data), Some(program)) => {
                    program.feed(&data.input).await?;
                }
                (StreamInputRequest::Data(_), None) => {
                    return Err(invalid("the stream must name its process (`start`) before data"));
                }
                (StreamInputRequest::Keepalive(_), _) => {}
            }
        }
    }
    if !decoder.is_empty() {
        return Err(invalid("the stream ends within a message"));
    }
    if program.is_none() {
        return Err(invalid("the stream names no process"));
    }
    Ok(())
}
