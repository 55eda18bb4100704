//! Random bytes, and what a text that is no id means to a caller.

use holm_store::{IdError, SandboxId};

use crate::Error;

/// Random bytes from the kernel, good enough for secrets.
///
/// # Errors
/// When the system gives none.
pub fn random_bytes<const N: usize>() -> Result<[u8; N], Error> {
    Ok(holm_store::random_bytes()?)
}

impl From<IdError> for Error {
    fn from(error: IdError) -> Self {
        if error.prefix == SandboxId::PREFIX {
            return Self::invalid(format!("sandbox_id {error}"))
                .suggest("Use the sandbox_id that create_sandbox or list_sandboxes returned.");
        }
        Self::invalid(format!("the id {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_id_names_the_argument_and_an_example() {
        let error = Error::from("sbx_1".parse::<SandboxId>().unwrap_err());
        assert_eq!(
            error.public,
            "sandbox_id must be `sbx_` and 18 lowercase hex digits, for example \
             sbx_0123456789abcdef01"
        );
    }
}
