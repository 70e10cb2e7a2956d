//! The `.lathe` language: kernels in index notation and loops, funs of patterns, rules, strategies for them, and
//! their tests.
//!
//! [`parse`] gives a syntax tree and all errors of form; [`load`] gives a [`Program`]: functions of the tree
//! (`lathe_ir`), funs and rules (`lathe_pattern`, which reads and types their terms), strategies as data
//! (`lathe_strategy`), tests. [`format`](fn@format) lays text out anew.
//!
//! # Notation
//!
//! ```text
//! kernel gemm(A: f32[M, K], B: f32[K, N]) -> (C: f32[M, N]) {
//!     C[i, j] = sum[k](A[i, k] * B[k, j])
//! }
//! strategy fast(t = 64 in 16..=256 step 16) for gemm = tile(i: t, j: t) ; vectorize(j.i, vector(f32))
//! test "small" for gemm {
//!     M = 2, N = 3, K = 1
//!     A = random(1); B = random(2)
//!     expect C[i, j] = A[i, 0] * B[0, j] within 1e-6
//! }
//! ```
//!
//! * Unbound names in subscripts are indices. On the left of `=` they are free; those only on the right of
//!   `op=` are reduced; others are bound by a reduction: `sum[k, r in 0..3](e)`. `scan(sum)[i](e)` gives the
//!   prefixes along the free index `i`.
//! * An index that is a whole subscript on the left runs over that extent; `i in a..b` after `where` or in a
//!   reduction says a range; all others are inferred (see [`lower::range`]).
//! * `argmax[k](x[k])` is the first position of the largest value, as `i64`.
//! * A literal takes the type of the other operand, else of what it is for, else `index` or `f32`. Nothing
//!   else converts by itself; subscripts and bounds take any integer type.
//!
//! # Tests
//!
//! `test "name" for kernel { … }` holds, on lines of their own or between `;` or `,`:
//!
//! * every size: `M = 5`;
//! * every input: `A = random(seed)` or `random(seed, lo, hi)`, `iota` (0, 1, 2, … in row-major order),
//!   `constant(v)`, a scalar `c = 0.5`, data `A = [[1, 2], [3, 4]]`, or a formula `A[i, j] = f32(i + 2*j)`;
//! * what is expected: `expect C[i, j] = …`, `expect { statements }` or `expect C = [[1, 2]]`, each with an
//!   optional `within tolerance` for the outputs that it names (without: exactly equal).
//!
//! The expectations become a function with the kernel's own signature: they read the inputs and write the
//! outputs (and change `inout` parameters) in another way than the kernel does.

pub mod ast;
pub mod codes;
mod format;
mod generic;
mod load;
pub mod lower;
mod parse;

pub use ast::{Derivative, Derived};
pub use codes::CODES;
pub use format::format;
pub use generic::Generic;
pub use load::{load, load_beside, load_debugging};
pub use parse::parse;

use lathe_diagnostics::{Diagnostic, FileId, Span};
use lathe_ir::{Function, Module};
use lathe_strategy::Definition;
use std::collections::BTreeMap;

/// Finds the files that `use "name"` means; the library itself does no input.
pub trait Resolver {
    /// The canonical name and the text of the file that `from` calls `name`; else why there is none.
    ///
    /// # Errors
    /// Why the file cannot be had, for people.
    fn load(&mut self, from: &str, name: &str) -> Result<(String, String), String>;
}

/// A file that was loaded.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// The file itself, of all that were read.
    pub file: Option<FileId>,
    /// Its kernels, its funs as they are translated without any choice, and the structs, operators and kernels
    /// of the files that it uses.
    pub module: Module,
    /// The kernels and funs of the file itself, in the order of the source.
    pub kernels: Vec<KernelInfo>,
    /// Kernels that are generic in their element types, those of used files too, by name.
    pub generics: BTreeMap<String, Generic>,
    /// Derivatives that have no function yet; those of used files too.
    pub derived: Vec<Derived>,
    /// Derivatives that the files give, those of used files too; not yet in the module.
    pub derivatives: Vec<Derivative>,
    /// Funs by name, those of used files too.
    pub funs: BTreeMap<String, Fun>,
    /// Rules over terms; those of used files first.
    pub rules: Vec<Rule>,
    /// Those of used files first.
    pub strategies: Vec<Definition>,
    /// What every kernel may use besides.
    pub prelude: Vec<Definition>,
    /// What every fun may use besides.
    pub library: Vec<Definition>,
    pub tests: Vec<TestDef>,
}

