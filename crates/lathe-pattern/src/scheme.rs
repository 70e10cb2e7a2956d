//! The types of the primitives, with fresh unknowns for what each use may choose.

use crate::facts::Fact;
use crate::nat::Nat;
use crate::parse::{parse_nat, parse_type_over};
use crate::prim::{FoldKind, Prim};
use crate::solve::{Class, Solver};
use crate::types::{Type, TypeKind};
use lathe_ir::{BinOp, MathFn, Name, UnOp};
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

/// A primitive's type as text: `a` and `b` are any data, `n` and `m` any sizes, `p` and `q` the primitive's own sizes.
/// Behind `where` stands what the sizes must satisfy. None: it depends on more than the text can say.
fn text(p: &Prim) -> Option<&'static str> {
    Some(match p {
        Prim::Cast(_) | Prim::Tuple(_) | Prim::Proj(..) => return None,
        Prim::Id | Prim::Unary(_) => "a -> a",
        Prim::Binary(op) if op.is_comparison() => "a -> a -> bool",
        Prim::Binary(_) => "a -> a -> a",
        Prim::Math(f) => ["a", "a -> a", "a -> a -> a", "a -> a -> a -> a"].get(f.arity())?,
        Prim::Select => "bool -> a -> a -> a",
        Prim::NatValue(_) => "index",
        Prim::AsIndex(_) => "index -> idx<p>",

        Prim::Map(_) | Prim::MapVec(Some(_)) => "(a -> b) -> a[n] -> b[n]",
        Prim::MapVec(None) => "(a -> b) -> vector<a, n> -> vector<b, n>",
        Prim::Reduce(FoldKind::High, _) => "(a -> a -> a) -> a -> a[n] -> a",
        Prim::Reduce(..) => "(a -> b -> a) -> a -> b[n] -> a",
        Prim::Scan(FoldKind::High) => "(a -> a -> a) -> a -> a[n] -> a[n]",
        Prim::Scan(_) => "(a -> b -> a) -> a -> b[n] -> a[n]",
        Prim::Iterate(..) => "(a -> a) -> a -> a where 0 <= p",

        Prim::Zip => "a[n] -> b[n] -> (a, b)[n]",
        Prim::Unzip => "(a, b)[n] -> (a[n], b[n])",
        Prim::Split(_) => "a[n*p] -> a[n, p] where 1 <= p",
        Prim::Join => "a[n, m] -> a[n*m]",
        Prim::Transpose => "a[n, m] -> a[m, n]",
        // The last window ends where the array does.
        Prim::Slide(..) => "a[n*q + p - q] -> a[n, p] where 1 <= q, 0 <= n",
        Prim::Pad(..) => "a[n] -> a[p + n + q] where 0 <= p, 0 <= q",
        Prim::PadValue(..) => "a -> a[n] -> a[p + n + q] where 0 <= p, 0 <= q",
        Prim::PadWith(..) => "(index -> index -> a) -> a[n] -> a[p + n + q] where 0 <= p, 0 <= q",
        Prim::Take(_) => "a[p + n] -> a[p] where 0 <= n, 0 <= p",
        Prim::Drop(_) => "a[p + n] -> a[n] where 0 <= n, 0 <= p",
        Prim::Concat => "a[n] -> a[m] -> a[n + m]",
        Prim::Gather => "(idx<n> -> idx<m>) -> a[m] -> a[n]",
        Prim::Scatter => "(idx<n> -> idx<n>) -> a[n] -> a[n]",
        Prim::Reorder => "(idx<n> -> idx<n>) -> (idx<n> -> idx<n>) -> a[n] -> a[n]",
        Prim::Generate(_) => "(idx<p> -> a) -> a[p] where 0 <= p",
        Prim::At => "idx<n> -> a[n] -> a",
        Prim::AtNat(_) => "a[n] -> a where 0 <= p, p + 1 <= n",

        Prim::AsVector(_) => "a[n*p] -> vector<a, p>[n] where 1 <= p",
        Prim::AsScalar => "vector<a, m>[n] -> a[n*m]",
        Prim::VectorFromScalar(_) => "a -> vector<a, p>",

        Prim::Let | Prim::ToMem(_) => "a -> (a -> b) -> b",
        Prim::CircularBuffer(..) => "(a -> b) -> a[n + q - 1] -> b[n, q] where q <= p",
        Prim::RotateValues(_) => "(a -> a) -> a[n + p - 1] -> a[n, p]",
    })
}

