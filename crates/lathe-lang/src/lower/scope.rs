//! The names in scope inside of a kernel, and the state of the statement that is being lowered.

use super::range::Bound;
use super::types::Globals;
use crate::ast::Ident;
use crate::codes;
use lathe_diagnostics::{Code, Diagnostic, Places, SourceMap, Span};
use lathe_ir::{Binder, BufId, Buffer, Expr, ReduceOp, Scalar, Type, VarId};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// What a name stands for.
#[derive(Clone, Debug)]
pub enum Entity {
    Size(Binder),
    /// A scalar input, a loop's variable or a `let`.
    Value(Binder, &'static str),
    /// What a name inside of an expression stands for.
    Named(Expr, &'static str),
    /// An array (or a 0-dimensional buffer); `read_only` says why it may not be assigned to.
    Array {
        buffer: Arc<Buffer>,
        read_only: Option<&'static str>,
    },
}

/// An index of index notation.
#[derive(Clone, Debug)]
pub struct Index {
    pub binder: Binder,
    pub span: Span,
    /// From `in a..b`.
    pub bounds: Option<(Expr, Expr)>,
}

/// A reduction or scan met in an expression; a placeholder stands for it until ranges are known.
#[derive(Clone, Debug)]
pub struct Reduction {
    pub op: ReduceOp,
    /// Positions in [`Statement::indices`] of what is reduced.
    pub indices: Vec<usize>,
    /// The index that a scan runs along.
    pub scan: Option<usize>,
    pub body: Expr,
    /// Conditions of the `select`s around it.
    pub guards: Vec<Expr>,
    pub ty: Type,
    pub span: Span,
}

/// Of the statement that is being lowered.
#[derive(Default)]
pub struct Statement {
    pub indices: Vec<Index>,
    /// Names that mean an index here, innermost last.
    pub active: Vec<(String, usize)>,
    pub bounds: Vec<Bound>,
    pub reductions: Vec<Reduction>,
    pub guards: Vec<Expr>,
    /// Depth of subscripts around the expression.
    pub in_subscript: u32,
    /// For messages about unbound names: names may become indices on the left.
    pub index_notation: bool,
}

/// A kernel whose statements are being written in place of a call.
pub struct Frame {
    pub kernel: String,
    /// The first number that was free when the call began.
    pub first: u32,
}

/// Everything that lowering a function needs.
pub struct Cx<'a> {
    pub globals: &'a Globals,
    pub map: &'a SourceMap,
    pub errors: &'a mut Vec<Diagnostic>,
    pub next_id: u32,
    pub scopes: Vec<BTreeMap<String, (Entity, Span)>>,
    /// Binders of the loops around, outermost first.
    pub loops: Vec<Binder>,
    /// Whether the innermost loop that `break` can end goes on.
    pub escape: Option<Arc<Buffer>>,
    pub labels: HashMap<String, usize>,
    pub used_labels: HashSet<String>,
    pub sizes: HashSet<VarId>,
    pub st: Statement,
    /// Kernels whose statements are being written in place of calls, innermost last.
    pub calls: Vec<Frame>,
    /// Statements that were written so.
    pub written: usize,
    /// `print` and `assert`.
    pub log: super::log::Log,
}

impl<'a> Cx<'a> {
    pub fn new(globals: &'a Globals, map: &'a SourceMap, errors: &'a mut Vec<Diagnostic>) -> Cx<'a> {
        Cx {
            globals,
            map,
            errors,
            next_id: 0,
            scopes: vec![BTreeMap::new()],
            loops: Vec::new(),
            escape: None,
            labels: HashMap::new(),
            used_labels: HashSet::new(),
            sizes: HashSet::new(),
            st: Statement::default(),
            calls: Vec::new(),
            written: 0,
            log: super::log::Log::default(),
        }
    }

    pub fn fresh_var(&mut self, name: &str, ty: Scalar) -> Binder {
        let id = VarId(self.next_id);
        self.next_id += 1;
        Binder { id, name: Arc::from(name), ty }
    }

    pub fn fresh_buf(&mut self) -> BufId {
        let id = BufId(self.next_id);
        self.next_id += 1;
        id
    }

    pub fn error(&mut self, code: Code, message: impl Into<String>, span: Span, mark: impl Into<String>) {
        self.errors.push(Diagnostic::error(code, message).at(span, mark));
    }

    /// Adds help to the last error.
    pub fn help(&mut self, text: impl Into<String>) {
        if let Some(d) = self.errors.last_mut() {
            d.help = Some(text.into());
        }
    }

    pub fn lookup(&self, name: &str) -> Option<&Entity> {
        self.scopes.iter().rev().find_map(|s| s.get(name)).map(|(e, _)| e)
    }

    pub fn declared_at(&self, name: &str) -> Option<Span> {
        self.scopes.iter().rev().find_map(|s| s.get(name)).map(|(_, at)| *at)
    }

    /// Binds a name; names may not be declared twice while both would be visible.
    pub fn declare(&mut self, name: &Ident, entity: Entity) -> bool {
        if let Some(first) = self.declared_at(&name.text) {
            self.errors.push(
                Diagnostic::error(codes::DUPLICATE, format!("`{}` already has a meaning here", name.text))
                    .at(name.span, "declared again")
                    .at(first, "first declared here")
                    .help("choose another name"),
            );
            return false;
        }
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(name.text.clone(), (entity, name.span));
        }
        true
    }

    /// The active index of a name.
    pub fn active(&self, name: &str) -> Option<usize> {
        self.st.active.iter().rev().find(|(n, _)| n == name).map(|(_, i)| *i)
    }

    /// All names that could have been meant.
    pub fn visible(&self) -> Vec<String> {
        let scopes = self.scopes.iter().flat_map(|s| s.keys().cloned());
        scopes.chain(self.st.active.iter().map(|(n, _)| n.clone())).collect()
    }

    /// Reports a name without a meaning; what helps where no known name is near: for want of anything better, that an
    /// index has to be bound.
    pub fn unknown(&mut self, name: &str, span: Span, help: Option<String>) {
        let all = self.visible();
        let near = lathe_diagnostics::nearest(name, all.iter().map(String::as_str));
        self.error(codes::UNKNOWN, format!("unknown name `{name}`"), span, "has no meaning here");
        match (near, help) {
            (Some(n), _) => self.help(format!("did you mean `{n}`?")),
            (None, Some(help)) => self.help(help),
            (None, None) if self.st.index_notation => {
                self.help("an index is a name in a subscript on the left, or is bound: `sum[k](…)`");
            }
            (None, None) => {}
        }
    }

    pub fn index_vars(&self) -> HashSet<VarId> {
        self.st.indices.iter().map(|i| i.binder.id).collect()
    }
}

pub fn place(span: Span) -> Places {
    Places::one(span)
}
