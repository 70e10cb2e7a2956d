//! A function that an edit made of one that is well formed: what both share needs no second look.

use super::{Role, Verifier, verify_function};
use crate::difference::Difference;
use crate::func::Function;
use crate::module::Module;
use crate::stmt::{Enters, Executor, Part, Stmt};
use crate::visit;
use lathe_diagnostics::Diagnostic;
use std::collections::HashSet;

/// Checks a function that was made of a well-formed one; says what [`verify_function`] says of it, and looks only at what
/// the old one does not have.
pub fn verify_edit(module: &Module, old: &Function, new: &Function) -> Vec<Diagnostic> {
    let found = || verify_function(module, new);
    if edit_is_well_formed(module, old, new) {
        debug_assert!(
            found().is_empty() || !verify_function(module, old).is_empty(),
            "the partial verification of an edit missed: {:?}",
            found()
        );
        return Vec::new();
    }
    found()
}

/// Whether everything that only the new function has is well formed where it is. `false` where that does not show.
fn edit_is_well_formed(module: &Module, old: &Function, new: &Function) -> bool {
    let heads = old.stage == new.stage
        && old.next_id <= new.next_id
        && (&old.name, &old.sizes, &old.params) == (&new.name, &new.sizes, &new.params)
        && (&old.result, &old.summary) == (&new.result, &new.summary);
    if !heads {
        return false;
    }
    let place = Difference::between(&old.body, &new.body);
    // Numbers are bound once: by what was there, in its place, or for the first time.
    let gone = numbers(place.gone());
    if !numbers(place.made()).iter().all(|n| *n >= old.next_id || gone.contains(n)) {
        return false;
    }
    let mut v = Verifier::new(module, new.stage, Some(new.next_id));
    v.signature(&new.sizes, &new.params);
    v.down(&new.body, &place.path, place.made());
    v.findings.is_empty()
}

/// The numbers that are bound in some statements.
fn numbers(all: &[Stmt]) -> HashSet<u32> {
    let mut out = HashSet::new();
    for s in all {
        visit::walk(s, &mut |s, _| {
            s.kind().for_each_part(&mut |p| match p {
                Part::Bind(b, _) => {
                    out.insert(b.id.0);
                }
                Part::Buffer(b) => {
                    out.insert(b.id.0);
                }
                Part::Instance(..) | Part::Expr(_) | Part::Touch(..) | Part::Variable(_) => {}
            });
            true
        });
    }
    out
}

impl Verifier<'_> {
    /// Goes down to a place, through statements that are as they were, and checks what is there.
    fn down(&mut self, s: &Stmt, path: &[usize], made: &[Stmt]) {
        let Some((n, rest)) = path.split_first() else {
            return made.iter().for_each(|s| self.body(s));
        };
        match s.enters(*n) {
            Enters::Nothing | Enters::Condition(..) | Enters::While(_) => {}
            // Whether lanes combine in order depends on what is below.
            Enters::Loop(l) if matches!(l.exec, Executor::InScan(_)) => return self.body(s),
            Enters::Loop(l) if !l.exec.is_ordered() => {
                return self.in_strand(true, |v| {
                    v.bind_var(&l.binder, Role::Loop { parallel: Some(v.strand) });
                    s.child(*n).iter().for_each(|c| v.down(c, rest, made));
                });
            }
            Enters::Loop(l) => self.bind_var(&l.binder, Role::Loop { parallel: None }),
            Enters::Let(b, _) | Enters::Value(b) => self.bind_var(b, Role::Value),
            Enters::Alloc(b) => self.bind_buf(b.id, &b.name, b.extents.len(), &b.elem, false),
        }
        s.child(*n).iter().for_each(|c| self.down(c, rest, made));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::parse_module;
    use crate::verify::verify;
    use lathe_diagnostics::FileId;

    const TEXT: &str = "func f(N)(x: in f32[N], y: out f32[N]) stage scheduled {
        for i%10 in 0..N { 'y'[i]: y[i] = x[i] }
        for j%11 in 0..N cpu { for k%12 in 0..4 { 'z'[j, k]: y[j] = x[j] } }
    }";

    fn module() -> Module {
        let m = parse_module(FileId(0), TEXT).unwrap_or_default();
        assert_eq!(verify(&m), []);
        m
    }

    /// The function with a statement replaced, and what is said of it.
    fn with(path: &[usize], edit: impl Fn(&Stmt) -> Stmt) -> usize {
        let m = module();
        let old = &m.functions["f"];
        let here = visit::at(&old.body, path).expect("a place");
        let body = visit::replace_at(&old.body, path, edit(here)).expect("a place");
        let new = Function { body, ..old.clone() };
        let found = verify_edit(&m, old, &new);
        assert_eq!(found, verify_function(&m, &new));
        found.len()
    }

    #[test]
    fn what_is_wrong_in_an_edit_is_found() {
        let m = module();
        let body = &m.functions["f"].body;
        let (first, inner) = (visit::at(body, &[0]).expect("i"), visit::at(body, &[1, 0]).expect("k"));
        assert_eq!(with(&[0], Stmt::clone), 0);
        // A variable out of scope, a number that is bound twice, and both.
        assert_ne!(with(&[0, 0], |_| inner.clone()), 0);
        assert_ne!(with(&[1, 0], |_| first.clone()), 0);
        assert_ne!(with(&[1, 0], |s| Stmt::seq([s.clone(), s.clone()])), 0);
        assert_eq!(with(&[1, 0], |s| Stmt::seq([s.clone(), visit::refresh(s, &mut 13)])), 1);
        // What takes the place of something may bind its numbers again.
        assert_eq!(with(&[1, 0], |s| s.with_child(0, s.child(0).expect("a body").clone())), 0);
    }
}
