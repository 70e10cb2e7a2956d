//! Expressions: typed, immutable, hash-tagged, shared.

mod same;

use crate::digest::{Digest, Feed};
use crate::ids::{BufId, VarId};
use crate::ops::{BinOp, MathFn, UnOp};
use crate::types::{Name, Scalar, Type};
use lathe_diagnostics::Places;
use rustc_hash::FxHashSet;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, OnceLock};

/// A shared expression. Clones are cheap; equality is structural (source places aside).
#[derive(Clone)]
pub struct Expr(Arc<ExprNode>);

pub struct ExprNode {
    pub kind: ExprKind,
    pub ty: Type,
    hash: u64,
    /// Made when somebody asks for it.
    digest: OnceLock<Digest>,
}

#[derive(Clone, Debug, PartialEq, Hash)]
pub enum ExprKind {
    Bool(bool),
    /// Any integer type; unsigned values above `i64::MAX` as their wrapped bits.
    Int(i64),
    /// Any float type, held as f64 bits; exactly representable in the node's type.
    Float(F64Bits),
    Var(VarId),
    Unary(UnOp, Expr),
    Binary(BinOp, Expr, Expr),
    /// Lazy: the branch not taken is not evaluated, so the condition guards its bounds.
    Select(Expr, Expr, Expr),
    /// Value conversion. Float to integer saturates (NaN gives 0); integer to narrower integer wraps;
    /// to float rounds to nearest even; to bool is `!= 0`.
    Cast(Expr),
    /// Reinterprets the bits of a scalar as another of the same width.
    Bitcast(Expr),
    Math(MathFn, Vec<Expr>),
    Load(Access),
    /// The address of an element, as `u64`: reads nothing. The element is one of a parameter or a global with an alias
    /// class, or the one after its last.
    Address(Access),
    /// A tuple, struct or small array of the node's type.
    Aggregate(Vec<Expr>),
    /// Component of an aggregate.
    Field(Expr, u32),
    /// The old value returned by calling a function of the module (pure, `in` parameters only).
    Call(Name, Vec<Expr>),
}

/// A float compared and hashed by its bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct F64Bits(pub u64);

impl F64Bits {
    pub fn get(self) -> f64 {
        f64::from_bits(self.0)
    }
}

impl From<f64> for F64Bits {
    fn from(v: f64) -> F64Bits {
        F64Bits(v.to_bits())
    }
}

impl fmt::Debug for F64Bits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.get())
    }
}

/// The view of an access. Engines of the first version support `Buffer`, `Slice` and `Reshape`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum View {
    Buffer(BufId),
    /// Dimension `d` of the view is `base[offset_d + step_d * i]`.
    Slice {
        base: Box<View>,
        offsets: Vec<Expr>,
        steps: Vec<i64>,
    },
    /// A buffer of one dimension seen with several (row-major); obligation: the product fits.
    Reshape {
        base: Box<View>,
        extents: Vec<Expr>,
    },
    /// The bytes of the base (contiguous, in row-major order, little-endian) seen as another element type, in one
    /// dimension; what is left over at the end is not seen. The first byte is at a multiple of `align`.
    Reinterpret {
        base: Box<View>,
        elem: Type,
        align: u32,
    },
    /// The elements from an address on, one after the other, of the type that the access says. The address is one that
    /// [`ExprKind::Address`] gave for an element of a parameter or a global of the alias class, or is counted in bytes
    /// from such a one; what is accessed lies in that same array, and at a multiple of its type's alignment.
    Deref {
        pointer: Box<Expr>,
        class: Name,
    },
    /// An array of the module.
    Global(Name),
}

impl View {
    /// The global that the view is based on, if any.
    pub fn global(&self) -> Option<&Name> {
        match self {
            View::Global(name) => Some(name),
            View::Slice { base, .. } | View::Reshape { base, .. } | View::Reinterpret { base, .. } => {
                base.global()
            }
            View::Buffer(_) | View::Deref { .. } => None,
        }
    }

