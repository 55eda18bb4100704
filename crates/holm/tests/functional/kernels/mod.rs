//! Code in contexts, on real kernels and on hostile ones.

mod bounds;
mod ends;
mod hostile;
mod place;
mod plots;
mod service;
mod states;
