//! Rules that say how: from high-level to low-level primitives.

use super::{SHAPE, size};
use crate::facts::Fact;
use crate::language;
use crate::make;
use crate::nat::Nat;
use crate::prim::{FoldKind, LEVELS, MapKind, Prim};
use crate::term::Term;
use crate::types::Type;
use lathe_ir::{Name, Space};
use lathe_strategy::{StepArg, Vocabulary, Why};

pub(super) fn add(v: &mut Vocabulary<Term>) {
    // Each matches the bare primitive, so that it can be placed with `isMap`.
    let kinds = [
        ("toMapSeq", MapKind::Seq),
        ("parallel", MapKind::Cpu),
        ("toMapCpu", MapKind::Cpu),
        ("toMapUnroll", MapKind::Unroll),
    ];
    for (name, kind) in kinds {
        v.rule(name, move |t, _, _| to_kind(t, &kind));
    }
    for (name, level) in LEVELS {
        let rule = format!("to{}{}", &name[..1].to_uppercase(), &name[1..]);
        v.rule(&rule, move |t, _, _| to_kind(t, &MapKind::Level(Name::from(level))));
    }
    v.rule("toReduceSeq", |t, _, _| match t.as_prim() {
        Some(Prim::Reduce(FoldKind::High, s)) => Ok(retyped(Prim::Reduce(FoldKind::Seq, *s), t)),
        _ => Err(SHAPE),
    });
    v.rule("toScanSeq", |t, _, _| match t.as_prim() {
        Some(Prim::Scan(FoldKind::High)) => Ok(retyped(Prim::Scan(FoldKind::Seq), t)),
        _ => Err(SHAPE),
    });
    v.rule("toIterateSeq", |t, _, _| match t.as_prim() {
        Some(Prim::Iterate(n, FoldKind::High)) => Ok(retyped(Prim::Iterate(n.clone(), FoldKind::Seq), t)),
        _ => Err(SHAPE),
    });
    // `map` or a reduction of constant length, written out
    v.rule("unroll", |t, _, _| {
        let arity = t.as_prim().map_or(0, Prim::arity);
        let mut ty = t.ty();
        for _ in 1..arity {
            ty = ty.as_fun().map_or(ty, |f| f.1);
        }
        let length = ty.as_fun().and_then(|f| make::elements(f.0));
        let p = match t.as_prim() {
            Some(Prim::Map(MapKind::High | MapKind::Seq)) => Prim::Map(MapKind::Unroll),
            Some(Prim::Reduce(FoldKind::High | FoldKind::Seq, s)) => Prim::Reduce(FoldKind::Unroll, *s),
            _ => return Err(SHAPE),
        };
        match length {
            Some((n, _)) if n.as_constant().is_some() => Ok(retyped(p, t)),
            Some((n, _)) => Err(Why::Condition(format!("`{n}` is no constant length"))),
            None => Err(SHAPE),
        }
    });
    // map(f) = asVector(n) >> map(mapVec(f)) >> asScalar, for f from elements to elements
    v.rule("vectorize", |t, state, args| vectorize(t, &size(args, 0)?, state));
    // map(f) = mapVec(n, f), for arrays of any length
    v.rule("vectorizeMasked", |t, _, args| {
        let n = size(args, 0)?;
        let p = match t.as_prim() {
            Some(Prim::Map(MapKind::High | MapKind::Seq)) => Prim::MapVec(Some(n.clone())),
            _ => return Err(SHAPE),
        };
        match n.as_constant() {
            Some(1..=4096) => Ok(retyped(p, t)),
            _ => Err(Why::Condition(format!("a vector of {n} lanes"))),
        }
    });
    // e = map(|x| x, e): a copy, for reductions and starts that must be written to an array
    v.rule("copyByMap", |t, _, _| {
        if !matches!(t.ty().kind(), crate::types::TypeKind::Array(..)) {
            return Err(SHAPE);
        }
        copy(&MapKind::Seq, t).ok_or(SHAPE)
    });
    // e = toMem(space, e, |x| x)
    v.rule("storeIn", |t, _, args| {
        let space = space(args)?;
        if !t.ty().is_data() {
            return Err(SHAPE);
        }
        let ty = t.ty().clone();
        let same = make::lam("x", ty.clone(), |x| x);
        Ok(make::applied(Prim::ToMem(space), &[t.clone(), same], ty))
    });
    // Where the accumulator of a reduction is kept.
    v.rule("accumulateIn", |t, _, args| match t.as_prim() {
        Some(Prim::Reduce(k @ (FoldKind::Seq | FoldKind::Unroll), _)) => {
            Ok(retyped(Prim::Reduce(*k, Some(space(args)?)), t))
        }
        _ => Err(SHAPE),
    });
    // a * b + c = fma(a, b, c): one rounding
    v.rule("useFma", |t, _, _| {
        use lathe_ir::{BinOp, MathFn};
        let (p, args) = t.spine().ok_or(SHAPE)?;
        let (Prim::Binary(BinOp::Add), [x, y]) = (p, args.as_slice()) else { return Err(SHAPE) };
        if !t.ty().as_scalar().is_some_and(lathe_ir::Scalar::is_float) {
            return Err(Why::Shape("not floats"));
        }
        for (product, other) in [(y, x), (x, y)] {
            if let Some((Prim::Binary(BinOp::Mul), ab)) = product.spine()
                && let [a, b] = ab.as_slice()
            {
                let args = [(*a).clone(), (*b).clone(), (*other).clone()];
                return Ok(make::applied(Prim::Math(MathFn::Fma), &args, t.ty().clone()));
            }
        }
        Err(SHAPE)
    });
}