    /// The buffer, if that is all.
    pub fn as_buffer(&self) -> Option<BufId> {
        match self {
            View::Buffer(b) => Some(*b),
            _ => None,
        }
    }

    /// The buffer at the bottom, if there is one.
    pub fn buffer(&self) -> Option<BufId> {
        match self {
            View::Buffer(b) => Some(*b),
            View::Slice { base, .. } | View::Reshape { base, .. } | View::Reinterpret { base, .. } => {
                base.buffer()
            }
            View::Deref { .. } | View::Global(_) => None,
        }
    }
}

/// Why an access is in bounds and defined.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub enum Status {
    /// Unproved; refused by the verifier after checking, unless trust was requested.
    #[default]
    Unproved,
    /// By analysis.
    Proved,
    /// By a guard in the code (`check`, `if` or `select`).
    Checked,
    /// By declaration; the string says whose.
    Assumed(Name),
}

/// `view[indices]`; subscripts are always logical.
#[derive(Clone, Debug)]
pub struct Access {
    pub view: View,
    pub indices: Vec<Expr>,
    pub elem: Type,
    pub status: Status,
    pub places: Places,
}

impl PartialEq for Access {
    fn eq(&self, o: &Access) -> bool {
        self.view == o.view && self.indices == o.indices && self.status == o.status
    }
}
impl Eq for Access {}
impl Hash for Access {
    fn hash<H: Hasher>(&self, h: &mut H) {
        self.view.hash(h);
        self.indices.hash(h);
    }
}

impl Access {
    pub fn buffer(buffer: BufId, elem: Type, indices: Vec<Expr>) -> Access {
        Access { view: View::Buffer(buffer), indices, elem, status: Status::Unproved, places: Places::none() }
    }

    pub fn at(mut self, places: Places) -> Access {
        self.places = places;
        self
    }
}

impl Expr {
    /// The raw constructor; prefer those in `build.rs`, which check types and fold constants.
    pub fn new(kind: ExprKind, ty: Type) -> Expr {
        let mut h = std::hash::DefaultHasher::new();
        kind.hash(&mut h);
        ty.hash(&mut h);
        let hash = h.finish();
        Expr(Arc::new(ExprNode { kind, ty, hash, digest: OnceLock::new() }))
    }

    pub fn kind(&self) -> &ExprKind {
        &self.0.kind
    }

    pub fn ty(&self) -> &Type {
        &self.0.ty
    }

    /// A structural hash: equal expressions have equal hashes, in every process.
    pub fn structural_hash(&self) -> u64 {
        self.0.hash
    }

    /// As [`crate::Stmt::digest`].
    pub fn digest(&self) -> &Digest {
        self.0.digest.get_or_init(|| {
            let mut h = Feed::new();
            (self.kind(), self.ty()).hash(&mut h);
            self.children().into_iter().for_each(|c| h.write(c.digest()));
            h.done()
        })
    }

    /// Identity of the shared node, for memo tables that live no longer than the expression.
    pub fn address(&self) -> usize {
        Arc::as_ptr(&self.0) as usize
    }

    /// Whether anything else holds the node, too. One that is not shared is met once where the expression around it is.
    pub(crate) fn is_shared(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }

    pub fn as_int(&self) -> Option<i64> {
        match self.kind() {
            ExprKind::Int(v) => Some(*v),
            _ => None,
        }
    }

    pub fn as_bool(&self) -> Option<bool> {
        match self.kind() {
            ExprKind::Bool(v) => Some(*v),
            _ => None,
        }
    }

    pub fn as_var(&self) -> Option<VarId> {
        match self.kind() {
            ExprKind::Var(v) => Some(*v),
            _ => None,
        }
    }

    /// Direct subexpressions, in the order of [`Expr::for_each_child`].
    pub fn children(&self) -> Vec<&Expr> {
        let mut out = Vec::new();
        self.for_each_child(&mut |e| out.push(e));
        out
    }

