//! Printing modules and functions.

use super::scope::{Scope, name_text, type_text};
use crate::buffer::{Buffer, Space};
use crate::expr::Expr;
use crate::func::{Function, Mode, Param, ParamKind, Stage};
use crate::ids::{Binder, BufId, VarId};
use crate::layout::{Layout, LayoutStep};
use crate::module::{CombineOp, Module};
use crate::stmt::Stmt;
use crate::types::{Name, Scalar, StructType, Type};
use lathe_syntax::quote;
use std::collections::{HashMap, HashSet};
use std::fmt::Write;

/// Whether numbers of binders are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ids {
    /// Wherever they are needed to restore them exactly.
    Exact,
    /// Only where a name would be ambiguous: for people, and for texts that should not change when
    /// numbers do. Parses back to the same tree up to numbering.
    Hidden,
}

/// Prints a module so that [`super::parse_module`] gives the same module back.
pub fn print_module(m: &Module) -> String {
    let mut p = Printer::new(Ids::Exact);
    let mut done = HashSet::new();
    for s in m.structs.values() {
        p.structure(s, m, &mut done);
    }
    for g in m.globals.values() {
        p.item();
        p.global(g);
    }
    for op in m.ops.values() {
        p.item();
        p.op(op);
    }
    for x in m.externals.values() {
        p.item();
        p.external(x);
    }
    for f in m.functions.values() {
        p.item();
        p.function(f);
    }
    for (of, rules) in &m.derivatives {
        for rule in rules {
            p.item();
            p.derivative(of, rule);
        }
    }
    p.out
}

/// Prints one function, identities included.
pub fn print_function(f: &Function) -> String {
    print_function_with(f, Ids::Exact)
}

pub fn print_function_with(f: &Function, ids: Ids) -> String {
    let mut p = Printer::new(ids);
    p.function(f);
    p.out
}

/// Prints a statement for a message, with the names of a scope; numbers only where names need them.
pub fn print_stmt(s: &Stmt, scope: &Scope) -> String {
    let mut p = Printer::over(scope.clone());
    p.block(s);
    let text = p.out.trim_start_matches('\n').to_string();
    if text.is_empty() { "{ }\n".to_string() } else { text + "\n" }
}

/// The text so far and what is in scope.
pub(crate) struct Printer {
    pub out: String,
    pub scope: Scope,
    /// The number that a binder without one would get.
    pub next: u32,
    ids: Ids,
    pub indent: usize,
    /// `$` names of shared expressions of the current statement, by address.
    pub shared: HashMap<usize, u32>,
}

impl Printer {
    fn new(ids: Ids) -> Printer {
        Printer { out: String::new(), scope: Scope::new(), next: 0, ids, indent: 0, shared: HashMap::new() }
    }

    pub(crate) fn over(scope: Scope) -> Printer {
        Printer { scope, ..Printer::new(Ids::Hidden) }
    }

    /// A blank line between items.
    fn item(&mut self) {
        if !self.out.is_empty() {
            self.out.push('\n');
        }
    }

    pub(crate) fn line(&mut self) {
        self.out.push('\n');
        for _ in 0..self.indent {
            self.out.push_str("  ");
        }
    }