impl Program {
    /// The definitions that fit a kernel or fun: its own, those for any target, and what needs no import.
    pub fn strategies_of(&self, target: &str) -> impl Iterator<Item = &Definition> {
        let given = if self.funs.contains_key(target) { &self.library } else { &self.prelude };
        let own = |d: &&Definition| d.target.is_some();
        let fit = move |d: &&Definition| d.target.as_deref().is_none_or(|t| t == target);
        let all = move || self.strategies.iter().filter(fit);
        all().filter(own).chain(all().filter(move |d| !own(d))).chain(given)
    }
}

/// A fun: a program of patterns.
#[derive(Clone, Debug)]
pub struct Fun {
    pub program: lathe_pattern::Program,
    pub span: Span,
    /// Why it has no kernel: it can only be used in other funs.
    pub no_kernel: Option<Diagnostic>,
}

impl Fun {
    /// Whether it is for other funs only: a kernel takes arrays of scalars or of tuples of scalars, and gives one or
    /// several.
    pub fn is_helper(&self) -> bool {
        let plain = lathe_pattern::program::is_plain;
        let results = match self.program.result.kind() {
            lathe_pattern::TypeKind::Tuple(parts) => parts.iter().all(plain),
            _ => plain(&self.program.result),
        };
        self.no_kernel.is_some() && !(results && self.program.params.iter().all(|p| plain(&p.ty)))
    }
}

/// A `rule` item.
#[derive(Clone, Debug)]
pub struct Rule {
    pub equation: lathe_pattern::rules::Equation,
    /// As it is written, comments and layout apart.
    pub text: String,
    pub span: Span,
}

#[derive(Clone, Debug)]
pub struct KernelInfo {
    pub name: String,
    pub span: Span,
    /// The comment lines just before it.
    pub doc: String,
    /// Its `print` and `assert`, in the order of the source.
    pub sites: Vec<lower::debug::Site>,
}

/// A `test` item.
#[derive(Clone, Debug)]
pub struct TestDef {
    pub name: String,
    pub kernel: String,
    pub span: Span,
    /// One value per size of the kernel, in its order.
    pub sizes: Vec<(String, i64)>,
    /// One specification per `in` and `inout` parameter.
    pub inputs: Vec<(String, InputSpec)>,
    /// Has the kernel's own parameters, and computes what they should hold afterwards.
    pub expected: Function,
    /// By output, how far an element may be off, relative to its own magnitude (or 1); nothing means equal.
    pub tolerances: BTreeMap<String, f64>,
}

impl TestDef {
    /// Whether an element of an output is as good as expected.
    pub fn admits(&self, output: &str, got: f64, want: f64) -> bool {
        let most = self.tolerances.get(output).copied().unwrap_or(0.0) * want.abs().max(1.0);
        got == want || (got.is_nan() && want.is_nan()) || (want.is_finite() && (got - want).abs() <= most)
    }
}

/// What an input of a test holds.
#[derive(Clone, Debug, PartialEq)]
pub enum InputSpec {
    /// Reproducible numbers in `range` (half-open). Without one: floats in -1..1, integers that are
    /// subscripts within the subscripted extent, other integers in -8..8.
    Random { seed: u64, range: Option<(f64, f64)> },
    /// 0, 1, 2, … in row-major order.
    Iota,
    /// One number everywhere.
    Constant(Number),
    /// Row-major; the components of structs and tuples one after the other.
    Data(Vec<Number>),
}

/// A constant, before it has a type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    Bool(bool),
    Int(i64),
    Float(f64),
}

impl Number {
    pub fn as_f64(self) -> f64 {
        match self {
            Number::Bool(b) => f64::from(u8::from(b)),
            Number::Int(v) => v as f64,
            Number::Float(v) => v,
        }
    }
}
