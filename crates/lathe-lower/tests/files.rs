//! Passes in files (`tests/files`; see `lathe_filetest`): what each makes of a tree, and that it computes the same.

use lathe_diagnostics::{Code, Diagnostic};
use lathe_filetest::Front;
use lathe_ir::lower::Unsupported;
use lathe_ir::text::Ids;
use lathe_ir::{Function, Module};
use lathe_lower::{addresses, calls, checks, collapse, halves, levels, lower, phases, pitches, reductions};

struct Passes;

/// As engines say it.
fn refused(u: Unsupported) -> Diagnostic {
    let d = Diagnostic::error(Code("E0701"), format!("no engine supports {}", u.construct));
    d.at_places(&u.places, "here")
}

impl Front for Passes {
    fn apply(&self, module: &Module, func: &Function, steps: &str) -> Result<Function, Diagnostic> {
        let new = match steps {
            "all" => lower(module, func).map_err(refused)?,
            "addresses" => addresses::plain(func).expect("layouts that CPUs have"),
            "calls" => calls::inline(module, func),
            "checks" => checks::in_blocks(func),
            "collapse" => collapse::nested(func),
            "halves" => halves::in_floats(func),
            "levels" => levels::on_cpus(func).map_err(refused)?,
            "phases" => phases::to_phased(func, &|_| true).map_err(refused)?,
            "pitches" => pitches::apart(func),
            "reductions" => reductions::as_stores(module, func),
            other => panic!("there is no pass `{other}`"),
        };
        let errors = lathe_ir::verify::verify_function(module, &new);
        assert!(errors.is_empty(), "{}", errors[0]);
        Ok(new)
    }

    fn ids(&self) -> Ids {
        Ids::Hidden
    }
}

#[test]
fn files_do_as_they_say() {
    lathe_filetest::check(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/files"), &Passes);
}
