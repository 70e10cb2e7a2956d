//! The syntax tree of a `.lathe` file: what was written, with places, before names mean anything.
//!
//! Strategies need no second meaning, so they are [`lathe_strategy::Definition`]s from the parser on.

use lathe_diagnostics::Span;
use lathe_pattern::ast::{FunAst, RuleAst};
use lathe_strategy::Definition;

#[derive(Clone, Debug, Default)]
pub struct File {
    pub items: Vec<Item>,
}

#[derive(Clone, Debug)]
pub enum Item {
    Use {
        file: String,
        span: Span,
    },
    Struct(Struct),
    Op(Op),
    Kernel(Kernel),
    Derived(Derived),
    Derivative(Derivative),
    /// Terms are the business of `lathe-pattern`.
    /// With the comment lines just before it.
    Fun(FunAst, String),
    Rule(RuleAst),
    Strategy(Strategy),
    Test(Test),
}

/// A name with its place.
#[derive(Clone, Debug)]
pub struct Ident {
    pub text: String,
    pub span: Span,
}

#[derive(Clone, Debug)]
pub struct Struct {
    pub name: Ident,
    pub fields: Vec<(Ident, Type)>,
}

/// `name`, `name<args>` or `(types)`, with the extents that follow, outermost first.
#[derive(Clone, Debug)]
pub struct Type {
    pub kind: TypeKind,
    /// `None`: no brackets, a scalar.
    pub extents: Option<Vec<Expr>>,
    pub span: Span,
}

#[derive(Clone, Debug)]
pub enum TypeKind {
    Name(Ident, Vec<Expr>),
    Tuple(Vec<Type>),
}

#[derive(Clone, Debug)]
pub struct Param {
    pub name: Ident,
    pub inout: bool,
    pub ty: Type,
}

/// `op name(a: T, b: T) -> T associative commutative identity(e) = body`
#[derive(Clone, Debug)]
pub struct Op {
    pub name: Ident,
    pub params: Vec<Param>,
    pub result: Type,
    pub associative: bool,
    pub commutative: bool,
    pub identity: Option<Expr>,
    pub body: Expr,
}

#[derive(Clone, Debug)]
pub struct Kernel {
    pub name: Ident,
    /// `<T in {f32, f64}>`; a kernel of one choice of types has none.
    pub types: Vec<TypeParam>,
    pub params: Vec<Param>,
    pub results: Vec<Param>,
    pub body: Vec<Stmt>,
    /// The comment lines just before it, without their `#`.
    pub doc: String,
    pub span: Span,
}

/// `T [= default] in {f32, f64}`: an element type that is chosen where the kernel is used.
#[derive(Clone, Debug)]
pub struct TypeParam {
    pub name: Ident,
    pub default: Option<Ident>,
    pub choices: Vec<Ident>,
}

/// `kernel name = vjp(kernel, wrt: (A, B), of: (C), value: true, allow: steps, checkpoint: 8, directions: K)`: a derivative (`jvp`, `vjp`, `hvp`), or its pattern
/// (`sparsity`).
#[derive(Clone, Debug)]
pub struct Derived {
    pub name: Ident,
    pub rule: Ident,
    pub of_kernel: Ident,
    /// Empty: all inputs that can be.
    pub wrt: Vec<Ident>,
    /// Empty: all outputs that can be.
    pub of: Vec<Ident>,
    /// Cotangents come beside the kernel's own outputs.
    pub value: bool,
    pub allow_steps: bool,
    /// How many states of a loop in time are kept at once.
    pub checkpoints: Option<std::num::NonZeroU16>,
    /// The extent of one more dimension of tangents and cotangents: so many products at once.
    pub directions: Option<Ident>,
    pub doc: String,
    pub span: Span,
}

/// `derivative f = g`: the kernel `g` computes what `vjp(f)`, or `jvp(f)`, means.
#[derive(Clone, Debug)]
pub struct Derivative {
    pub of: Ident,
    pub rule: Ident,
    pub span: Span,
}

#[derive(Clone, Debug)]
pub struct Strategy {
    pub definition: Definition,
    pub name: Ident,
    pub target: Option<Ident>,
}

/// `test "name" for kernel { settings; expectations }`
#[derive(Clone, Debug)]
pub struct Test {
    pub name: String,
    pub kernel: Ident,
    pub settings: Vec<Setting>,
    /// Statements that compute what is expected.
    pub expect: Vec<Stmt>,
    /// `expect C = [[1, 2], [3, 4]]`
    pub data: Vec<(Ident, Expr)>,
    /// What the outputs of an expectation may be off, each by its name.
    pub tolerances: Vec<(String, f64)>,
    pub span: Span,
}

