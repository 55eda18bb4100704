//! The engine over a driver without a kernel and guests without a sandbox: its promises about
//! life, leases, limits and hostile guests.

mod calls;
mod code;
mod create;
mod end;
mod hostile;
mod lease;
mod support;
