//! `code_contexts`: makes, lists, restarts and deletes the contexts of run_code.

use holm_engine::{CodeContext, ContextState, CreateContext, Language};
use serde_json::{Value, json};

use super::target;
use crate::mcp::outcome::{Output, ToolError};
use crate::mcp::schema;
use crate::mcp::tool::{Context, Hints, Tool, Work};
use crate::show;

const ACTIONS: [&str; 4] = ["list", "create", "restart", "delete"];

pub(super) fn tool() -> Tool {
    let languages = Language::ALL.map(Language::as_str);
    let states = ContextState::ALL.map(ContextState::as_str);
    let item = json!({
        "type": "object",
        "properties": {
            "context": schema::string("Its id."),
            "language": schema::string("Its language."),
            "kernel": schema::string("Its kernel's name."),
            "state": schema::choice("empty has no kernel; the next code starts one.", &states),
            "default": schema::boolean("True of what run_code uses that names no context."),
            "user": schema::string("Whose it is."),
            "cwd": schema::string("Where its kernel starts."),
            "created_at": schema::string("When it was made."),
            "executions": schema::count("Pieces of code that it has run."),
        },
        "required": ["context", "language", "state", "default"],
    });
    let list = json!({
        "type": "array",
        "description": "All contexts (list), or the one that was made or restarted.",
        "items": item,
    });
    Tool {
        name: "code_contexts",
        hidden_names: &[],
        title: "Manage code contexts",
        description: "Contexts keep variables between calls of run_code, each its own. run_code makes \
            a default one for each language by itself; this makes more, lists them, restarts one \
            (variables are lost) or deletes it. Only in sandboxes with a Jupyter kernel of the \
            language.",
        hints: Hints::Changes,
        input: schema::input(
            &[
                ("action", schema::choice("What to do.", &ACTIONS)),
                ("context", schema::string("Which one, to restart or delete it.")),
                (
                    "language",
                    schema::with_default(
                        schema::choice("Of the one to create.", &languages),
                        "python",
                    ),
                ),
                ("cwd", schema::string("Where the new one starts; /workspace where left out.")),
                ("env", schema::strings_by_name("Environment variables of the new one.")),
                ("sandbox_id", schema::sandbox_id()),
            ],
            &["action"],
        ),
        output: schema::output(
            &[
                ("sandbox_id", schema::string("Where.")),
                ("contexts", list),
                ("deleted", schema::string("The id of the one that was deleted.")),
            ],
            &[&["sandbox_id", "contexts"], &["sandbox_id", "deleted"]],
        ),
        makes_default: false,
        run,
    }
}

fn run(context: Context) -> Work {
    Box::pin(code_contexts(context))
}

async fn code_contexts(mut context: Context) -> Result<Output, ToolError> {
    let args = &mut context.args;
    let action = args.required_word("action")?;
    let named = args.word("context")?;
    let language = args.word("language")?;
    let cwd = args.word("cwd")?;
    let env = args.strings_by_name("env", &["envs"])?;
    let sandbox = args.word("sandbox_id")?;
    args.finish()?;
    let is_new = language.is_some() || cwd.is_some() || !env.is_empty();
    let which = || {
        let text = format!("`context` must say which one to {action}");
        named.as_deref().ok_or_else(|| ToolError::invalid(text))
    };
    if is_new && action != "create" {
        return Err(ToolError::invalid("`language`, `cwd` and `env` are for the action create"));
    }
    if named.is_some() && matches!(&*action, "create" | "list") {
        let text = format!("the action {action} takes no `context`");
        return Err(ToolError::invalid(text));
    }
    let engine = context.session.engine();
    let (target, found) = match &*action {
        "create" => {
            let language = language.map_or(Ok(Language::default()), |name| name.parse())?;
            let target = target::needed(&context, sandbox).await?;
            let wanted = CreateContext { language, cwd, env, user: None };
            let made = engine.context_create(&target.id, wanted).await.map(|made| vec![made]);
            (target, made)
        }
        "list" => {
            let target = target::existing(&context, sandbox).await?;
            let found = engine.context_list(&target.id).await;
            (target, found)
        }
        "restart" => {
            let which = which()?;
            let target = target::existing(&context, sandbox).await?;
            let found = engine.context_restart(&target.id, which).await.map(|one| vec![one]);
            (target, found)
        }
        "delete" => {
            let which = which()?;
            let target = target::existing(&context, sandbox).await?;
            let deleted = engine.context_delete(&target.id, which).await;
            deleted.map_err(|error| target.error(error))?;
            return Ok(Output::json(json!({"sandbox_id": target.id, "deleted": which})));
        }
        other => {
            let text = format!("`action` must be one of {}, not {other:.40}", ACTIONS.join(", "));
            return Err(ToolError::invalid(text));
        }
    };
    let found = found.map_err(|error| target.error(error))?;
    let contexts: Vec<Value> = found.iter().map(view).collect();
    Ok(Output::json(json!({"sandbox_id": target.id, "contexts": contexts})))
}

fn view(context: &CodeContext) -> Value {
    json!({
        "context": context.id,
        "language": context.language,
        "kernel": context.kernel,
        "state": context.state.as_str(),
        "default": context.is_default,
        "user": context.user,
        "cwd": context.cwd,
        "created_at": show::time(context.created_at),
        "executions": context.executions,
    })
}
