//! Secrets of the key's account.

use bytes::Bytes;
use hyper::Method;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Failure, Rest};
use crate::client::{Repeat, Request};

/// A secret, without its value.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Secret {
    /// Its name.
    pub name: String,
    /// Where it may be sent.
    pub hosts: Vec<String>,
    /// In which headers; none where the usual ones are meant.
    pub headers: Vec<String>,
    /// Also over http.
    pub allow_plaintext: bool,
    /// When one of that name was put first (RFC 3339).
    pub created_at: String,
    /// When it was put last.
    pub updated_at: String,
}

/// A secret to put. Not printed by accident.
#[derive(Clone, Serialize)]
pub struct NewSecret {
    /// Its value.
    pub value: String,
    /// Where it may be sent.
    pub hosts: Vec<String>,
    /// In which headers; none for the usual ones.
    pub headers: Vec<String>,
    /// Also over http.
    pub allow_plaintext: bool,
}

impl std::fmt::Debug for NewSecret {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_tuple("NewSecret").field(&self.hosts).finish()
    }
}

#[derive(Deserialize)]
struct List {
    secrets: Vec<Secret>,
}

impl Rest {
    /// Puts one, in the place of the one of that name; twice is as good as once.
    ///
    /// # Errors
    /// When it may not be done.
    pub async fn secret_put(&self, name: &str, secret: &NewSecret) -> Result<Secret, Failure> {
        let path = format!("/v1/secrets/{}", plain(name)?);
        let mut request = Request { repeat: Repeat::Always, ..Request::new(Method::PUT, path) };
        request = request.with(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        request.body = Bytes::from(json!(secret).to_string());
        self.ask(request).await
    }

    /// All of them by name.
    ///
    /// # Errors
    /// When they may not be seen.
    pub async fn secret_list(&self) -> Result<Vec<Secret>, Failure> {
        let list: List = self.get("/v1/secrets".to_owned()).await?;
        Ok(list.secrets)
    }

    /// Removes one.
    ///
    /// # Errors
    /// When there is none, or it may not be done.
    pub async fn secret_delete(&self, name: &str) -> Result<(), Failure> {
        let path = format!("/v1/secrets/{}", plain(name)?);
        self.ask::<Value>(Request::new(Method::DELETE, path)).await.map(drop)
    }
}

/// A name that means the same in a path.
fn plain(name: &str) -> Result<&str, Failure> {
    let good = |byte: u8| byte == b'_' || byte.is_ascii_alphanumeric();
    if !name.is_empty() && name.bytes().all(good) {
        return Ok(name);
    }
    let message = "a secret's name has letters a-z and A-Z, digits and `_`".to_owned();
    Err(Failure::Refused { status: 400, kind: "invalid_request".to_owned(), message })
}
