//! Running code.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use holm_engine::{
    CodeOutput, CodeOutputKind, ErrorKind, KernelResult, KeyScope, RunCode, SandboxId,
};
use hyper::Method;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::contexts::ID;
use super::endpoint::{About, Call, Endpoint};
use super::exec::{CommandResult, MAX_TIMEOUT_MS};
use super::failure::Failure;
use super::input::{Json, NoQuery, Object};
use super::number::Whole;
use super::output::Answer;
use super::text::{User, Variables, sandbox_id_schema};

/// A program in one of some languages.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunCodeRequest {
    /// The program's text.
    pub code: String,
    /// Its language (default: python).
    pub language: Option<Language>,
    /// Time limit in milliseconds (default: 30000); never beyond the sandbox's own end.
    pub timeout_ms: Option<Whole<1, MAX_TIMEOUT_MS>>,
    /// Environment variables for this program, which then runs in a fresh interpreter.
    pub env: Option<Variables>,
    /// Working directory (default: /workspace, or the template's own); where it is given the program
    /// runs in a fresh interpreter.
    #[schemars(length(min = 1, max = 4095), extend("pattern" = "^[^\\u0000]*$"))]
    pub cwd: Option<String>,
    /// Who runs it (default: sandbox, or whom the template's image names).
    pub user: Option<User>,
    /// In which context (default: the language's own). Goes with neither `env`, `cwd` nor `user`.
    #[schemars(extend("pattern" = ID))]
    pub context: Option<String>,
    /// A directory in which images and documents among the results are stored too.
    #[schemars(length(min = 1, max = 4095), extend("pattern" = "^[^\\u0000]*$"))]
    pub save_to: Option<String>,
}

impl Object for RunCodeRequest {}

/// A language.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Language {
    Python,
    Javascript,
    Typescript,
    Bash,
    R,
}

impl From<Language> for holm_engine::Language {
    fn from(language: Language) -> Self {
        match language {
            Language::Python => Self::Python,
            Language::Javascript => Self::Javascript,
            Language::Typescript => Self::Typescript,
            Language::Bash => Self::Bash,
            Language::R => Self::R,
        }
    }
}

/// What code wrote or showed.
#[derive(Debug, Serialize, JsonSchema)]
pub struct CodeOutputView {
    /// What it is.
    #[schemars(extend("enum" = CodeOutputKind::ALL.map(CodeOutputKind::as_str)))]
    pub r#type: &'static str,
    /// Text of stdout or stderr.
    pub text: Option<String>,
    /// Forms of a result by media type. Images (but SVG) and PDF are base64.
    pub data: BTreeMap<String, String>,
    /// Bytes of forms that had no room, by media type.
    pub left_out_bytes: BTreeMap<String, u64>,
    /// Where `save_to` has stored forms, by media type.
    pub saved: BTreeMap<String, String>,
}

/// An error that code raised.
#[derive(Debug, Serialize, JsonSchema)]
pub struct CodeRaised {
    /// Its class.
    pub name: String,
    /// What it says.
    pub value: String,
    /// Where it happened, in lines.
    pub traceback: String,
}

/// A program that ended, and where it ran.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RunCodeResult {
    /// Where it ran.
    #[schemars(schema_with = "sandbox_id_schema")]
    pub sandbox_id: SandboxId,
    /// Its language.
    pub language: String,
    /// True when it ran in a context, which keeps variables; false for a fresh interpreter.
    pub stateful: bool,
    /// The context.
    pub context: Option<String>,
    /// Whether the next code in that context has its variables.
    pub variables_kept: bool,
    /// Its number in the context's kernel.
    pub execution_count: Option<u64>,
    /// What it wrote and showed, in order; empty for a fresh interpreter.
    pub outputs: Vec<CodeOutputView>,
    /// The error that it raised in a context.
    pub raised: Option<CodeRaised>,
    /// How it ended.
    #[serde(flatten)]
    pub result: CommandResult,
}

impl From<CodeOutput> for CodeOutputView {
    fn from(output: CodeOutput) -> Self {
        let is_text = matches!(output.kind, CodeOutputKind::Stdout | CodeOutputKind::Stderr);
        let binaries = output.binaries.into_iter();
        let binaries = binaries.map(|(form, bytes)| (form, STANDARD.encode(bytes)));
        Self {
            r#type: output.kind.as_str(),
            text: is_text.then_some(output.text),
            data: output.texts.into_iter().chain(binaries).collect(),
            left_out_bytes: output.left_out,
            saved: output.saved,
        }
    }
}

/// The endpoints that run code.
#[must_use]
pub fn endpoints() -> Vec<Endpoint> {
    let about = About {
        id: "sandbox_run_code",
        tag: "sandboxes",
        summary: "Run code",
        description: "Runs a program. Where the sandbox has a Jupyter kernel of the language it runs in \
            a context, which keeps variables, and answers `stateful: true` and what it showed; else in \
            a fresh interpreter. Files in /workspace are kept. A client that closes the connection \
            interrupts it.",
        scope: Some(KeyScope::Sandboxes),
        errors: &[
            ErrorKind::NotFound,
            ErrorKind::SandboxGone,
            ErrorKind::PermissionDenied,
            ErrorKind::LanguageUnavailable,
            ErrorKind::Capacity,
            ErrorKind::DiskFull,
            ErrorKind::Conflict,
            ErrorKind::Timeout,
        ],
        headers: &[],
    };
    vec![Endpoint::new(Method::POST, "/v1/sandboxes/{sandbox_id}/run-code", about, run_code)]
}

async fn run_code(
    call: Call<SandboxId, NoQuery, Json<RunCodeRequest>>,
) -> Result<Answer<RunCodeResult>, Failure> {
    let asked = call.body.0;
    let wanted = RunCode {
        code: asked.code,
        language: asked.language.map(Into::into).unwrap_or_default(),
        timeout: asked.timeout_ms.map(|ms| Duration::from_millis(ms.0)),
        env: asked.env.unwrap_or_default().0,
        cwd: asked.cwd,
        user: asked.user.map(|user| user.as_str().to_owned()),
        context: asked.context,
        save_to: asked.save_to,
    };
    let ran = call.engine.code_run(&call.id, wanted).await?;
    let is_stateful = ran.kernel.is_some();
    let KernelResult { context, variables_kept, count, outputs, error, .. } =
        ran.kernel.unwrap_or_default();
    Ok(Answer(RunCodeResult {
        sandbox_id: call.id,
        language: ran.language.as_str().to_owned(),
        stateful: ran.stateful,
        context: is_stateful.then_some(context),
        variables_kept,
        execution_count: count,
        outputs: outputs.into_iter().map(Into::into).collect(),
        raised: error.map(|error| CodeRaised {
            name: error.name,
            value: error.value,
            traceback: error.traceback,
        }),
        result: ran.result.into(),
    }))
}
