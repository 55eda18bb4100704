//! Arguments of all commands on the data directory of a service.

use std::path::PathBuf;

use clap::Args;

/// Where a service's things are.
#[derive(Debug, Default, Args)]
pub struct ServiceArgs {
    /// Directory for the database, secrets, disk images and layers
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,

    /// Settings file (default: config.toml in the data directory)
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// sqlite, or postgres://… for a PostgreSQL server (default: sqlite, in the data directory)
    #[arg(long, value_name = "URL")]
    pub database: Option<String>,
}

/// Arguments of commands that administer a service.
#[derive(Debug, Default, Args)]
pub struct AdminArgs {
    /// Where the service's things are.
    #[command(flatten)]
    pub service: ServiceArgs,

    /// Work through the service at this URL, not on the database (default: HOLM_URL, if it is set)
    #[arg(long, value_name = "URL", conflicts_with_all = ["data_dir", "config", "database"])]
    pub url: Option<String>,

    /// File with an administrator's key for that service (default: the key in HOLM_API_KEY)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["data_dir", "config", "database"])]
    pub key_file: Option<PathBuf>,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
