//! What makes an engine a service: its data directory, its database, its first account and key.

mod acme;
mod admin;
mod database;
mod first_key;
mod place;
mod traces;
mod webhooks;

pub use acme::{Acme, AcmeSettings};
pub use admin::{
    AccountChange, AccountView, Admin, KeyView, NewAccount, NewKey, SecretView, administer,
};
pub use database::Database;
pub use first_key::FirstKey;
pub use place::Place;
pub use traces::{TraceSettings, Traces};
pub use webhooks::{NoPair, WebhookSettings, network, pair};
