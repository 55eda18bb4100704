//! The driver's failures as the engine's.

use holm_runtime::{DriverError, DriverErrorKind};

use crate::{Error, ErrorKind};

pub(crate) fn from_driver(error: DriverError) -> Error {
    let kind = match error.kind {
        DriverErrorKind::IsolationUnavailable => ErrorKind::IsolationUnavailable,
        DriverErrorKind::HostExhausted => ErrorKind::Capacity,
        DriverErrorKind::UnknownTemplate => ErrorKind::TemplateUnknown,
        DriverErrorKind::BadMount | DriverErrorKind::Unkeepable => ErrorKind::InvalidArgument,
        DriverErrorKind::LauncherGone | DriverErrorKind::InUse => ErrorKind::Unavailable,
        DriverErrorKind::Unsupported => ErrorKind::Unsupported,
        DriverErrorKind::UnsafeDirectory | DriverErrorKind::Internal => ErrorKind::Internal,
    };
    let gone = error.kind == DriverErrorKind::LauncherGone;
    let error = Error::new(kind, error.message).with_internal(error.internal);
    if gone {
        // What helps against other unavailability does not help here.
        return error.suggest(
            "Start holm again (an MCP client does so when it connects anew), then create a new \
             sandbox.",
        );
    }
    error
}
