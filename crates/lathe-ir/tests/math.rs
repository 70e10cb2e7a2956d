//! The math functions against references in `f64`, over special and random arguments.

mod math {
    mod accuracy;
    mod derivatives;
    mod helpers;
    mod special;
}
