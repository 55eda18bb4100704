//! What makes an engine a service: its data directory, its database, its first account and key.

mod database;
mod first_key;
mod offline;
mod place;
mod webhooks;

pub use database::Database;
pub use first_key::FirstKey;
pub use offline::administer;
pub use place::Place;
pub use webhooks::{NoPair, WebhookSettings, network, pair};
