//! The interpreter on hand-made trees: one test per rule of the semantics.

mod interp {
    mod calls;
    mod computes;
    mod failures;
    mod helpers;
    mod orders;
    mod races;
    mod statements;
    mod storage;
    mod strands;
    mod views;
}
