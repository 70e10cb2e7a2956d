//! Rules that say how: from high-level to low-level primitives.

use super::{SHAPE, size};
use crate::facts::Fact;
use crate::language;
use crate::make;
use crate::nat::Nat;
use crate::prim::{FoldKind, LEVELS, MapKind, Prim};
use crate::term::{Term, TermKind};
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
            Some((n, _)) => Err(Why::Condition(format!("`{n}` is not a constant length"))),
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
    // Copies where an array that is not made there must be written.
    v.rule("writeCopies", |t, _, _| Ok(written(t, None)));
    // `map(f)` that computes: a loop; one that does not stays a view.
    v.rule("lowerMap", |t, _, _| match t.as_app() {
        Some((m, f)) if matches!(m.as_prim(), Some(Prim::Map(MapKind::High))) && language::computes(f) => {
            Ok(t.with_child(0, to_kind(m, &MapKind::Seq)?))
        }
        _ => Err(SHAPE),
    });
    // What a loop reads and another loop makes goes through memory.
    v.rule("storeIntermediate", |t, _, args| store_intermediate(t, space(args)?));
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
    Space::from_name(&name).ok_or_else(|| Why::Mistake(format!("`{name}` is not a space")))
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
        return Err(Why::Condition("the function does not map elements to elements".to_string()));
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

/// A term whose result is written to memory, with copies for what is only read. `acc`: the variable whose
/// value the place holds, inside of an operator.
fn written(t: &Term, acc: Option<u32>) -> Term {
    let under = |t: &Term| -> Term {
        match t.kind() {
            TermKind::Lam(_, b) => t.with_child(0, written(b, acc.map(|a| a + 1))),
            _ => t.clone(),
        }
    };
    if let TermKind::Lam(..) = t.kind() {
        return under(t);
    }
    let is_acc = |t: &Term| acc.is_some() && variable_of(t) == acc;
    if let Some((p, args)) = t.spine()
        && args.len() == p.arity()
        && !args.is_empty()
    {
        let rebuild = |change: &dyn Fn(usize, &Term) -> Term| {
            let new = args.iter().enumerate().map(|(n, a)| change(n, a));
            let mut head = t;
            while let Some((f, _)) = head.as_app() {
                head = f;
            }
            Term::apps(head.clone(), new).with_places(t.places().clone())
        };
        let last = args.len() - 1;
        match p {
            Prim::Map(MapKind::High) if !language::computes(args[0]) && makes(args[1]) => {
                return rebuild(&|n, a| if n == 1 { written(a, None) } else { a.clone() });
            }
            Prim::Map(MapKind::High) if !language::computes(args[0]) => {}
            Prim::Map(_) | Prim::MapVec(_) => {
                // Element-wise over the accumulator: the element's first part is the place's value.
                let elements = match args[1].spine() {
                    Some((Prim::Zip, sides)) if sides.first().is_some_and(|s| is_acc(s)) => Some(0),
                    _ => is_acc(args[1]).then_some(0),
                };
                return rebuild(&|n, a| if n == 0 { inner(a, 1, elements) } else { reading(a) });
            }
            Prim::Generate(_) => return rebuild(&|_, a| inner(a, 1, None)),
            Prim::Reduce(..) | Prim::Scan(_) => {
                let in_place = is_acc(args[1]) && !matches!(p, Prim::Scan(_));
                let reduced = rebuild(&|n, a| match n {
                    0 => inner(a, 2, Some(1)),
                    1 if !in_place => written(a, None),
                    1 => a.clone(),
                    _ => reading(a),
                });
                let array = matches!(t.ty().kind(), crate::types::TypeKind::Array(..));
                let copied = array && !in_place && !matches!(p, Prim::Scan(_));
                return copied.then(|| copy(&MapKind::Seq, &reduced)).flatten().unwrap_or(reduced);
            }
            Prim::Iterate(..) => {
                return rebuild(&|n, a| if n == 0 { inner(a, 1, None) } else { reading(a) });
            }
            Prim::Let | Prim::ToMem(_) => {
                return rebuild(&|n, a| match n {
                    1 => under(a),
                    _ if *p == Prim::Let => reading(a),
                    _ => written(a, None),
                });
            }
            Prim::Tuple(_) if !t.ty().is_element() => return rebuild(&|_, a| written(a, None)),
            Prim::Join
            | Prim::Split(_)
            | Prim::Transpose
            | Prim::AsVector(_)
            | Prim::AsScalar
            | Prim::Unzip
            | Prim::Id
            | Prim::Scatter
            | Prim::Reorder
                if makes(args[last]) =>
            {
                return rebuild(&|n, a| if n == last { written(a, None) } else { a.clone() });
            }
            Prim::Concat if args.iter().any(|a| makes(a)) => return rebuild(&|_, a| written(a, None)),
            Prim::Select if !t.ty().is_element() => {
                return rebuild(&|n, a| if n > 0 { written(a, acc) } else { a.clone() });
            }
            _ => {}
        }
    }
    if matches!(t.ty().kind(), crate::types::TypeKind::Array(..)) {
        let t = &reading(t);
        return copy(&MapKind::Seq, t).unwrap_or_else(|| t.clone());
    }
    number_inside(t)
}

