//! Homomorphisms: reading them, decisions about them, and what these mean.

mod arbitrary;
mod checks;
mod choosing;
mod figures;
mod files;
mod forms;
mod lowering;
mod meaning;
mod notation;
mod picture;
mod programs;
mod random;
mod reading;
mod support;
mod tiles;
mod tuning;