fn space(args: &[StepArg]) -> Result<Space, Why> {
    let name = args.first().map(|a| a.value.to_string()).unwrap_or_default();
    Space::from_name(&name).ok_or_else(|| Why::Mistake(format!("`{name}` is no space")))
}

fn retyped(p: Prim, t: &Term) -> Term {
    Term::prim(p, t.ty().clone()).with_places(t.places().clone())
}

fn to_kind(t: &Term, kind: &MapKind) -> Result<Term, Why> {
    match t.as_prim() {
        Some(Prim::Map(k)) if *k != *kind && matches!(k, MapKind::High | MapKind::Seq) => {
            Ok(retyped(Prim::Map(kind.clone()), t))
        }
        _ => Err(SHAPE),
    }
}

/// A copy of an array, by maps down to its elements.
pub fn copy(kind: &MapKind, xs: &Term) -> Option<Term> {
    let (_, elem) = make::elements(xs.ty())?;
    let f = match elem.kind() {
        crate::types::TypeKind::Array(..) => {
            let inner = copy(kind, &Term::bound(0, elem.clone()))?;
            Term::lam("x", elem, inner)
        }
        _ => make::lam("x", elem, |x| x),
    };
    make::map(kind, f, xs.clone())
}

fn vectorize(t: &Term, n: &Nat, state: &mut language::TermState) -> Result<Term, Why> {
    if !matches!(n.as_constant(), Some(1..=4096)) {
        return Err(Why::Condition(format!("a vector of {n} lanes")));
    }
    let (f, from, xs) = match (t.as_map(), t.as_app()) {
        (Some((MapKind::High | MapKind::Seq, f, xs)), _) => (f, xs.ty().clone(), Some(xs)),
        (None, Some((m, f))) => match (m.as_prim(), t.ty().as_fun()) {
            (Some(Prim::Map(MapKind::High | MapKind::Seq)), Some((from, _))) => (f, from.clone(), None),
            _ => return Err(SHAPE),
        },
        _ => return Err(SHAPE),
    };
    if !language::is_scalar_function(f) {
        return Err(Why::Condition("the function is not one from elements to elements".to_string()));
    }
    let (length, elem) = make::elements(&from).ok_or(SHAPE)?;
    state.need(Fact::Divides(n.clone(), length.clone()))?;
    let to = f.ty().as_fun().ok_or(SHAPE)?.1.clone();
    let build = |f: Term, xs: Term| -> Option<Term> {
        let count = length.floor_div(n);
        let vector = Type::vector(n.clone(), elem.clone());
        let vectors = make::applied(Prim::AsVector(n.clone()), &[xs], Type::array(count, vector.clone()));
        let g = f.shift(1);
        let lanes = make::lam("v", vector, |v| {
            make::applied(Prim::MapVec(None), &[g, v], Type::vector(n.clone(), to.clone()))
        });
        let mapped = make::map(&MapKind::High, lanes, vectors)?;
        Some(make::applied(Prim::AsScalar, &[mapped], Type::array(length.clone(), to.clone())))
    };
    match xs {
        Some(xs) => build(f.clone(), xs.clone()).ok_or(SHAPE),
        None => {
            let body = build(f.shift(1), Term::bound(0, from.clone())).ok_or(SHAPE)?;
            Ok(Term::lam("xs", from, body))
        }
    }
}
