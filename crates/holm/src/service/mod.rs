//! What makes an engine a service: its data directory, its database, its first account and key.

mod database;
mod first_key;
mod place;

pub use database::Database;
pub use first_key::FirstKey;
pub use place::Place;
