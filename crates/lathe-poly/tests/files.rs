//! Trees in files, and what the simplifier makes of them (`tests/files`; see `lathe_filetest`).

use lathe_diagnostics::Diagnostic;
use lathe_filetest::Front;
use lathe_ir::{Function, Module};
use lathe_poly::simplify::simplify_function;

struct Simplified;

impl Front for Simplified {
    /// `simplify` is the only step. What is simple stays.
    fn apply(&self, module: &Module, func: &Function, steps: &str) -> Result<Function, Diagnostic> {
        assert_eq!(steps, "simplify");
        let new = simplify_function(func);
        let errors = lathe_ir::verify::verify_function(module, &new);
        assert!(errors.is_empty(), "{}", errors[0]);
        assert_eq!(simplify_function(&new), new, "once is enough");
        Ok(new)
    }
}

#[test]
fn files_do_as_they_say() {
    lathe_filetest::check(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/files"), &Simplified);
}
