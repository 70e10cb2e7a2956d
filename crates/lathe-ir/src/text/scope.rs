//! Which names mean which binders, for printing and parsing alike.

use crate::func::{Function, ParamKind};
use crate::ids::{Binder, BufId, VarId};
use crate::ops::{BinOp, MathFn};
use crate::types::{Name, Scalar, Type};
use crate::visit::walk;
use std::collections::HashMap;

/// The variables and buffers in scope, innermost last. Build one with [`Scope::of_function`] to print
/// parts of a function in a message.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    vars: HashMap<VarId, Vec<(Name, Scalar)>>,
    bufs: HashMap<BufId, Vec<(Name, Type)>>,
    var_names: HashMap<Name, Vec<VarId>>,
    buf_names: HashMap<Name, Vec<BufId>>,
    /// A name that several binders share is always written with its number.
    flat: bool,
}

impl Scope {
    pub fn new() -> Scope {
        Scope::default()
    }

    /// Everything that a function binds anywhere, as one flat scope.
    pub fn of_function(f: &Function) -> Scope {
        let mut s = Scope { flat: true, ..Scope::default() };
        for b in &f.sizes {
            s.bind_var(b);
        }
        for p in &f.params {
            match &p.kind {
                ParamKind::Array(b) => s.bind_buf(b.id, &b.name, &b.elem),
                ParamKind::Scalar(b) => s.bind_var(b),
            }
        }
        walk(&f.body, &mut |stmt, _| {
            stmt.binders().into_iter().for_each(|(b, _)| s.bind_var(b));
            stmt.allocated().into_iter().for_each(|b| s.bind_buf(b.id, &b.name, &b.elem));
            true
        });
        // Unrolled code binds one name often; with one number it is still one name.
        s.var_names.values_mut().for_each(|ids| ids.dedup());
        s.buf_names.values_mut().for_each(|ids| ids.dedup());
        s
    }

    pub fn bind_var(&mut self, b: &Binder) {
        self.vars.entry(b.id).or_default().push((b.name.clone(), b.ty));
        self.var_names.entry(b.name.clone()).or_default().push(b.id);
    }

    pub fn bind_buf(&mut self, id: BufId, name: &Name, elem: &Type) {
        self.bufs.entry(id).or_default().push((name.clone(), elem.clone()));
        self.buf_names.entry(name.clone()).or_default().push(id);
    }

    pub fn unbind_var(&mut self, id: VarId) {
        if let Some((name, _)) = self.vars.get_mut(&id).and_then(Vec::pop) {
            self.var_names.entry(name).or_default().pop();
        }
    }

    pub fn unbind_buf(&mut self, id: BufId) {
        if let Some((name, _)) = self.bufs.get_mut(&id).and_then(Vec::pop) {
            self.buf_names.entry(name).or_default().pop();
        }
    }

    /// Name and type of a variable in scope.
    pub fn var(&self, id: VarId) -> Option<&(Name, Scalar)> {
        self.vars.get(&id)?.last()
    }

    /// Name and element type of a buffer in scope.
    pub fn buf(&self, id: BufId) -> Option<&(Name, Type)> {
        self.bufs.get(&id)?.last()
    }

    /// The innermost variable of a name.
    pub fn find_var(&self, name: &str) -> Option<VarId> {
        self.var_names.get(name)?.last().copied()
    }

    /// The innermost buffer of a name.
    pub fn find_buf(&self, name: &str) -> Option<BufId> {
        self.buf_names.get(name)?.last().copied()
    }

    pub(crate) fn var_name_taken(&self, name: &str) -> bool {
        self.var_names.get(name).is_some_and(|v| !v.is_empty())
    }

    pub(crate) fn buf_name_taken(&self, name: &str) -> bool {
        self.buf_names.get(name).is_some_and(|v| !v.is_empty())
    }

    /// The variable as text: `i`, `i%12` where the plain name would mean another, `%12` out of scope.
    pub fn var_text(&self, id: VarId) -> String {
        let Some((name, _)) = self.var(id) else { return format!("%{}", id.0) };
        let clear = match self.var_names.get(name) {
            Some(ids) => ids.last() == Some(&id) && !(self.flat && ids.len() > 1),
            None => false,
        };
        if clear { name_text(name) } else { format!("{}%{}", name_text(name), id.0) }
    }

    /// The buffer as text: `A`, `A@3` where the plain name would mean another, `@3` out of scope.
    pub fn buf_text(&self, id: BufId) -> String {
        let Some((name, _)) = self.buf(id) else { return format!("@{}", id.0) };
        let clear = match self.buf_names.get(name) {
            Some(ids) => ids.last() == Some(&id) && !(self.flat && ids.len() > 1),
            None => false,
        };
        if clear { name_text(name) } else { format!("{}@{}", name_text(name), id.0) }
    }
}

/// A name, in backquotes where it needs them.
pub(crate) fn name_text(name: &str) -> String {
    if super::is_plain_name(name) { name.to_string() } else { lathe_syntax::quote(name, '`') }
}

/// Whether a name before parentheses (or, in types, at all) means something of the language's own.
fn is_call_word(name: &str) -> bool {
    Scalar::from_name(name).is_some()
        || MathFn::from_name(name).is_some()
        || BinOp::ALL.into_iter().any(|op| op.symbol() == name)
        || matches!(name, "array" | "vector" | "not" | "select" | "cast" | "bitcast")
        || matches!(name, "slice" | "reshape" | "reinterpret" | "deref" | "global" | "address")
}

/// A type as it is written in tree text.
pub(crate) fn type_text(t: &Type) -> String {
    match t {
        Type::Scalar(s) => s.name().to_string(),
        Type::Struct(s) if is_call_word(&s.name) => lathe_syntax::quote(&s.name, '`'),
        Type::Struct(s) => name_text(&s.name),
        Type::Array(t, n) => format!("array<{}, {n}>", type_text(t)),
        Type::Vector(s, n) => format!("vector<{s}, {n}>"),
        Type::Tuple(ts) => {
            let parts: Vec<String> = ts.iter().map(type_text).collect();
            format!("({}{})", parts.join(", "), if ts.len() == 1 { "," } else { "" })
        }
    }
}
