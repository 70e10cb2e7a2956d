//! Kernels that call derivatives: once these are made, their statements take the place of the calls, as those of other
//! kernels do.

use lathe_ir::stmt::PartMap;
use lathe_ir::visit::{map_stmts, walk};
use lathe_ir::{Expr, Function, Label, Module, Name, Stmt, StmtKind, VarId, build};
use std::collections::{BTreeSet, HashSet};

/// Those of some functions that a function calls.
pub fn called(f: &Function, some: &BTreeSet<String>) -> BTreeSet<String> {
    let mut out = BTreeSet::new();
    walk(&f.body, &mut |s, _| {
        if let StmtKind::Call { function, .. } = s.kind()
            && some.contains(&**function)
        {
            out.insert(function.to_string());
        }
        true
    });
    out
}

/// The function with the statements of `some` in place of their calls. Labels are those of the called function, behind its
/// name; instances say the iteration that calls.
pub fn written_out(module: &Module, f: &Function, some: &BTreeSet<String>) -> Function {
    let (mut taken, mut loops) = (HashSet::new(), HashSet::new());
    walk(&f.body, &mut |s, _| {
        taken.extend(s.label().map(|l| l.as_str().to_string()));
        loops.extend(s.as_loop().map(|l| l.binder.id));
        true
    });
    // Each call is one of a function of its own, with labels that nothing else has.
    let mut calls = Module { structs: module.structs.clone(), ops: module.ops.clone(), ..Module::default() };
    let mut made = HashSet::new();
    let body = map_stmts(&f.body, &mut |s| {
        let StmtKind::Call { function, args } = s.kind() else { return s };
        let Some(of) = module.functions.get(function).filter(|_| some.contains(&**function)) else {
            return s;
        };
        let name: Name = format!("{function}.{}", calls.functions.len()).as_str().into();
        let mut labels = Labels { of: function, taken: &mut taken, given: Vec::new() };
        let body = labels.child(&of.body);
        made.extend(labels.given.into_iter().map(|(_, new)| new));
        calls.functions.insert(name.clone(), Function { name: name.clone(), body, ..of.clone() });
        s.with_kind(StmtKind::Call { function: name, args: args.clone() })
    });
    let whole = lathe_grad::custom::inlined(&calls, Function { body, ..f.clone() });
    let mut instances = Instances { around: Vec::new(), loops, made };
    let body = instances.child(&whole.body);
    Function { body, ..whole }
}

struct Labels<'a> {
    of: &'a str,
    taken: &'a mut HashSet<String>,
    given: Vec<(Label, Label)>,
}

impl PartMap for Labels<'_> {
    fn labelled(&mut self, label: &Label, instance: &[Expr]) -> (Label, Vec<Expr>) {
        // Copies of one statement have one label.
        let known = self.given.iter().find(|(old, _)| old == label).map(|(_, new)| new.clone());
        let new = known.unwrap_or_else(|| {
            let base = format!("{}_{label}", self.of);
            let numbered = (2..).map(|n| format!("{base}.{n}"));
            let free = |l: &String| !self.taken.contains(l);
            let text = std::iter::once(base.clone()).chain(numbered).find(free).unwrap_or(base);
            self.taken.insert(text.clone());
            let new = Label::new(text);
            self.given.push((label.clone(), new.clone()));
            new
        });
        (new, instance.to_vec())
    }

    fn child(&mut self, s: &Stmt) -> Stmt {
        s.map_parts(self)
    }
}

/// Instances of what was written out begin with the loops around the call.
struct Instances {
    around: Vec<Expr>,
    loops: HashSet<VarId>,
    made: HashSet<Label>,
}

impl PartMap for Instances {
    fn labelled(&mut self, label: &Label, instance: &[Expr]) -> (Label, Vec<Expr>) {
        let outer = if self.made.contains(label) { &self.around[..] } else { &[] };
        (label.clone(), outer.iter().chain(instance).cloned().collect())
    }

    fn child(&mut self, s: &Stmt) -> Stmt {
        let own = s.as_loop().filter(|l| self.loops.contains(&l.binder.id)).map(|l| build::var(&l.binder));
        let depth = self.around.len();
        self.around.extend(own);
        let out = s.map_parts(self);
        self.around.truncate(depth);
        out
    }
}
