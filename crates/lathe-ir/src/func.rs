//! Functions and parameters.

use crate::buffer::Buffer;
use crate::digest::{Digest, Feed};
use crate::expr::Expr;
use crate::ids::{Binder, BufId, VarId};
use crate::stmt::Stmt;
use crate::summary::Summary;
use crate::types::{Name, Scalar};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    In,
    Out,
    InOut,
}

impl Mode {
    pub fn name(self) -> &'static str {
        match self {
            Mode::In => "in",
            Mode::Out => "out",
            Mode::InOut => "inout",
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum ParamKind {
    /// Passed by descriptor; extents are over the function's sizes.
    Array(Arc<Buffer>),
    /// A scalar input: a value, usable in bounds. Scalar *outputs* are 0-dimensional arrays.
    Scalar(Binder),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Param {
    pub kind: ParamKind,
    pub mode: Mode,
    /// Parameters of one alias class may overlap; by default every parameter is distinct from all.
    pub alias: Option<Name>,
}

impl Param {
    pub fn name(&self) -> &Name {
        match &self.kind {
            ParamKind::Array(b) => &b.name,
            ParamKind::Scalar(b) => &b.name,
        }
    }

    pub fn array(&self) -> Option<&Arc<Buffer>> {
        match &self.kind {
            ParamKind::Array(b) => Some(b),
            ParamKind::Scalar(_) => None,
        }
    }
}

/// How far a tree is lowered (design, section 2): machine detail enters last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Stage {
    /// Serial loops and computes only, as front ends make it.
    Plain,
    /// Executors, staged buffers, layouts.
    Scheduled,
    /// Masks, pipelines, fragments, asynchronous copies.
    Machine,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Function {
    pub name: Name,
    /// The symbolic sizes: non-negative `index` values taken from the arguments' shapes.
    pub sizes: Vec<Binder>,
    /// In calling order: inputs, then outputs.
    pub params: Vec<Param>,
    /// If set, the function is pure and this is its value in `body`'s place (combine operators, calls).
    pub result: Option<Expr>,
    pub body: Stmt,
    pub stage: Stage,
    /// What the function does to what is not its own, where it declares that; otherwise it is inferred
    /// ([`crate::summaries::Summaries`]).
    pub summary: Option<Summary>,
    /// The next fresh number for [`VarId`] and [`BufId`].
    pub next_id: u32,
}

impl Function {
    /// Without sizes, parameters and statements.
    pub fn empty(name: impl AsRef<str>, stage: Stage) -> Function {
        Function {
            name: Name::from(name.as_ref()),
            sizes: Vec::new(),
            params: Vec::new(),
            result: None,
            body: Stmt::empty(),
            stage,
            summary: None,
            next_id: 0,
        }
    }

    pub fn fresh_var(&mut self, name: impl AsRef<str>, ty: Scalar) -> Binder {
        let id = VarId(self.next_id);
        self.next_id += 1;
        Binder { id, name: Arc::from(name.as_ref()), ty }
    }

    pub fn fresh_buf(&mut self) -> BufId {
        let id = BufId(self.next_id);
        self.next_id += 1;
        id
    }

    /// The array parameter of a name.
    pub fn array(&self, name: &str) -> Option<&Arc<Buffer>> {
        self.params.iter().filter_map(Param::array).find(|b| &*b.name == name)
    }

    pub fn size(&self, name: &str) -> Option<&Binder> {
        self.sizes.iter().find(|b| &*b.name == name)
    }
}

/// The digest of a function: equal functions have equal ones, in every process; places and the status of accesses play no
/// part, numbers of binders do.
pub fn digest(f: &Function) -> Digest {
    let mut h = Feed::new();
    (&f.name, f.stage, f.next_id, f.result.is_some()).hash(&mut h);
    f.result.iter().for_each(|e| h.write(e.digest()));
    f.sizes.len().hash(&mut h);
    for b in &f.sizes {
        (b.id, &b.name, b.ty).hash(&mut h);
    }
    f.params.len().hash(&mut h);
    for p in &f.params {
        (p.mode, &p.alias).hash(&mut h);
        match &p.kind {
            ParamKind::Scalar(b) => (0u8, b.id, &b.name, b.ty).hash(&mut h),
            ParamKind::Array(b) => {
                1u8.hash(&mut h);
                b.feed(&mut h);
            }
        }
    }
    h.write(f.body.digest());
    h.done()
}
