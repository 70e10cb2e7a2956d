//! Tests of techniques, sessions and recorded tables over real spaces.

mod kit;
mod recorded;
mod sessions;
mod techniques;
