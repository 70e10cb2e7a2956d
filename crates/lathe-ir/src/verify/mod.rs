//! The structural verifier: what every tree must be, whoever made it (design, section 2).
//!
//! Each invariant has a code of its own ([`crate::codes`]) and is checked in one walk, linear in the size
//! of the tree. Whether accesses stay in bounds is not a matter of structure: every access carries a
//! [`crate::Status`], and [`unproved_accesses`] lists those that nobody vouches for.

mod edit;
mod expr;
mod item;
mod module;
mod status;
mod stmt;

pub use edit::verify_edit;
pub use status::unproved_accesses;

use crate::codes;
use crate::expr::Expr;
use crate::func::{Function, Stage};
use crate::ids::{Binder, BufId, VarId};
use crate::module::Module;
use crate::text::{Scope, print_expr};
use crate::types::{Name, Scalar, Type};
use lathe_diagnostics::{Code, Diagnostic, Places};
use rustc_hash::FxHashSet;
use std::collections::HashMap;

/// After so many errors in one function the rest is noise.
const MAX_ERRORS: usize = 50;

/// Checks a whole module; empty if it is well formed.
pub fn verify(module: &Module) -> Vec<Diagnostic> {
    let mut out = item::structs(module);
    for (key, op) in &module.ops {
        out.extend(item::op(module, key, op));
    }
    for (key, g) in &module.globals {
        out.extend(module::global(module, key, g));
    }
    for (key, x) in &module.externals {
        out.extend(module::external(module, key, x));
    }
    out.extend(module::undeclared(module));
    for (key, f) in &module.functions {
        if key != &f.name {
            out.push(item::misnamed("function", key, &f.name));
        }
        out.extend(verify_function(module, f));
    }
    out.extend(module::derivatives(module));
    out
}

/// Checks one function of a module; empty if it is well formed.
pub fn verify_function(module: &Module, f: &Function) -> Vec<Diagnostic> {
    let mut v = Verifier::new(module, f.stage, Some(f.next_id));
    v.place = format!("function `{}`", f.name);
    v.function(f);
    v.finish(|| Scope::of_function(f))
}

/// What binds a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Value,
    /// A loop; if its iterations are unordered, the strand that they are (one number for all of them).
    Loop {
        parallel: Option<u32>,
    },
    /// Of the strand that opened it.
    Token {
        strand: u32,
    },
}

pub(crate) struct Var {
    pub ty: Scalar,
    pub role: Role,
}

pub(crate) struct Buf {
    pub name: Name,
    pub rank: usize,
    pub elem: Type,
    pub readonly: bool,
    /// It is in an alias class.
    pub aliased: bool,
}

/// A message that waits for the names of the function, which only a wrong tree needs.
struct Finding {
    code: Code,
    what: Vec<Part>,
    places: Places,
    place: String,
    help: Option<&'static str>,
}

/// A piece of a message.
pub(crate) enum Part {
    Text(String),
    Expr(Expr),
}

impl From<&str> for Part {
    fn from(s: &str) -> Part {
        Part::Text(s.to_string())
    }
}

impl From<String> for Part {
    fn from(s: String) -> Part {
        Part::Text(s)
    }
}

impl From<&Expr> for Part {
    fn from(e: &Expr) -> Part {
        Part::Expr(e.clone())
    }
}

pub(crate) struct Verifier<'m> {
    pub module: &'m Module,
    pub stage: Stage,
    /// `None` where numbers need not be below a counter (operators have none).
    next_id: Option<u32>,
    pub vars: HashMap<VarId, Var>,
    pub bufs: HashMap<BufId, Buf>,
    /// Everything bound so far, in scope or not.
    ids: HashMap<u32, Name>,
    findings: Vec<Finding>,
    pub places: Places,
    /// Where we are, in words.
    pub place: String,
    /// Expressions of the current statement that were looked at.
    pub seen: FxHashSet<usize>,
    /// What runs on its own here: the function, the iterations of a parallel loop, an asynchronous body.
    strand: u32,
    /// How many there were.
    strands: u32,
    /// Those of the parallel loops around, whose barriers can be reached.
    iterations: Vec<u32>,
}

