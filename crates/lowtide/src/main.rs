//! The lowtide command.
fn main() {}
