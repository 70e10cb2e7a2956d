//! Which functions call themselves, directly or through one another.

use lathe_ir::visit::walk;
use lathe_ir::{Function, Module, Name, StmtKind};
use std::collections::{BTreeMap, BTreeSet};

/// The names of the recursive functions of a module.
pub fn recursive(module: &Module) -> BTreeSet<Name> {
    among(&module.functions.iter().map(|(n, f)| (n.clone(), f.clone())).collect())
}

/// Those of some functions that call themselves, directly or through others of them.
pub fn among(all: &BTreeMap<Name, Function>) -> BTreeSet<Name> {
    let called: BTreeMap<&Name, BTreeSet<Name>> = all.iter().map(|(n, f)| (n, calls(f))).collect();
    let is_recursive = |name: &&Name| {
        let mut seen: BTreeSet<&Name> = BTreeSet::new();
        let mut todo: Vec<&Name> = vec![*name];
        while let Some(n) = todo.pop() {
            todo.extend(called.get(n).into_iter().flatten().filter(|c| seen.insert(*c)));
        }
        seen.contains(*name)
    };
    all.keys().filter(is_recursive).cloned().collect()
}

/// What a function calls.
pub fn calls(f: &Function) -> BTreeSet<Name> {
    let mut out = BTreeSet::new();
    walk(&f.body, &mut |s, _| {
        if let StmtKind::Call { function, .. } = s.kind() {
            out.insert(function.clone());
        }
        true
    });
    out
}
