//! Rules that change the structure of loops, and strategies over them, against the interpreter.

mod adding;
mod handles;
mod passes;
mod random;
mod rules;
mod spellings;
mod strategies;
mod support;
mod taken;
mod traversals;