    /// Gives every direct subexpression, subscripts of loads included, in order.
    pub fn for_each_child<'a>(&'a self, f: &mut dyn FnMut(&'a Expr)) {
        match self.kind() {
            ExprKind::Bool(_) | ExprKind::Int(_) | ExprKind::Float(_) | ExprKind::Var(_) => {}
            ExprKind::Unary(_, a) | ExprKind::Cast(a) | ExprKind::Bitcast(a) | ExprKind::Field(a, _) => f(a),
            ExprKind::Binary(_, a, b) => [a, b].into_iter().for_each(f),
            ExprKind::Select(c, a, b) => [c, a, b].into_iter().for_each(f),
            ExprKind::Math(_, es) | ExprKind::Aggregate(es) | ExprKind::Call(_, es) => es.iter().for_each(f),
            ExprKind::Load(a) | ExprKind::Address(a) => a.for_each_expr(f),
        }
    }
}

impl View {
    /// Gives every expression inside, those of the base first.
    pub fn for_each_expr<'a>(&'a self, f: &mut dyn FnMut(&'a Expr)) {
        match self {
            View::Buffer(_) | View::Global(_) => {}
            View::Slice { base, offsets: all, .. } | View::Reshape { base, extents: all } => {
                base.for_each_expr(f);
                all.iter().for_each(f);
            }
            View::Reinterpret { base, .. } => base.for_each_expr(f),
            View::Deref { pointer, .. } => f(pointer),
        }
    }

    /// The same view of other expressions, in the order of [`View::for_each_expr`].
    pub fn map_exprs(&self, f: &mut dyn FnMut(&Expr) -> Expr) -> View {
        match self {
            View::Buffer(_) | View::Global(_) => self.clone(),
            View::Slice { base, offsets, steps } => {
                let base = Box::new(base.map_exprs(f));
                View::Slice { base, offsets: offsets.iter().map(f).collect(), steps: steps.clone() }
            }
            View::Reshape { base, extents } => {
                let base = Box::new(base.map_exprs(f));
                View::Reshape { base, extents: extents.iter().map(f).collect() }
            }
            View::Reinterpret { base, elem, align } => {
                View::Reinterpret { base: Box::new(base.map_exprs(f)), elem: elem.clone(), align: *align }
            }
            View::Deref { pointer, class } => {
                View::Deref { pointer: Box::new(f(pointer)), class: class.clone() }
            }
        }
    }

    /// The same view of another buffer.
    pub fn map_buffer(&self, f: &mut dyn FnMut(BufId) -> BufId) -> View {
        match self {
            View::Buffer(b) => View::Buffer(f(*b)),
            View::Slice { base, offsets, steps } => {
                let base = Box::new(base.map_buffer(f));
                View::Slice { base, offsets: offsets.clone(), steps: steps.clone() }
            }
            View::Reshape { base, extents } => {
                View::Reshape { base: Box::new(base.map_buffer(f)), extents: extents.clone() }
            }
            View::Reinterpret { base, elem, align } => {
                View::Reinterpret { base: Box::new(base.map_buffer(f)), elem: elem.clone(), align: *align }
            }
            View::Deref { .. } | View::Global(_) => self.clone(),
        }
    }
}

impl Access {
    /// Gives every expression inside: those of the view first, then the subscripts.
    pub fn for_each_expr<'a>(&'a self, f: &mut dyn FnMut(&'a Expr)) {
        self.view.for_each_expr(f);
        self.indices.iter().for_each(f);
    }

    /// Every expression inside, in the order of [`Access::for_each_expr`].
    pub fn exprs(&self) -> Vec<&Expr> {
        let mut out = Vec::new();
        self.for_each_expr(&mut |e| out.push(e));
        out
    }

    /// The same access of other expressions, in the order of [`Access::for_each_expr`].
    pub fn map_exprs(&self, f: &mut dyn FnMut(&Expr) -> Expr) -> Access {
        let (view, indices) = (self.view.map_exprs(f), self.indices.iter().map(f).collect());
        let (elem, places) = (self.elem.clone(), self.places.clone());
        Access { view, indices, elem, status: self.status.clone(), places }
    }

