//! Starting commands: one mechanism behind `Run` and `process.Process`.

pub mod capture;
pub mod confine;
pub mod plan;
pub mod reaper;
pub mod run;
pub mod spawn;
