//! Code in a context: a kernel inside the sandbox runs it, and keeps its variables.
//!
//! What comes back was written by a program of a user: forms that are not what their type says do not
//! leave here.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use holm_wire::client::ClientError;
use holm_wire::connect::Code;
use holm_wire::encoding;
use holm_wire::kernel::{self as wire, Answer, ExecuteRequest, Kind, Status};
use tokio::time::Instant;

use crate::command::{milliseconds, user};
use crate::context::context_id;
use crate::exec::add_note;
use crate::guest_error::About;
use crate::sandbox::Sandbox;
use crate::text::shorten;
use crate::{
    CodeError, CodeOutput, CodeOutputKind, CodeResult, CommandResult, Engine, Error, KernelResult,
    Language, Output, RunCode, capture, lifetime, signal,
};

/// Binary forms, and how each begins.
const BINARY: [(&str, &[u8]); 3] = [
    ("image/png", b"\x89PNG\r\n\x1a\n"),
    ("image/jpeg", b"\xff\xd8\xff"),
    ("application/pdf", b"%PDF-"),
];
/// The error that a kernel raises for code that asks for input.
const NO_INPUT: &str = "StdinNotImplementedError";

impl Engine {
    /// Runs code in a context; `None` where none was named and this sandbox has no kernel of the
    /// language.
    pub(crate) async fn code_in_kernel(
        &self,
        sandbox: &Arc<Sandbox>,
        request: &RunCode,
    ) -> Result<Option<CodeResult>, Error> {
        let asked = request.timeout.unwrap_or(self.inner.settings.code_timeout);
        if asked.is_zero() {
            return Err(Error::invalid("the timeout of a program must be above 0"));
        }
        let deadline = sandbox.deadline().ok_or_else(|| sandbox.not_ready())?;
        let left = deadline.saturating_duration_since(Instant::now());
        let limit = asked.min(left).max(Duration::from_millis(1));
        let context = request.context.as_deref().map(context_id).transpose()?;
        let wanted = ExecuteRequest {
            // The language says nothing where only its default was meant.
            language: match (&context, request.language) {
                (Some(_), Language::Python) => String::new(),
                (_, language) => language.as_str().to_owned(),
            },
            context: context.unwrap_or_default(),
            user: user(request.user.as_deref())?.to_owned(),
            code: request.code.clone(),
            timeout_ms: milliseconds(limit),
        };
        let _counted = self.count_run();
        let _in_flight = sandbox.start_run();
        let kills_before = sandbox.oom_kills();
        let guest = sandbox.guest()?.clone();
        let call = async {
            let answer = guest.execute(&wanted).await?;
            let room = match self.room_for(answer.length).await {
                Ok(room) => room,
                Err(error) => return Ok(Err(error)),
            };
            Ok(Ok((answer.read().await?, room)))
        };
        let answer = tokio::select! {
            biased;
            answer = call => answer,
            ended = sandbox.ended() => return Err(Error::gone(&sandbox.id, ended)),
        };
        let (answer, _room) = match answer {
            Ok(answer) => answer?,
            Err(ClientError::Guest(said))
                if said.code == Code::Unimplemented && wanted.context.is_empty() =>
            {
                return Ok(None);
            }
            Err(error) => return Err(self.call_failed(sandbox, &error, About::Context).await),
        };
        let mut result = result(answer, request.language, limit);
        let rose = kills_before.zip(sandbox.oom_kills()).is_some_and(|(before, now)| now > before);
        if rose {
            result.result.out_of_memory = true;
            let limit = sandbox.live().record.given.memory_mb;
            let note = format!("the sandbox reached its memory limit of {limit} MiB");
            add_note(&mut result.result, note);
        }
        if let Some(directory) = &request.save_to {
            self.save_results(sandbox, request, directory, &mut result).await;
        }
        Ok(Some(result))
    }

    /// Stores images and documents in a directory. The code has run, whatever comes of that.
    async fn save_results(
        &self,
        sandbox: &Arc<Sandbox>,
        request: &RunCode,
        directory: &str,
        result: &mut CodeResult,
    ) {
        let Some(kernel) = &mut result.kernel else { return };
        let begin = format!("{}-{}", kernel.context, kernel.count.unwrap_or(0));
        let mut number = 0;
        let mut failed = None;
        for output in &mut kernel.outputs {
            let svg = output.texts.get("image/svg+xml");
            let svg = svg.map(|text| ("image/svg+xml".to_owned(), Bytes::from(text.clone())));
            let binaries =
                output.binaries.iter().map(|(name, bytes)| (name.clone(), bytes.clone()));
            for (form, bytes) in binaries.chain(svg).collect::<Vec<_>>() {
                number += 1;
                let end = match &*form {
                    "image/png" => "png",
                    "image/jpeg" => "jpeg",
                    "application/pdf" => "pdf",
                    _ => "svg",
                };
                let path = format!("{}/{begin}-{number}.{end}", directory.trim_end_matches('/'));
                let user = request.user.as_deref();
                match self.file_write(&sandbox.id, &path, user, None, bytes).await {
                    Ok(written) => drop(output.saved.insert(form, written.path)),
                    Err(error) => failed = Some(error),
                }
            }
        }
        if let Some(error) = failed {
            let note = format!("results could not be saved: {}", error.public);
            add_note(&mut result.result, note);
        }
    }
}