/// A term that is read: arrays that loops make inside of it are written somewhere, once they are stored.
fn reading(t: &Term) -> Term {
    let Some((p, args)) = t.spine().filter(|s| s.1.len() == s.0.arity() && !s.1.is_empty()) else {
        return t.clone();
    };
    let view = match p {
        Prim::Map(MapKind::High) => !language::computes(args[0]),
        p => p.is_layout(),
    };
    let mut out = t.clone();
    if view {
        // Data arguments alone.
        let mut path = Vec::new();
        for a in args.iter().rev() {
            path.push(1);
            if a.ty().is_data() && !a.ty().is_element() {
                out = lathe_strategy::rewrite::replace_at(&out, &path, &reading(a));
            }
            path.pop();
            path.push(0);
        }
        return out;
    }
    match p {
        // An accumulator is read where it is.
        Prim::Reduce(..) if matches!(t.ty().kind(), crate::types::TypeKind::Array(..)) => {
            match written(t, None).as_map() {
                Some((_, _, reduced)) => reduced.clone(),
                None => out,
            }
        }
        Prim::CircularBuffer(..) | Prim::RotateValues(_) => {
            let (loaded, xs) = (inner(args[0], 1, None), reading(args[1]));
            let out = lathe_strategy::rewrite::replace_at(&out, &[1], &xs);
            lathe_strategy::rewrite::replace_at(&out, &[0, 1], &loaded)
        }
        Prim::Map(_)
        | Prim::MapVec(_)
        | Prim::Scan(_)
        | Prim::Iterate(..)
        | Prim::Reduce(..)
        | Prim::Let
        | Prim::ToMem(_) => written(t, None),
        _ => out,
    }
}

/// The variable of which a term is a part.
fn variable_of(t: &Term) -> Option<u32> {
    match t.kind() {
        TermKind::Bound(i) => Some(*i),
        TermKind::App(f, a) if matches!(f.as_prim(), Some(Prim::Proj(..))) => variable_of(a),
        _ => None,
    }
}

/// Numbers are not arrays to copy, but reductions inside of them have operators that are written.
fn number_inside(t: &Term) -> Term {
    let TermKind::App(f, a) = t.kind() else { return t.clone() };
    let mut out = t.clone();
    let g = number_inside(f);
    if !g.ptr_eq(f) {
        out = out.with_child(0, g);
    }
    if a.ty().is_element() {
        let b = written(a, None);
        if !b.ptr_eq(a) {
            out = out.with_child(1, b);
        }
    }
    out
}