/// `M = 5`, `A = random(1)`, `A = [[1, 2]]`, `A[i, j] = f32(i + j)`
#[derive(Clone, Debug)]
pub struct Setting {
    pub name: Ident,
    pub indices: Option<Vec<Ident>>,
    pub value: Expr,
}

#[derive(Clone, Debug)]
pub struct Stmt {
    pub kind: StmtKind,
    pub span: Span,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AssignOp {
    Set,
    Add,
    Mul,
    Min,
    Max,
    Any,
    All,
}

#[derive(Clone, Debug)]
pub enum StmtKind {
    Assign {
        label: Option<Ident>,
        target: Expr,
        op: AssignOp,
        value: Expr,
        ranges: Vec<Range>,
    },
    For {
        var: Ident,
        lo: Expr,
        hi: Expr,
        step: Option<Expr>,
        body: Vec<Stmt>,
    },
    While {
        cond: Expr,
        body: Vec<Stmt>,
    },
    If {
        cond: Expr,
        then: Vec<Stmt>,
        other: Option<Vec<Stmt>>,
    },
    Let {
        name: Ident,
        value: Expr,
    },
    Var {
        name: Ident,
        ty: Type,
    },
    Assume {
        cond: Expr,
    },
    /// `(a, b) = norms(x)`, or `scale(x)`: a kernel with several results, or none. (One with one result is an assignment
    /// to a name, as what a function gives is.)
    Call {
        results: Vec<Ident>,
        kernel: Ident,
        args: Vec<CallArg>,
    },
    /// Ends the innermost `for` or `while`.
    Break,
    /// `print(…)`, in debug builds.
    Print {
        parts: Vec<Printed>,
    },
    /// `assert(…)`, in debug builds.
    Assert {
        cond: Expr,
        /// What it says if it fails.
        says: Vec<Printed>,
    },
}

/// What `print` shows.
#[derive(Clone, Debug)]
pub enum Printed {
    /// With `{}` for the values that follow it.
    Text(String, Span),
    Value(Expr),
}

/// `i in lo..hi`, or the bare index `i`.
#[derive(Clone, Debug)]
pub struct Range {
    pub index: Ident,
    pub bounds: Option<(Expr, Expr)>,
}

#[derive(Clone, Debug)]
pub struct Expr {
    pub kind: ExprKind,
    pub span: Span,
    /// Height of the tree, so that later recursion has a bound.
    pub height: u32,
}

pub use lathe_syntax::{Operator as BinOp, Sign as UnOp};

#[derive(Clone, Debug)]
pub struct CallArg {
    pub name: Option<Ident>,
    pub value: Expr,
}

#[derive(Clone, Debug)]
pub enum ExprKind {
    Int(i64),
    /// An integer that only `u64` has, and floats.
    Large(u64),
    Float(f64),
    /// `2.0i`
    Imaginary(f64),
    Bool(bool),
    Name(String),
    Unary(UnOp, Box<Expr>),
    Binary(BinOp, Box<Expr>, Box<Expr>),
    Call(Box<Expr>, Vec<CallArg>),
    /// `a[i, j]`, or the indices of a reduction: `sum[k, r in 0..3]`.
    Index(Box<Expr>, Vec<Subscript>),
    /// `p.name`
    Field(Box<Expr>, Ident),
    /// `p.0`
    Component(Box<Expr>, u32, Span),
    Tuple(Vec<Expr>),
    /// `[a, b]`: data in tests.
    List(Vec<Expr>),
    /// `{ let a = e; b }`: a value under names of its own.
    Block(Vec<(Ident, Expr)>, Box<Expr>),
    /// Where the parser recovered.
    Error,
}

#[derive(Clone, Debug)]
pub enum Subscript {
    Expr(Expr),
    Range(Range),
}

impl Expr {
    /// The name, if the expression is nothing else.
    pub fn as_name(&self) -> Option<&str> {
        match &self.kind {
            ExprKind::Name(n) => Some(n),
            _ => None,
        }
    }
}

/// Whether the statements may end the loop around them.
pub fn breaks(stmts: &[Stmt]) -> bool {
    stmts.iter().any(|s| match &s.kind {
        StmtKind::Break => true,
        StmtKind::If { then, other, .. } => breaks(then) || other.as_deref().is_some_and(breaks),
        _ => false,
    })
}