    /// Structs after those that they contain.
    fn structure<'a>(&mut self, s: &'a StructType, m: &'a Module, done: &mut HashSet<&'a Name>) {
        fn needs<'a>(t: &'a Type, out: &mut Vec<&'a Name>) {
            match t {
                Type::Struct(s) => out.push(&s.name),
                Type::Tuple(ts) => ts.iter().for_each(|t| needs(t, out)),
                Type::Array(t, _) => needs(t, out),
                Type::Scalar(_) | Type::Vector(..) => {}
            }
        }
        if !done.insert(&s.name) {
            return;
        }
        let mut inner = Vec::new();
        s.fields.iter().for_each(|f| needs(&f.1, &mut inner));
        for name in inner {
            if let Some(t) = m.structs.get(name) {
                self.structure(t, m, done);
            }
        }
        let fields: Vec<String> =
            s.fields.iter().map(|(n, t)| format!("{}: {}", name_text(n), type_text(t))).collect();
        let fields = if fields.is_empty() { String::new() } else { format!(" {} ", fields.join(", ")) };
        let _ = writeln!(self.out, "struct {} {{{fields}}}", name_text(&s.name));
    }

    fn op(&mut self, op: &CombineOp) {
        self.next = 0;
        let _ = write!(self.out, "op {}(", name_text(&op.name));
        let (a, b): (Name, Name) = ("a".into(), "b".into());
        self.buf_binder(op.a, &a);
        self.scope.bind_buf(op.a, &a, &op.ty);
        self.out.push_str(", ");
        self.buf_binder(op.b, &b);
        self.scope.bind_buf(op.b, &b, &op.ty);
        let _ = write!(self.out, "): {}", type_text(&op.ty));
        if op.associative {
            self.out.push_str(" associative");
        }
        if op.commutative {
            self.out.push_str(" commutative");
        }
        self.indent += 1;
        if let Some(e) = &op.identity {
            self.out.push_str(" identity(");
            self.rooted(e);
            self.out.push(')');
        }
        self.out.push_str("\n  = ");
        self.rooted(&op.body);
        self.indent -= 1;
        self.out.push('\n');
        self.scope.unbind_buf(op.b);
        self.scope.unbind_buf(op.a);
    }

    /// An expression that stands by itself, what it shares before it.
    fn rooted(&mut self, e: &Expr) {
        self.share(&[e]);
        self.expr(e, 0);
        self.shared.clear();
    }

    fn function(&mut self, f: &Function) {
        let _ = write!(self.out, "func {}", name_text(&f.name));
        self.signature(&f.sizes, &f.params);
        if let Some(summary) = &f.summary {
            self.summary(summary);
        }
        let stage = match f.stage {
            Stage::Plain => "plain",
            Stage::Scheduled => "scheduled",
            Stage::Machine => "machine",
        };
        let _ = write!(self.out, " stage {stage}");
        // By default the counter follows the largest number.
        if self.ids == Ids::Exact && Some(f.next_id) != largest_id(f).map_or(Some(0), |n| n.checked_add(1)) {
            let _ = write!(self.out, " next {}", f.next_id);
        }
        if let Some(e) = &f.result {
            self.out.push_str(" = ");
            self.indent += 1;
            self.rooted(e);
            self.indent -= 1;
        }
        if f.result.is_none() || !f.body.is_empty() {
            self.out.push(' ');
            self.braces(&f.body);
        }
        self.out.push('\n');
        self.leave_signature(&f.sizes, &f.params);
    }

    pub(super) fn param(&mut self, p: &Param) {
        let mode = Some(p.mode);
        match &p.kind {
            ParamKind::Array(b) => {
                self.buffer(b, mode);
                self.scope.bind_buf(b.id, &b.name, &b.elem);
            }
            ParamKind::Scalar(b) => {
                self.var_binder(b.id, &b.name);
                let _ = write!(self.out, ": {} {}", p.mode.name(), b.ty);
                self.scope.bind_var(b);
            }
        }
        if let Some(class) = &p.alias {
            let _ = write!(self.out, " alias {}", name_text(class));
        }
    }

    /// `name: [mode] elem[extents] [space] [layout …]`
    pub(crate) fn buffer(&mut self, b: &Buffer, mode: Option<Mode>) {
        self.buf_binder(b.id, &b.name);
        let mode = mode.map_or(String::new(), |m| format!("{} ", m.name()));
        let _ = write!(self.out, ": {mode}{}[", type_text(&b.elem));
        self.list(&b.extents);
        self.out.push(']');
        if b.space != Space::Host {
            let _ = write!(self.out, " {}", b.space.name());
        }
        self.layout(&b.layout);
    }

    fn layout(&mut self, layout: &Layout) {
        for (i, step) in layout.steps.iter().enumerate() {
            self.out.push_str(if i == 0 { " layout " } else { " " });
            let _ = match step {
                LayoutStep::Permute(order) => {
                    let order: Vec<String> = order.iter().map(usize::to_string).collect();
                    write!(self.out, "permute({})", order.join(", "))
                }
                LayoutStep::Tile { dim, size } => write!(self.out, "tile({dim}, {size})"),
                LayoutStep::Pad { dim, multiple } => write!(self.out, "pad({dim}, {multiple})"),
                LayoutStep::Swizzle { dim, by, modulus } => {
                    write!(self.out, "swizzle({dim}, {by}, {modulus})")
                }
                LayoutStep::Distribute { dim, over } => {
                    write!(self.out, "distribute({dim}, {})", name_text(over))
                }
            };
        }
    }

    /// A variable where it is bound, with its type where it is not an `index`.
    pub(crate) fn binder(&mut self, b: &Binder) {
        self.var_binder(b.id, &b.name);
        if b.ty != Scalar::Index {
            let _ = write!(self.out, ": {}", b.ty);
        }
    }

    pub(crate) fn var_binder(&mut self, id: VarId, name: &Name) {
        let taken = self.scope.var_name_taken(name);
        self.binder_name(name, id.0, '%', taken);
    }

    fn buf_binder(&mut self, id: BufId, name: &Name) {
        let taken = self.scope.buf_name_taken(name);
        self.binder_name(name, id.0, '@', taken);
    }

    fn binder_name(&mut self, name: &Name, id: u32, sigil: char, taken: bool) {
        self.out.push_str(&name_text(name));
        let needed = match self.ids {
            Ids::Exact => id != self.next,
            Ids::Hidden => taken,
        };
        if needed {
            let _ = write!(self.out, "{sigil}{id}");
        }
        self.next = id.saturating_add(1);
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.out.push_str(&quote(text, '"'));
    }
}

/// The largest number that a binder or buffer of the function carries.
pub(crate) fn largest_id(f: &Function) -> Option<u32> {
    let mut largest = f.sizes.iter().map(|b| b.id.0).max();
    let mut see = |n: u32| largest = largest.max(Some(n));
    for p in &f.params {
        match &p.kind {
            ParamKind::Array(b) => see(b.id.0),
            ParamKind::Scalar(b) => see(b.id.0),
        }
    }
    crate::visit::walk(&f.body, &mut |s, _| {
        s.binders().into_iter().for_each(|(b, _)| see(b.id.0));
        s.allocated().into_iter().for_each(|b| see(b.id.0));
        true
    });
    largest
}