/// The body of a function of so many arguments; `acc` counts from inside.
fn inner(f: &Term, arguments: usize, acc: Option<u32>) -> Term {
    match (f.kind(), arguments) {
        (_, 0) => written(f, acc),
        (TermKind::Lam(_, b), n) => f.with_child(0, inner(b, n - 1, acc)),
        _ => f.clone(),
    }
}

/// Whether an array is made by a loop: views of what is made are, too.
fn makes(t: &Term) -> bool {
    t.spine().is_some_and(|(p, args)| {
        args.len() == p.arity()
            && match p {
                Prim::Map(MapKind::High) => language::computes(args[0]) || makes(args[1]),
                Prim::Map(_) | Prim::MapVec(Some(_)) | Prim::Scan(_) | Prim::Iterate(..) => true,
                Prim::Reduce(..) | Prim::ToMem(_) | Prim::Let => true,
                Prim::Generate(_) | Prim::At | Prim::AtNat(_) => false,
                _ => p.is_layout() && args.iter().any(|a| a.ty().is_data() && makes(a)),
            }
    })
}

/// The sub-term in a chain of layout stages that a loop makes, and which is not an accumulator.
fn made(t: &Term) -> Option<&Term> {
    let (p, args) = t.spine()?;
    if args.len() != p.arity() {
        return None;
    }
    match p {
        Prim::Map(MapKind::High) if !language::computes(args[0]) => made(args[1]),
        Prim::Reduce(..) if !t.ty().is_element() => Some(t),
        Prim::Map(_) | Prim::MapVec(Some(_)) | Prim::Scan(_) | Prim::Iterate(..) => Some(t),
        Prim::ToMem(_) | Prim::Let if !t.ty().is_element() => Some(t),
        Prim::Generate(_) => None,
        _ if p.is_layout() => args.into_iter().filter(|a| a.ty().is_data()).find_map(made),
        _ => None,
    }
}

fn store_intermediate(t: &Term, space: Space) -> Result<Term, Why> {
    let (p, args) = t.spine().filter(|s| s.1.len() == s.0.arity() && !s.1.is_empty()).ok_or(SHAPE)?;
    // A loop that has a name is stored under it.
    if let (Prim::Let, [e, f]) = (p, args.as_slice()) {
        if made(e).is_none() {
            return Err(Why::Shape("not an array that a loop computes"));
        }
        let ty = t.ty().clone();
        return Ok(make::applied(Prim::ToMem(space), &[(*e).clone(), (*f).clone()], ty));
    }
    let reads = match p {
        Prim::Map(MapKind::High) => language::computes(args[0]),
        Prim::Map(_) | Prim::MapVec(_) | Prim::Reduce(..) | Prim::Scan(_) | Prim::Iterate(..) => true,
        Prim::At | Prim::AtNat(_) => true,
        _ => false,
    };
    if !reads {
        return Err(SHAPE);
    }
    let last = args[args.len() - 1];
    let made = made(last).ok_or(Why::Shape("not an array that another loop computed"))?.clone();
    // The argument with a variable in place of what is stored.
    fn replaced(t: &Term, what: &Term, by: &Term) -> Term {
        if t == what {
            return by.clone();
        }
        let mut out = t.clone();
        if let TermKind::App(f, a) = t.kind() {
            let (g, b) = (replaced(f, what, by), replaced(a, what, by));
            if !b.ptr_eq(a) {
                out = out.with_child(1, b);
            }
            if !g.ptr_eq(f) {
                out = out.with_child(0, g);
            }
        }
        out
    }
    let x = Term::bound(0, made.ty().clone());
    let body = t.shift(1);
    let shifted = last.shift(1);
    let body = body.with_child(1, replaced(&shifted, &made.shift(1), &x));
    let f = Term::lam("stored", made.ty().clone(), body);
    let ty = t.ty().clone();
    Ok(make::applied(Prim::ToMem(space), &[made, f], ty))
}
