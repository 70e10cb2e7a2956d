//! The text form of the tree (`.tree` files): what tests, bug reports and `lathe emit --to tree` speak.
//!
//! [`print_module`] and [`parse_module`] are inverse to each other, identities included. The parser only
//! builds; whether the tree makes sense is asked of [`crate::verify`]. So a broken tree can be written
//! down as well, which is what the tests of the verifier do.
//!
//! # Syntax by example
//!
//! ```text
//! # A comment. White space means nothing, newlines included.
//! struct P { v: f32, i: i64 }
//!
//! op better(a, b): P associative commutative identity(P(-inf:f32, 0:i64))
//!   = select(a[].v >= b[].v, a[], b[])
//!
//! func square()(x: in f32) stage plain = x * x
//!
//! func gemm(M, N, K)(A: in f32[M, K], B: in f32[K, N], alpha: in f32, C: out f32[M, N]) stage scheduled {
//!   check M > 0, "empty", "there must be a row"
//!   assume K % 8 == 0, "the user"
//!   for i in 0..M cpu {
//!     for j in 0..N step 2 {
//!       'C.init'[i, j]: C[i, j]! = 0.0:f32
//!       for k in 0..K { 'C'[i, j, k]: C[i, j] sum= A[i, k] * B[k, j] licensed contract }
//!     }
//!   }
//! }
//! ```
//!
//! **Names.** Letters, digits, `_` and inner dots (`i.o`, `C.t1`); anything else, and every reserved word,
//! is in backquotes: `` `copy(A).i` ``. Variables and buffers are different kinds of names. A name
//! means its innermost binder; `i%12` (variable) and `A@3` (buffer) mean the binder of that name with that
//! number. At a binder, `i%12` gives the number; without one, the number follows that of the binder before
//! (in the order of the text, sizes and parameters first, from 0; in an `op` from 0 too). `next 20` after
//! the stage gives the function's counter; by default it follows the largest number. What is not in scope
//! can still be written, as `%12:index` or `@3:f32`. (The remainder is written with spaces: `i % 12`.)
//!
//! **Types.** `bool i8 … u64 index f16 bf16 f32 f64`, `(f32, i64)`, `(f32,)`, `P`, `array<f32, 3>`,
//! `vector<f32, 4>`.
//!
//! **Expressions**, loosest to tightest: `or`; `and`; `== != < <= > >=`; `+ -`; `* / // %`; unary `-`;
//! `.field` `.0`. Other operations are calls: `not(a)`, `min(a, b)`, `max`, `xor`, `shl`, `shr`, `tdiv`,
//! `trem`, `select(c, a, b)`, the math functions, casts `f32(a)` (in general `cast<T>(a)`),
//! `bitcast<u32>(a)`, aggregates `P(a, b)`, `(a, b)`, `array<f32, 2>(a, b)`, and `call f(a, b):f32`, which
//! calls a function of the module. Integers are of type `index`, or say theirs: `3:i32`. Floats always say
//! theirs: `0.5:f32`, `-inf:f64`, `nan:f32`, `nan(0x7ff8000000000001):f64`. `(a + b):T` gives a node
//! another type than its operands imply (no correct tree has one).
//!
//! **Accesses.** `view[subscripts]` and a mark for the status: none (unproved), `!` (proved), `?` (checked),
//! `~"who"` (assumed). A view is a buffer, `slice(v, [offset, …], [step, …])`, `reshape(v, [extent, …])`,
//! `reinterpret(v, T, align)`, `deref(pointer, class):T` or `global(name):T`; `address(A[i])` is a pointer.
//!
//! **Functions.** `func name(sizes)(params) [stage S] [next N] [= result] [{ … }]`. A parameter is
//! `name: in|out|inout T[extents] [space] [layout …] [alias class]`, or without brackets a scalar.
//! A layout is a list of `permute(1, 0)`, `tile(dim, size)`, `pad(dim, multiple)`,
//! `swizzle(dim, by, modulus)`, `distribute(dim, name)`.
//!
//! **Statements.**
//!
//! ```text
//! 'L'[instance]: target = value [nontemporal]
//! 'L'[instance]: target OP= value [licensed] [contract]          one target
//! 'L'[instance]: {t1, t2} OP= {v1, v2} [licensed] [contract]     several
//! atomic 'L'[instance]: target ACTION ORDER scope NAME [as old]
//!     where ACTION is `load`, `store v`, `exchange v`, `compare v exchange w` or `OP= v`
//! let x: T = value
//! alloc T: f32[8, 8] [space] [layout …]
//! for i in lo..hi [step 2] [unrolled | vector(8) | cpu | team | device | node | level(block)] { … }
//! if c { … } else { … }        while c { … }        seq { … }
//! check c, "code", "message"   assume fact, "provenance"
//! barrier i (shared, global)
//! token t                      async t { … }        wait t        wait t pending 2
//! call f(value, &A, &slice(B, [0], [1]))
//! compute 'C' over i in 0..M, k in 0..K reduce(sum), j in 0..N scan(max) { C[i, j] = e [if guard] }
//! compute 'C' over k in 0..K reduce(sum) { C[] sum= e }          combines into the old value
//! ```
//!
//! A block of one statement is that statement; `seq { … }` writes down a sequence that would otherwise be
//! flattened. `let`, `alloc`, `token` and `atomic … as old` scope over the rest of their block, or over a block of
//! their own: `let x: f32 = e { … }`.
//!
//! **Sharing.** `with $1 = e, $2 = f($1) in` before a statement (inside the braces of a `compute`) binds
//! subexpressions that the statement uses more than once; they are one shared node in the tree.

mod layout;
mod parse;
mod parse_access;
mod parse_expr;
mod parse_item;
mod parse_literal;
mod parse_module;
mod parse_stmt;
mod print;
mod print_expr;
mod print_module;
mod print_stmt;
mod scope;
mod share;

pub use layout::format;
pub use parse::parse_module;
pub use print::{Ids, print_function, print_function_with, print_module, print_stmt};
pub use print_expr::{print_access, print_expr};
pub use scope::Scope;

/// Words that stand for themselves wherever a name could stand; as names they are quoted.
pub(crate) const RESERVED: &[&str] = &[
    "struct",
    "op",
    "func",
    "derivative",
    "global",
    "extern",
    "in",
    "let",
    "alloc",
    "for",
    "if",
    "else",
    "while",
    "seq",
    "check",
    "assume",
    "barrier",
    "prefetch",
    "token",
    "async",
    "wait",
    "call",
    "compute",
    "atomic",
    "with",
    "and",
    "or",
    "true",
    "false",
    "inf",
    "nan",
];

/// How deep brackets and blocks may nest, so that no text exhausts the stack.
pub(crate) const MAX_DEPTH: usize = 256;

/// How many scopes that reach to the end of their block (`let`, `alloc`, `token`, `atomic`) may be open at once:
/// each is a level of the tree.
pub(crate) const MAX_SCOPES: usize = 4096;

/// How high an expression may be (chains of operators included).
pub(crate) const MAX_HEIGHT: u32 = 4000;

/// Whether a name can stand without backquotes.
pub(crate) fn is_plain_name(name: &str) -> bool {
    let segment = |s: &str| {
        s.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && s.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    name.split('.').all(segment) && !RESERVED.contains(&name)
}