    /// The same access of other expressions, as many as [`Access::exprs`] gives.
    pub fn with_exprs(&self, new: Vec<Expr>) -> Access {
        let mut new = new.into_iter();
        self.map_exprs(&mut |_| new.next().expect("as many expressions as before"))
    }
}

impl PartialEq for Expr {
    fn eq(&self, o: &Expr) -> bool {
        Arc::ptr_eq(&self.0, &o.0)
            || (self.0.hash == o.0.hash && self.0.ty == o.0.ty && same::nodes(&self.0, &o.0))
    }
}
impl Eq for Expr {}
impl Hash for Expr {
    fn hash<H: Hasher>(&self, h: &mut H) {
        h.write_u64(self.0.hash);
    }
}

impl fmt::Debug for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind() {
            ExprKind::Bool(v) => write!(f, "{v}"),
            ExprKind::Int(v) => write!(f, "{v}"),
            ExprKind::Float(v) => write!(f, "{v:?}"),
            ExprKind::Var(v) => write!(f, "%{}", v.0),
            ExprKind::Unary(op, a) => write!(f, "{op:?}({a:?})"),
            ExprKind::Binary(op, a, b) => write!(f, "({a:?} {} {b:?})", op.symbol()),
            ExprKind::Select(c, a, b) => write!(f, "select({c:?}, {a:?}, {b:?})"),
            ExprKind::Cast(a) => write!(f, "{}({a:?})", self.ty()),
            ExprKind::Bitcast(a) => write!(f, "bitcast<{}>({a:?})", self.ty()),
            ExprKind::Math(m, es) => write!(f, "{}{es:?}", m.name()),
            ExprKind::Load(a) => write!(f, "{:?}{:?}", a.view, a.indices),
            ExprKind::Address(a) => write!(f, "address({:?}{:?})", a.view, a.indices),
            ExprKind::Aggregate(es) => write!(f, "{}{es:?}", self.ty()),
            ExprKind::Field(a, i) => write!(f, "{a:?}.{i}"),
            ExprKind::Call(n, es) => write!(f, "{n}{es:?}"),
        }
    }
}

/// Whether values of the type can be compared, added, …: used by the constructors.
pub(crate) fn scalar_of(e: &Expr) -> Scalar {
    e.ty().scalar().expect("a scalar expression")
}

/// Visits every node of an expression, subscripts included, each shared node once.
pub fn walk_expr(e: &Expr, f: &mut impl FnMut(&Expr)) {
    fn go(e: &Expr, seen: &mut Seen, f: &mut impl FnMut(&Expr)) {
        if !e.is_shared() || seen.insert(e.address()) {
            f(e);
            e.for_each_child(&mut |c| go(c, seen, f));
        }
    }
    // Most are leaves, which need no table.
    match e.kind() {
        ExprKind::Bool(_) | ExprKind::Int(_) | ExprKind::Float(_) | ExprKind::Var(_) => f(e),
        _ => go(e, &mut Seen::default(), f),
    }
}

/// Addresses of nodes that were visited: the first ones in a list, which is all that most expressions have, and which takes no memory
/// of its own.
#[derive(Default)]
struct Seen {
    first: [usize; 12],
    count: usize,
    rest: FxHashSet<usize>,
}

impl Seen {
    /// Whether it was not there before.
    fn insert(&mut self, address: usize) -> bool {
        if self.first[..self.count].contains(&address) {
            return false;
        }
        match self.first.get_mut(self.count) {
            Some(free) => {
                *free = address;
                self.count += 1;
                true
            }
            None => self.rest.insert(address),
        }
    }
}

/// Whether an expression reads memory or calls.
pub fn touches_memory(e: &Expr) -> bool {
    let mut found = false;
    walk_expr(e, &mut |x| found |= matches!(x.kind(), ExprKind::Load(_) | ExprKind::Call(..)));
    found
}