/// What a guest says, which may be hostile: bounded, and true to itself.
fn result(answer: Answer, language: Language, limit: Duration) -> CodeResult {
    let Answer { context, lost_before, executed, duration_ms } = answer;
    let language = context.language.parse().unwrap_or(language);
    let ended = |end: wire::End| match end.signal {
        Some(number) => signal::name(number),
        None => format!("exit code {}", end.exit_code),
    };
    let (exit_code, timed_out) = match (executed.status, executed.end) {
        (Status::Ok, _) => (0, false),
        (Status::Error, _) => (1, false),
        (Status::Interrupted, _) => (130, true),
        (Status::Stuck, _) => (137, true),
        (Status::Died | Status::Stopped, end) => (end.map_or(137, |end| end.exit_code), false),
    };
    let mut result = CommandResult {
        exit_code,
        timed_out,
        signal: executed.end.and_then(|end| end.signal).map(signal::name),
        duration: Duration::from_millis(duration_ms),
        timeout: limit,
        ..CommandResult::default()
    };
    if let Some(end) = lost_before {
        let end = ended(end);
        let note = format!(
            "the kernel had ended since the last call ({end}): this ran in a new one, and earlier \
             variables are lost"
        );
        add_note(&mut result, note);
    }
    if let Some(note) = note(&executed, limit, ended) {
        add_note(&mut result, note);
    }
    let outputs: Vec<CodeOutput> =
        executed.outputs.into_iter().take(wire::MOST_OUTPUTS).map(output).collect();
    result.stdout = stream(&outputs, CodeOutputKind::Stdout, executed.stdout_bytes);
    result.stderr = stream(&outputs, CodeOutputKind::Stderr, executed.stderr_bytes);
    let left_out: u64 = outputs.iter().flat_map(|one| one.left_out.values()).sum();
    if left_out > 0 {
        let most = wire::MOST_RICH >> 20;
        let note =
            format!("{left_out} bytes of results were left out: {most} MiB of them fit one answer");
        add_note(&mut result, note);
    }
    if executed.outputs_dropped > 0 {
        let note = format!(
            "{} outputs were left out: {} fit one answer",
            executed.outputs_dropped,
            wire::MOST_OUTPUTS
        );
        add_note(&mut result, note);
    }
    let error = executed.error.map(|error| CodeError {
        name: shorten(&error.name, 200),
        value: error.value,
        traceback: error.traceback,
    });
    let kept = matches!(executed.status, Status::Ok | Status::Error | Status::Interrupted);
    let kernel = KernelResult {
        context: shorten(&context.id, 64),
        variables_kept: kept,
        count: executed.count,
        outputs,
        error,
        outputs_dropped: executed.outputs_dropped,
    };
    CodeResult { result, language, stateful: true, kernel: Some(kernel) }
}

/// What a reader should know of how it ended.
fn note(
    executed: &wire::Executed,
    limit: Duration,
    ended: impl Fn(wire::End) -> String,
) -> Option<String> {
    const LOST: &str = "its variables are lost, and the next code has a new kernel";
    let limit = lifetime::text(limit);
    Some(match executed.status {
        Status::Interrupted => {
            format!("interrupted at its time limit of {limit}; variables are kept")
        }
        Status::Stuck => format!(
            "at its time limit of {limit} it was interrupted and did not stop, so its kernel was \
             killed: {LOST}"
        ),
        Status::Died => match executed.end {
            Some(end) => format!("the kernel ended while this ran ({}): {LOST}", ended(end)),
            None => format!("the kernel ended while this ran: {LOST}"),
        },
        Status::Stopped => format!("the context was restarted or deleted while this ran: {LOST}"),
        Status::Error if executed.error.as_ref().is_some_and(|error| error.name == NO_INPUT) => {
            "there is nobody to ask for input here: put the values into the code".to_owned()
        }
        Status::Ok | Status::Error if executed.incomplete => {
            "the last output may be missing: the kernel did not say that it was all".to_owned()
        }
        Status::Ok | Status::Error => return None,
    })
}

