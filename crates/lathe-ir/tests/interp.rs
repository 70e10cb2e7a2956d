//! The interpreter on hand-made trees: one test per rule of the semantics.

mod interp {
    mod computes;
    mod helpers;
}