/// What `a` may become.
fn class(p: &Prim) -> Class {
    use BinOp::*;
    match p {
        Prim::Unary(UnOp::Not) | Prim::Binary(And | Or | Xor) => Class::Logical,
        Prim::Binary(FloorDiv | FloorMod | TruncDiv | TruncRem | Shl | Shr) => Class::Integer,
        Prim::Binary(Eq | Ne) => Class::Scalar,
        Prim::Unary(UnOp::Neg) | Prim::Math(MathFn::Abs) => Class::Number,
        Prim::Binary(Add | Sub | Mul | Min | Max | Lt | Le | Gt | Ge) => Class::Number,
        Prim::Binary(Div) | Prim::Math(_) => Class::Float,
        _ => Class::Data,
    }
}

/// A text that was read, with how many of `n`, `m` and of `a`, `b` there are.
struct Scheme {
    ty: Type,
    facts: Vec<Fact>,
    sizes: usize,
    data: usize,
}

thread_local! {
    /// Texts are read once in every thread: types of primitives are asked for at each place that uses one.
    static READ: RefCell<HashMap<&'static str, Rc<Scheme>>> = RefCell::default();
}

fn read(text: &str) -> Scheme {
    let (ty, facts) = text.split_once(" where ").unwrap_or((text, ""));
    let ty = parse_type_over(&["a", "b"].map(Name::from), ty).unwrap_or_else(|e| panic!("`{text}`: {e}"));
    let size = |t: &str| parse_nat(t).unwrap_or_else(|e| panic!("`{text}`: {e}"));
    let facts = facts.split(", ").filter_map(|f| f.split_once(" <= "));
    let facts = facts.map(|(low, high)| Fact::AtMost(size(low), size(high))).collect();
    let sizes = ty.sizes();
    let sizes =
        ["n", "m"].iter().filter(|v| sizes.iter().any(|n| n.vars().iter().any(|u| **u == ***v))).count();
    let data = ["a", "b"].iter().filter(|v| ty.mentions(v)).count();
    Scheme { ty, facts, sizes, data }
}

/// One instance of a primitive's type. What its sizes must satisfy becomes an obligation of the solver.
pub fn scheme(p: &Prim, s: &mut Solver) -> Type {
    let Some(text) = text(p) else { return of_parts(p, s) };
    let scheme = READ.with_borrow_mut(|all| all.entry(text).or_insert_with(|| Rc::new(read(text))).clone());
    let (class, own) = (class(p), p.nats());
    let sizes: Vec<Nat> = (0..scheme.sizes).map(|_| s.nat()).collect();
    let data: Vec<Type> = (0..scheme.data).map(|_| s.ty(class)).collect();
    let size = |v: &Name| match &**v {
        "p" => own.first().copied().cloned(),
        "q" => own.get(1).copied().cloned(),
        v => sizes.get(usize::from(v == "m")).cloned(),
    };
    for f in &scheme.facts {
        s.oblige(f.replace_vars(&size));
    }
    scheme.ty.map(&mut |n| n.replace_vars(&size), &mut |leaf| match leaf.kind() {
        TypeKind::Var(v) => data.get(usize::from(&**v == "b")).cloned(),
        _ => None,
    })
}

/// The types of what a text cannot say.
fn of_parts(p: &Prim, s: &mut Solver) -> Type {
    let mut parts = |n: usize| (0..n).map(|_| s.data()).collect::<Vec<Type>>();
    match p {
        Prim::Tuple(n) => {
            let parts = parts(*n);
            Type::funs(parts.clone(), Type::tuple(parts))
        }
        Prim::Proj(i, n) => {
            let parts = parts(*n);
            let to = parts.get(*i).cloned().unwrap_or_else(|| s.data());
            Type::fun(Type::tuple(parts), to)
        }
        Prim::Cast(to) => Type::fun(s.ty(Class::Single), Type::scalar(*to)),
        _ => s.ty(Class::Any),
    }
}
