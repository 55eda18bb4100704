//! Secrets of an account, which its sandboxes can use and not read.

use std::borrow::Cow;

use holm_engine::{ErrorKind, KeyScope, NewSecret, SecretText, SecretView, is_secret_name};
use hyper::Method;
use schemars::{JsonSchema, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::endpoint::{About, Call, Endpoint};
use super::failure::Failure;
use super::input::{Fixed, Json, NoQuery, Nothing, Object, Param};
use super::output::Answer;
use super::text::time_schema;
use crate::show::time;

const PATH: &str = "/v1/secrets";
const ONE: &str = "/v1/secrets/{secret_name}";
const NAME: &str = "^[A-Za-z_][A-Za-z0-9_]{0,63}$";
/// What a header can hold.
const VALUE: &str = "^[^\\u0000-\\u0008\\u000a-\\u001f\\u007f]+$";

/// The name of a secret in a path.
#[derive(Debug)]
pub struct SecretName(String);

impl Param for SecretName {
    const NAME: Option<&'static str> = Some("secret_name");

    fn schema() -> Value {
        json_schema!({"type": "string", "pattern": NAME}).to_value()
    }

    fn read(text: &str) -> Result<Self, Failure> {
        Ok(Self(text.to_owned()))
    }
}

/// A secret to put.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SecretPut {
    /// Its value. No request ever answers it.
    #[schemars(length(min = 1, max = 2048), extend("pattern" = VALUE, "writeOnly" = true))]
    pub value: String,
    /// Where it may be sent: `api.example.com`, `*.example.com`, each also with a port (`:8443`).
    #[schemars(length(min = 1, max = 16))]
    pub hosts: Vec<String>,
    /// In which headers (default: `authorization` and `x-api-key`).
    #[schemars(length(max = 8))]
    pub headers: Option<Vec<String>>,
    /// Also over `http`, where everybody on the way can read it (default: false).
    pub allow_plaintext: Option<bool>,
}

impl std::fmt::Debug for SecretPut {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("SecretPut").field("hosts", &self.hosts).finish_non_exhaustive()
    }
}

impl Object for SecretPut {
    const SECRET: bool = true;
}

/// A secret, without its value.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Secret")]
pub struct SecretShown {
    /// Its name, also the variable that stands for it inside.
    pub name: String,
    /// Where it may be sent.
    pub hosts: Vec<String>,
    /// In which headers; none where the usual ones are meant.
    pub headers: Vec<String>,
    /// Also over `http`.
    pub allow_plaintext: bool,
    /// When one of that name was put first.
    #[schemars(schema_with = "time_schema")]
    pub created_at: String,
    /// When it was put last.
    #[schemars(schema_with = "time_schema")]
    pub updated_at: String,
}

/// The secrets of an account, by name.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SecretList {
    /// The secrets.
    pub secrets: Vec<SecretShown>,
}

/// A secret that is gone.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SecretDeleted {
    /// Its name.
    pub name: String,
}

impl From<SecretView> for SecretShown {
    fn from(view: SecretView) -> Self {
        Self {
            name: view.name,
            hosts: view.hosts,
            headers: view.headers,
            allow_plaintext: view.allow_plaintext,
            created_at: time(view.created_at),
            updated_at: time(view.updated_at),
        }
    }
}

/// A path as it may be in a log or an answer: without what is in the place of a secret's name and is
/// none, since that may be a value.
pub(super) fn shown(path: &str) -> Cow<'_, str> {
    const NEAR: &str = "/v1/secret";
    let is_near = path.get(..NEAR.len()).is_some_and(|start| start.eq_ignore_ascii_case(NEAR));
    let name = path.strip_prefix(PATH).map(|rest| rest.strip_prefix('/').unwrap_or(rest));
    match name {
        Some(name) if name.is_empty() || is_secret_name(name) => path.into(),
        _ if is_near => format!("{PATH}/…").into(),
        _ => path.into(),
    }
}

/// The endpoints of secrets.
#[must_use]
pub fn endpoints() -> Vec<Endpoint> {
    let put_about = About {
        id: "secret_put",
        tag: "secrets",
        summary: "Put a secret",
        description: "In the place of the one of that name; 100 at most. A sandbox that is created \
            with its name in `secrets` has a variable of that name, whose text the egress gate \
            replaces by the value in the named headers of requests to these hosts, and nowhere \
            else. Sandboxes that run have a new value within seconds.",
        scope: Some(KeyScope::Sandboxes),
        errors: &[],
        headers: &[],
    };
    let list_about = About {
        id: "secret_list",
        summary: "List secrets",
        description: "Of the key's account, by name, without their values.",
        scope: Some(KeyScope::Read),
        ..put_about
    };
    let delete_about = About {
        id: "secret_delete",
        summary: "Delete a secret",
        description: "Sandboxes that run can no longer use it, within seconds.",
        errors: &[ErrorKind::NotFound],
        ..put_about
    };
    vec![
        Endpoint::new(Method::GET, PATH, list_about, list),
        Endpoint::new(Method::PUT, ONE, put_about, put),
        Endpoint::new(Method::DELETE, ONE, delete_about, delete),
    ]
}

async fn put(
    call: Call<SecretName, NoQuery, Json<SecretPut>>,
) -> Result<Answer<SecretShown>, Failure> {
    let SecretPut { value, hosts, headers, allow_plaintext } = call.body.0;
    let new = NewSecret {
        name: call.id.0,
        value: SecretText::new(value),
        hosts,
        headers: headers.unwrap_or_default(),
        allow_plaintext: allow_plaintext.unwrap_or(false),
    };
    Ok(Answer(call.engine.secret_put(new).await?.0.into()))
}

async fn list(call: Call<Fixed, NoQuery, Nothing>) -> Result<Answer<SecretList>, Failure> {
    let secrets = call.engine.secret_list().await?;
    Ok(Answer(SecretList { secrets: secrets.into_iter().map(SecretShown::from).collect() }))
}

async fn delete(
    call: Call<SecretName, NoQuery, Nothing>,
) -> Result<Answer<SecretDeleted>, Failure> {
    call.engine.secret_delete(&call.id.0).await?;
    Ok(Answer(SecretDeleted { name: call.id.0 }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_name_is_not_shown() {
        for plain in
            ["/v1/secrets", "/v1/secrets/", "/v1/secrets/TOKEN", "/v1/usage", "/v1", "/v1/é"]
        {
            assert_eq!(shown(plain), plain);
        }
        for hidden in [
            "/v1/secrets/a-b",
            "/v1/secrets/a/b",
            "/v1/secret/a",
            "/v1/Secrets/A",
            "/v1/secrets//a",
        ] {
            assert_eq!(shown(hidden), "/v1/secrets/…", "{hidden}");
        }
    }
}
