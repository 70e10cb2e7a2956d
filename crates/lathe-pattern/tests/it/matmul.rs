//! How many steps the product of `tests/files/product.lathe` takes.

use crate::files::transformed;
use lathe_pattern::program;

#[test]
fn item_46_rewriting_takes_few_steps() {
    let text = include_str!("../files/product.lathe");
    let p = program(&crate::files::parts(text)[0]).unwrap();
    let made = transformed(text, &p, "parallelized(32, 4) ;; lowerToC").unwrap();
    let steps = made.unwrap_or_else(|d| panic!("{d}")).steps;
    // The published version takes about 63,000.
    assert!(steps > 0 && steps < 20_000, "{steps}");
}