fn output(said: wire::Output) -> CodeOutput {
    let mut text = said.text;
    if said.cut > 0 {
        let at = usize::try_from(said.cut_at).unwrap_or(usize::MAX).min(text.len());
        let at = (0..=at).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        let at_line_start = at == 0 || text[..at].ends_with('\n');
        text.insert_str(at, &capture::marker(said.cut, at_line_start));
    }
    let mut output = CodeOutput {
        kind: match said.kind {
            Kind::Stdout => CodeOutputKind::Stdout,
            Kind::Stderr => CodeOutputKind::Stderr,
            Kind::Result => CodeOutputKind::Result,
            Kind::Display => CodeOutputKind::Display,
            Kind::Error => CodeOutputKind::Error,
        },
        text,
        is_cut: said.cut > 0,
        texts: BTreeMap::new(),
        binaries: BTreeMap::new(),
        left_out: BTreeMap::new(),
        saved: BTreeMap::new(),
    };
    for (name, bytes) in said.left_out {
        output.left_out.insert(shorten(&name, 60), bytes);
    }
    for (name, form) in said.forms {
        if !wire::FORMS.contains(&&*name) {
            continue;
        }
        let Some((_, begin)) = BINARY.iter().find(|(binary, _)| *binary == name) else {
            output.texts.insert(name, form);
            continue;
        };
        let packed: String = form.split_ascii_whitespace().collect();
        match encoding::bytes::decode(&packed) {
            Ok(bytes) if bytes.starts_with(begin) => {
                output.binaries.insert(name, Bytes::from(bytes));
            }
            _ => drop(output.left_out.insert(name, form.len() as u64)),
        }
    }
    output
}

/// All that one stream wrote.
fn stream(outputs: &[CodeOutput], kind: CodeOutputKind, total: u64) -> Output {
    let parts = outputs.iter().filter(|output| output.kind == kind);
    let text: String = parts.map(|output| &*output.text).collect();
    // What was cut is replaced by a line, so that lengths alone do not tell.
    let truncated = outputs.iter().any(|output| output.kind == kind && output.is_cut);
    Output {
        bytes: total.max(if truncated { 0 } else { text.len() as u64 }),
        text,
        truncated,
        lossy: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ran(executed: wire::Executed) -> CodeResult {
        let answer = Answer { executed, ..Answer::default() };
        result(answer, Language::Python, Duration::from_secs(3))
    }

    #[test]
    fn each_end_says_what_became_of_the_variables() {
        let check = |status, end: Option<i32>, code: i32, kept: bool, part: &str| {
            let end = end.map(|exit_code| wire::End { exit_code, signal: None });
            let got = ran(wire::Executed { status, end, ..wire::Executed::default() });
            let note = got.result.note.clone().unwrap_or_default();
            assert_eq!((got.result.exit_code, got.kernel.unwrap().variables_kept), (code, kept));
            assert!(note.contains(part), "{note}");
            assert_eq!(got.result.timed_out, note.contains("time limit of 3 seconds"), "{note}");
        };
        check(Status::Ok, None, 0, true, "");
        check(Status::Error, None, 1, true, "");
        check(Status::Interrupted, None, 130, true, "variables are kept");
        check(Status::Stuck, None, 137, false, "variables are lost");
        check(Status::Died, Some(3), 3, false, "(exit code 3)");
        check(Status::Died, None, 137, false, "variables are lost");
        check(Status::Stopped, None, 137, false, "restarted or deleted");
    }

    #[test]
    fn what_is_not_what_it_says_does_not_leave() {
        let forms = [
            ("image/png", "iVBORw0K\nGgo="),
            ("image/jpeg", "iVBORw0KGgo="),
            ("application/pdf", "%PDF-1"),
            ("text/html", "<b>"),
            ("x-evil/type", "x"),
        ];
        let forms = forms.map(|(name, form)| (name.to_owned(), form.to_owned())).into();
        let one = wire::Output { kind: Kind::Display, forms, ..wire::Output::default() };
        let got = ran(wire::Executed { outputs: vec![one], ..wire::Executed::default() });
        let one = &got.kernel.unwrap().outputs[0];
        assert_eq!(one.binaries.keys().collect::<Vec<_>>(), ["image/png"]);
        assert_eq!(one.texts.keys().collect::<Vec<_>>(), ["text/html"]);
        assert_eq!(one.left_out.keys().collect::<Vec<_>>(), ["application/pdf", "image/jpeg"]);
        assert!(got.result.note.unwrap().contains("left out"));
    }

    #[test]
    fn a_stream_that_was_cut_says_so() {
        let text = |kind, text: &str, cut| wire::Output {
            kind,
            text: text.to_owned(),
            cut,
            ..wire::Output::default()
        };
        let outputs = vec![
            text(Kind::Stdout, "a\n", 0),
            text(Kind::Stderr, "b\n", 0),
            wire::Output { cut_at: 1, ..text(Kind::Stdout, "cd\n", 7) },
        ];
        let got = ran(wire::Executed {
            outputs,
            stdout_bytes: 12,
            stderr_bytes: 2,
            ..wire::Executed::default()
        });
        assert_eq!(got.result.stdout.text, "a\nc\n[... 7 bytes cut ...]\nd\n");
        assert!(got.result.stdout.truncated && !got.result.stderr.truncated);
        assert_eq!((got.result.stdout.bytes, &*got.result.stderr.text), (12, "b\n"));
    }
}