impl<'m> Verifier<'m> {
    pub(crate) fn new(module: &'m Module, stage: Stage, next_id: Option<u32>) -> Verifier<'m> {
        Verifier {
            module,
            stage,
            next_id,
            vars: HashMap::new(),
            bufs: HashMap::new(),
            ids: HashMap::new(),
            findings: Vec::new(),
            places: Places::none(),
            place: String::new(),
            seen: FxHashSet::default(),
            strand: 0,
            strands: 0,
            iterations: Vec::new(),
        }
    }

    pub(crate) fn finish(self, scope: impl FnOnce() -> Scope) -> Vec<Diagnostic> {
        if self.findings.is_empty() {
            return Vec::new();
        }
        let scope = scope();
        let show = |f: Finding| {
            let text: String = f
                .what
                .iter()
                .map(|p| match p {
                    Part::Text(t) => t.clone(),
                    Part::Expr(e) => format!("`{}`", print_expr(e, &scope)),
                })
                .collect();
            let mut d = Diagnostic::error(f.code, text).at_places(&f.places, "here");
            if f.places.first().is_none() {
                d = d.note(format!("in {}", f.place));
            }
            match f.help {
                Some(h) => d.help(h),
                None => d,
            }
        };
        self.findings.into_iter().map(show).collect()
    }

    pub(crate) fn wrong(&mut self, code: Code, what: impl IntoIterator<Item = Part>) {
        self.wrong_help(code, what, None);
    }

    pub(crate) fn wrong_help(
        &mut self,
        code: Code,
        what: impl IntoIterator<Item = Part>,
        help: Option<&'static str>,
    ) {
        if self.findings.len() < MAX_ERRORS {
            let what = what.into_iter().collect();
            let (places, place) = (self.places.clone(), self.place.clone());
            self.findings.push(Finding { code, what, places, place, help });
        }
    }

    /// A number is bound: once, and below the counter.
    fn number(&mut self, id: u32, name: &Name) {
        if let Some(other) = self.ids.insert(id, name.clone()) {
            let text = format!("the number {id} is bound twice: by `{other}` and by `{name}`");
            let help = "numbers are unique in a function; in tree text: `name%NUMBER`, `buffer@NUMBER`";
            self.wrong_help(codes::ID_TWICE, [text.into()], Some(help));
        }
        if self.next_id.is_some_and(|n| id >= n) {
            let text = format!("`{name}` has the number {id}, which the counter would assign again");
            self.wrong(codes::ID_NOT_COUNTED, [text.into()]);
        }
    }

    pub(crate) fn bind_var(&mut self, b: &Binder, role: Role) {
        self.number(b.id.0, &b.name);
        self.vars.insert(b.id, Var { ty: b.ty, role });
    }

    pub(crate) fn bind_buf(&mut self, id: BufId, name: &Name, rank: usize, elem: &Type, readonly: bool) {
        self.number(id.0, name);
        self.bufs.insert(id, Buf { name: name.clone(), rank, elem: elem.clone(), readonly, aliased: false });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::parse_module;
    use crate::types::StructType;
    use lathe_diagnostics::FileId;
    use std::sync::Arc;

    /// No text has these errors: a program that builds trees itself may.
    #[test]
    fn items_stand_under_their_names_and_structs_are_those_of_the_module() {
        let text = "struct P { v: f32 } func f()(x: in P[]) { }";
        let mut m = parse_module(FileId(0), text).unwrap_or_default();
        assert_eq!(verify(&m), []);
        let f = m.functions["f"].clone();
        m.functions.insert("g".into(), f);
        let other = StructType { name: "P".into(), fields: Vec::new() };
        m.structs.insert("P".into(), Arc::new(other));
        let found = verify(&m);
        assert!(found.len() == 3 && found.iter().all(|d| d.code == codes::BAD_MODULE), "{found:?}");
    }
}
