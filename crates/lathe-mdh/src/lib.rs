//! Multi-dimensional homomorphisms (A. Rasch, *Code generation & optimization for high-performance computing on
//! multi- and many-core systems*, thesis, Münster 2024): any compute is lowered by (de/re)-composition under
//! explicit decisions.
//!
//! * [`model`]: abstract system models, as data.
//! * [`homomorphism`], [`view`], [`operators`]: what of a compute a decomposition needs to know.
//! * [`decisions`], [`text`]: the 15 decisions, each free or fixed; their text and JSON forms.
//! * [`check`](mod@check), [`footprint`]: which decisions are valid, and why others are not.
//! * [`semantics`], [`value`]: what they mean, evaluated literally.
//! * [`lower`]: the strategies that they stand for.
//! * [`choose`](mod@choose): good decisions, without measuring.
//! * [`auto`](mod@auto): strategies for whole functions; [`sizes`]: for sizes that nobody gave.
//! * [`space`], [`uncut`], [`around`]: what decisions leave free, as parameters of a search: as the thesis cuts it, all
//!   of it, and what is near.
//! * [`notation`]: the thesis's own notation for computes.
//! * [`picture`](mod@picture): decisions as a picture.

pub mod around;
pub mod auto;
pub mod check;
pub mod choose;
pub mod codes;
pub mod decisions;
pub mod footprint;
pub mod homomorphism;
pub mod lower;
pub mod notation;
mod notation_rules;
mod notation_scalar;
pub mod operators;
pub mod picture;
mod picture_svg;
pub mod semantics;
pub mod sizes;
pub mod space;
pub mod text;
pub mod uncut;
pub mod value;
pub mod view;

pub use check::{check, require};
pub use choose::choose;
pub use codes::CODES;
pub use decisions::{AsmLevel, Decisions, Level, Phase};
pub use homomorphism::{Dimension, Homomorphism, Shaped};
pub use lathe_target::{Model, model};
pub use view::{IndexFunction, Operand, Subscript};
