//! The engine over a driver without a kernel and guests without a sandbox: its promises about
//! life, leases, limits and hostile guests.

mod account;
mod adopt;
mod calls;
mod code;
mod create;
mod direct;
mod end;
mod hostile;
mod idempotency;
mod key;
mod lease;
mod meter;
mod network;
mod pause;
mod record;
mod restart;
mod scope;
mod secret;
mod support;
mod template;
mod webhook;
