//! The faces of the engine.
