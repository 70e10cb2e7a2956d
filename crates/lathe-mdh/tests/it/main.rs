//! Homomorphisms: reading them, decisions about them, and what these mean.

mod checks;
mod figures;
mod forms;
mod meaning;
mod random;
mod reading;
mod support;
