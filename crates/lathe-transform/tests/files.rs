//! Every step of a strategy in files: what it makes of a tree, and what it refuses (`tests/steps`; see `lathe_filetest`).

use lathe_diagnostics::Diagnostic;
use lathe_filetest::Front;
use lathe_ir::{Function, Module};
use lathe_strategy::{Context, Definitions, parse_strategy};

/// Trees, and strategies without definitions of their own.
struct Steps;

impl Front for Steps {
    fn apply(&self, module: &Module, func: &Function, steps: &str) -> Result<Function, Diagnostic> {
        let definitions = Definitions::default();
        let facts = |_: &str| None;
        let context = Context::new(&definitions, None, &facts);
        let done = lathe_transform::run(module, func, &context, &parse_strategy(steps)?);
        done.map(|d| d.0).map_err(|r| *r.diagnostic)
    }
}

#[test]
fn every_step_works_and_is_refused() {
    let checked = lathe_filetest::check(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/steps"), &Steps);
    for rule in lathe_transform::rules() {
        let name = rule.name();
        let own = checked.iter().find(|c| c.path.file_stem().is_some_and(|s| s == name));
        let own = own.unwrap_or_else(|| panic!("`{name}` has no file steps/{name}.tree"));
        assert!(own.accepted > 0, "steps/{name}.tree accepts nothing");
        assert!(own.refused > 0, "steps/{name}.tree refuses nothing");
    }
}
