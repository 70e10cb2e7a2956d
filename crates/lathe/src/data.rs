//! Arguments of a run: sizes from `-D` and from given arrays, inputs from files, the rest random.

use crate::codes;
use lathe_diagnostics::Diagnostic;
use lathe_ir::interp::evaluate;
use lathe_ir::stmt::AccessMode;
use lathe_ir::visit::{loads_of, substitute, vars_of, walk};
use lathe_ir::{
    Access, Arg, BinOp, Binder, BufId, Expr, ExprKind, Function, Mode, Module, ParamKind, Scalar, StmtKind,
    Type, VarId, View,
};
use lathe_model::count::Values;
use lathe_poly::sizes::Equation;
use lathe_runtime::array::alike;
use lathe_runtime::{Array, npy};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

/// What the user gave: `-D` values, `--input` values (a `.npy` file, or a number for a scalar), a seed.
#[derive(Clone, Debug, Default)]
pub struct Given {
    pub sizes: BTreeMap<String, i64>,
    pub inputs: BTreeMap<String, String>,
    pub seed: u64,
}

/// One array per parameter, in the function's order.
#[derive(Debug)]
pub struct Data {
    pub arrays: Vec<Array>,
    pub sizes: Values,
    /// Random inputs, and how they were drawn.
    pub made: BTreeMap<String, String>,
}

impl Data {
    /// The sizes by name.
    pub fn named_sizes(&self, func: &Function) -> BTreeMap<String, i64> {
        let name = |b: &Binder| Some((b.name.to_string(), *self.sizes.get(&b.id)?));
        func.sizes.iter().filter_map(name).collect()
    }

    /// Gives the arrays that a function changes the content that they have in another set.
    pub fn restore(&mut self, func: &Function, from: &Data) {
        for ((a, b), p) in self.arrays.iter_mut().zip(&from.arrays).zip(&func.params) {
            if p.mode == Mode::InOut {
                a.bytes_mut().copy_from_slice(b.bytes());
            }
        }
    }

    /// Makes what a function writes other than any result, so that what it does not write is seen.
    pub fn spoil(&mut self, func: &Function) {
        for (a, p) in self.arrays.iter_mut().zip(&func.params) {
            if p.mode == Mode::Out {
                a.bytes_mut().iter_mut().for_each(|b| *b = !*b);
            }
        }
    }

    /// Another set of arrays with the same content.
    ///
    /// # Errors
    /// When memory is short.
    pub fn duplicate(&self) -> Result<Data, Diagnostic> {
        let arrays = self.arrays.iter().map(Array::duplicate).collect::<Result<_, _>>()?;
        Ok(Data { arrays, sizes: self.sizes.clone(), made: self.made.clone() })
    }
}

/// The sizes that `-D` gives, checked against the function's.
///
/// # Errors
/// `E0904` for an unknown or negative size.
pub fn given_sizes(func: &Function, given: &BTreeMap<String, i64>) -> Result<Values, Diagnostic> {
    let mut values = Values::new();
    for (name, v) in given {
        let Some(b) = func.size(name).or_else(|| scalar_index(func, name)) else {
            let names: Vec<&str> = func.sizes.iter().map(|b| &*b.name).collect();
            return Err(Diagnostic::error(codes::SIZES, format!("`{}` has no size `{name}`", func.name))
                .help(format!("its sizes: {}", names.join(", "))));
        };
        if *v < 0 && func.size(name).is_some() {
            return Err(Diagnostic::error(codes::SIZES, format!("the size {name} = {v} is negative")));
        }
        values.insert(b.id, *v);
    }
    Ok(values)
}

fn scalar_index<'a>(func: &'a Function, name: &str) -> Option<&'a Binder> {
    func.params.iter().find_map(|p| match &p.kind {
        ParamKind::Scalar(b) if &*b.name == name && b.ty.is_int() => Some(b),
        _ => None,
    })
}

/// Reads and makes the arrays of one call.
///
/// # Errors
/// `E0904` for sizes, `E0906` for inputs, and what reading a file says.
pub fn make(func: &Function, given: &Given) -> Result<Data, Diagnostic> {
    make_in(&Module::default(), func, given)
}

/// [`make`] for a function that calls others of a module: what these use as subscripts is drawn as such.
///
/// # Errors
/// As [`make`].
pub fn make_in(module: &Module, func: &Function, given: &Given) -> Result<Data, Diagnostic> {
    let mut sizes = given_sizes(func, &given.sizes)?;
    let mut read: HashMap<usize, Array> = HashMap::new();
    for (name, value) in &given.inputs {
        let found = func.params.iter().position(|p| &**p.name() == name.as_str() && p.mode != Mode::Out);
        let Some(at) = found else {
            let names: Vec<&str> =
                func.params.iter().filter(|p| p.mode != Mode::Out).map(|p| &**p.name()).collect();
            return Err(Diagnostic::error(codes::INPUT, format!("`{}` has no input `{name}`", func.name))
                .help(format!("its inputs: {}", names.join(", "))));
        };
        let single = func.params[at].array().filter(|b| b.extents.is_empty());
        if let Some(a) = single.and_then(|b| crate::convert::complex(&b.elem, value)) {
            read.insert(at, a);
            continue;
        }
        let array = match &func.params[at].kind {
            ParamKind::Scalar(b) => scalar_from(b, value)?,
            ParamKind::Array(buffer) if buffer.extents.is_empty() && value.parse::<f64>().is_ok() => {
                let ty = buffer.elem.scalar().unwrap_or(Scalar::F64);
                number(ty, value).ok_or_else(|| bad_number(name, ty, value))?
            }
            ParamKind::Array(buffer) => {
                let a = npy::read(Path::new(value))?;
                let want = buffer.elem.clone();
                if !alike(a.ty(), &want) || a.shape().len() != buffer.extents.len() {
                    return Err(Diagnostic::error(
                        codes::INPUT,
                        format!(
                            "`{value}` holds {} with {} dimensions, but `{name}` is {} with {}",
                            shown(a.ty()),
                            a.shape().len(),
                            shown(&want),
                            buffer.extents.len()
                        ),
                    )
                    .help("convert the array first, e.g. with numpy's astype and reshape"));
                }
                for (d, e) in buffer.extents.iter().enumerate() {
                    if let Some(v) = e.as_var() {
                        let n = a.shape()[d];
                        let old = *sizes.entry(v).or_insert(n);
                        if old != n {
                            let size = size_name(func, v);
                            return Err(Diagnostic::error(
                                codes::SIZES,
                                format!("dimension {d} of `{name}` is {n}, but {size} is {old}"),
                            )
                            .help("inputs that share a size must agree on it, and with -D"));
                        }
                    }
                }
                a.retyped(&want)
            }
        };
        read.insert(at, array);
    }
    solve(func, &read, &mut sizes);
    let missing: Vec<&str> =
        func.sizes.iter().filter(|b| !sizes.contains_key(&b.id)).map(|b| &*b.name).collect();
    if !missing.is_empty() {
        let example: Vec<String> = missing.iter().map(|n| format!("-D {n}=64")).collect();
        return Err(Diagnostic::error(codes::SIZES, format!("no value for {}", missing.join(", ")))
            .help(format!("give {}, or inputs that determine them", example.join(" "))));
    }
    fits(func, &sizes)?;
    let bounds = subscript_bounds(module, func, &sizes);
    let mut made = BTreeMap::new();
    let mut arrays = Vec::new();
    for (at, p) in func.params.iter().enumerate() {
        let name = p.name().to_string();
        let seed = given.seed
            ^ name
                .bytes()
                .fold(0xcbf2_9ce4_8422_2325u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
        let given_array = read.remove(&at);
        let array = match &p.kind {
            ParamKind::Scalar(b) => match (given_array, sizes.get(&b.id)) {
                (Some(a), _) => a,
                (None, Some(v)) => {
                    number(b.ty, &v.to_string()).ok_or_else(|| bad_number(&name, b.ty, &v.to_string()))?
                }
                (None, None) => {
                    let mut a = Array::zeros(b.ty, &[])?;
                    let below = bounds.scalars.get(&b.id);
                    let how = match below {
                        Some(n) => format!("random subscript below {n}, seed {}", given.seed),
                        None => format!("random, seed {}", given.seed),
                    };
                    if b.ty.is_int() {
                        a.fill_below(seed, below.map_or(8, |n| (*n).max(1) as u64))
                    } else {
                        a.fill_random(seed)
                    }
                    made.insert(name, how);
                    a
                }
            },
            ParamKind::Array(buffer) => {
                let mut shape = Vec::new();
                for e in &buffer.extents {
                    let n = evaluate(e, &sizes).filter(|n| *n >= 0).ok_or_else(|| {
                        Diagnostic::error(
                            codes::SIZES,
                            format!("an extent of `{name}` is negative or does not fit 64 bits"),
                        )
                        .help("choose other sizes: the type of the parameter defines its extents")
                    })?;
                    shape.push(n);
                }
                match given_array {
                    Some(a) if a.shape() == shape => a,
                    Some(a) => {
                        return Err(Diagnostic::error(
                            codes::INPUT,
                            format!(
                                "`{name}` has the shape {:?}, but the sizes require {shape:?}",
                                a.shape()
                            ),
                        ));
                    }
                    None if p.mode == Mode::Out => Array::zeros(buffer.elem.clone(), &shape)?,
                    None => {
                        let mut a = Array::zeros(buffer.elem.clone(), &shape)?;
                        match bounds.arrays.get(&buffer.id) {
                            Some(n) => {
                                a.fill_below(seed, (*n).max(1) as u64);
                                made.insert(
                                    name,
                                    format!("random subscripts below {n}, seed {}", given.seed),
                                );
                            }
                            None => {
                                a.fill_random(seed);
                                made.insert(name, format!("random, seed {}", given.seed));
                            }
                        }
                        a
                    }
                }
            }
        };
        if let ParamKind::Scalar(b) = &p.kind
            && let Some(v) = array.get::<i64>(&[])
        {
            sizes.insert(b.id, v);
        }
        arrays.push(array);
    }
    Ok(Data { arrays, sizes, made })
}

/// The sizes that the extents of given arrays determine besides those that are extents themselves: 12 for `2 * N` is 6.
fn solve(func: &Function, read: &HashMap<usize, Array>, sizes: &mut Values) {
    let extents = || {
        let given = func.params.iter().enumerate().filter_map(|(at, p)| p.array().zip(read.get(&at)));
        given.flat_map(|(buffer, a)| buffer.extents.iter().zip(a.shape().iter().copied()))
    };
    // Each round finds a size, or is the last one.
    while let Some((v, n)) = extents().find_map(|(e, n)| unknown(e, n, sizes)) {
        sizes.insert(v, n);
    }
}

/// The one size of an extent that has no value yet, and the value with which the extent is `n`.
fn unknown(e: &Expr, n: i64, sizes: &Values) -> Option<(VarId, i64)> {
    // `max(e, 0)` is `e` where there is an element.
    let e = match e.kind() {
        ExprKind::Binary(BinOp::Max, a, b) if b.as_int() == Some(0) && n > 0 => a,
        _ => e,
    };
    let equation = Equation::of(e, &|v| sizes.contains_key(&v))?;
    let value = equation.solve(n, sizes);
    let mut with = sizes.clone();
    with.insert(equation.size, value);
    (evaluate(e, &with) == Some(n)).then_some((equation.size, value))
}

/// Refuses arrays that each fit into memory but do not together: memory is only taken when it is written to, so
/// the system would grant them all and end the process later.
fn fits(func: &Function, sizes: &Values) -> Result<(), Diagnostic> {
    let (Some(all), Some(free)) = (lathe_model::count::bytes(func, sizes), lathe_runtime::available_memory())
    else {
        return Ok(());
    };
    // What is read and written counts twice as traffic, once as memory; this is a bound, not an accounting.
    let inout = func.params.iter().any(|p| p.mode == Mode::InOut);
    let least = if inout { all / 2.0 } else { all };
    // Products that overflow are refused where the array is made, with its shape.
    if least <= free as f64 || least > i64::MAX as f64 {
        return Ok(());
    }
    let gib = |bytes: f64| bytes / f64::from(1 << 30);
    Err(Diagnostic::error(
        lathe_runtime::codes::NO_MEMORY,
        format!("no memory for the arrays of `{}`: {:.1} GiB", func.name, gib(least)),
    )
    .note(format!("the machine has {:.1} GiB available", gib(free as f64)))
    .help("use smaller sizes, or a machine with more memory"))
}

fn size_name(func: &Function, v: VarId) -> String {
    func.sizes.iter().find(|b| b.id == v).map_or_else(|| "a size".to_string(), |b| b.name.to_string())
}

fn bad_number(name: &str, ty: Scalar, text: &str) -> Diagnostic {
    Diagnostic::error(
        codes::INPUT,
        format!("`{text}` is not a value of type {ty}, the type of the scalar `{name}`"),
    )
}

fn scalar_from(b: &Binder, text: &str) -> Result<Array, Diagnostic> {
    if let Some(a) = number(b.ty, text) {
        return Ok(a);
    }
    let a = npy::read(Path::new(text))?;
    if alike(a.ty(), &b.ty.into()) && a.shape().is_empty() {
        return Ok(a.retyped(&b.ty.into()));
    }
    let text = format!(
        "`{text}` holds {} with {} dimensions, but `{}` is one {}",
        shown(a.ty()),
        a.shape().len(),
        b.name,
        b.ty
    );
    let help = match a.shape() {
        [] => format!("give a number, or convert the array in the file to `{}`", stored(b.ty)),
        _ => format!("give a number, or a file with a zero-dimensional array of `{}`", stored(b.ty)),
    };
    Err(Diagnostic::error(codes::INPUT, text).help(help))
}

/// What a scalar is called in files of arrays.
fn stored(ty: Scalar) -> String {
    if ty == Scalar::Index { Scalar::I64.to_string() } else { ty.to_string() }
}

/// A type with what its fields are.
fn shown(t: &Type) -> String {
    let list = |names: Vec<String>| {
        let fields = names.iter().zip(t.fields()).map(|(n, f)| format!("{n}: {}", shown(&f)));
        format!("records {{ {} }}", fields.collect::<Vec<_>>().join(", "))
    };
    match t {
        Type::Struct(s) => list(s.fields.iter().map(|f| f.0.to_string()).collect()),
        Type::Tuple(ts) => list((0..ts.len()).map(|n| format!("f{n}")).collect()),
        _ => t.to_string(),
    }
}

/// A 0-dimensional array with the value of a literal.
fn number(ty: Scalar, text: &str) -> Option<Array> {
    let mut a = Array::zeros(ty, &[]).ok()?;
    let bytes = match ty {
        Scalar::Bool => vec![u8::from(text.parse::<bool>().ok()?)],
        Scalar::F32 => text.parse::<f32>().ok()?.to_ne_bytes().to_vec(),
        Scalar::F64 => text.parse::<f64>().ok()?.to_ne_bytes().to_vec(),
        Scalar::F16 => half::f16::from_f64(text.parse().ok()?).to_ne_bytes().to_vec(),
        Scalar::Bf16 => half::bf16::from_f64(text.parse().ok()?).to_ne_bytes().to_vec(),
        Scalar::U64 => text.parse::<u64>().ok()?.to_ne_bytes().to_vec(),
        int => {
            let v: i64 = text.parse().ok()?;
            if lathe_ir::build::wrap(int, v) != v {
                return None;
            }
            v.to_le_bytes()[..int.bytes() as usize].to_vec()
        }
    };
    a.bytes_mut()[..bytes.len()].copy_from_slice(&bytes);
    Some(a)
}

/// What integer inputs must stay below, as far as their use as subscripts tells.
#[derive(Clone, Debug, Default)]
pub struct SubscriptBounds {
    /// For the elements of arrays.
    pub arrays: HashMap<BufId, i64>,
    /// For scalars.
    pub scalars: HashMap<VarId, i64>,
}

impl SubscriptBounds {
    /// What a called function says of what it is given, whole arrays and scalars by name.
    fn of_call(&mut self, f: &Function, args: &[Arg], inner: &SubscriptBounds) {
        for (p, a) in f.params.iter().zip(args) {
            match (&p.kind, a) {
                (ParamKind::Array(b), Arg::View(View::Buffer(own))) => {
                    if let Some(n) = inner.arrays.get(&b.id) {
                        self.arrays.entry(*own).and_modify(|m| *m = (*m).min(*n)).or_insert(*n);
                    }
                }
                (ParamKind::Scalar(b), Arg::Value(e)) => {
                    if let (Some(n), Some(own)) = (inner.scalars.get(&b.id), e.as_var()) {
                        self.scalars.entry(own).and_modify(|m| *m = (*m).min(*n)).or_insert(*n);
                    }
                }
                _ => {}
            }
        }
    }
}

/// Calls are followed this deep.
const CALLS: usize = 8;

/// For integer inputs that are used as subscripts, here or in what is called: the smallest extent that they index.
/// Where a subscript adds loop variables to a scalar, the scalar gets what they leave of the extent.
pub fn subscript_bounds(module: &Module, func: &Function, sizes: &Values) -> SubscriptBounds {
    bounds_below(module, func, sizes, CALLS)
}

fn bounds_below(module: &Module, func: &Function, sizes: &Values, calls: usize) -> SubscriptBounds {
    let mut extents: HashMap<BufId, Vec<Expr>> =
        func.params.iter().filter_map(|p| p.array()).map(|b| (b.id, b.extents.clone())).collect();
    let mut last: HashMap<VarId, Expr> = HashMap::new();
    let mut lets: HashMap<VarId, Expr> = HashMap::new();
    walk(&func.body, &mut |s, _| {
        let one = lathe_ir::build::index(1);
        extents.extend(s.allocated().map(|b| (b.id, b.extents.clone())));
        let dims = s.as_compute().map_or(&[][..], |c| &c.dims).iter().map(|d| (d.binder.id, &d.hi));
        let ranges = s.as_loop().map(|l| (l.binder.id, &l.hi)).into_iter().chain(dims);
        last.extend(ranges.map(|(v, hi)| (v, lathe_ir::build::sub(hi.clone(), one.clone()))));
        lets.extend(s.as_let().map(|(binder, value, _)| (binder.id, value.clone())));
        true
    });
    let scalars: Vec<(VarId, lathe_ir::Scalar)> = func
        .params
        .iter()
        .filter_map(|p| match &p.kind {
            ParamKind::Scalar(b) if b.ty.is_int() => Some((b.id, b.ty)),
            _ => None,
        })
        .collect();
    let mut bounds = SubscriptBounds::default();
    let mut visit = |a: &Access| {
        let Some(of) = a.view.buffer().and_then(|b| extents.get(&b)) else { return };
        for (index, extent) in a.indices.iter().zip(of.iter()) {
            // The largest value, where loops around move the subscript.
            let index = substitute(&substitute(&substitute(index, &lets), &last), &last);
            let Some(n) = evaluate(extent, sizes) else { continue };
            for inner in loads_of(&index) {
                if let Some(b) = inner.view.buffer() {
                    bounds.arrays.entry(b).and_modify(|m| *m = (*m).min(n)).or_insert(n);
                }
            }
            let used = vars_of(&index);
            for (v, ty) in scalars.iter().filter(|(v, _)| used.contains(v)) {
                // What is left of the extent above it, with the scalar at zero.
                let at_zero = HashMap::from([(*v, lathe_ir::build::int(*ty, 0))]);
                let left = evaluate(&substitute(&index, &at_zero), sizes).map_or(n, |t| n - t.max(0));
                bounds.scalars.entry(*v).and_modify(|m| *m = (*m).min(left)).or_insert(left);
            }
        }
    };
    walk(&func.body, &mut |s, _| {
        for e in s.exprs() {
            loads_of(e).iter().for_each(&mut visit);
        }
        s.accesses().filter(|a| a.1 != AccessMode::Prefetch).for_each(|a| visit(a.0));
        true
    });
    walk(&func.body, &mut |s, _| {
        if let StmtKind::Call { function, args } = s.kind()
            && let Some(f) = module.functions.get(function).filter(|_| calls > 0)
        {
            // The called function reads its sizes off its arrays.
            let mut known = Values::new();
            for (p, a) in f.params.iter().zip(args) {
                let Arg::View(View::Buffer(own)) = a else { continue };
                let own = extents.get(own).map_or(&[][..], Vec::as_slice);
                for (e, n) in p.array().map_or(&[][..], |b| &b.extents).iter().zip(own) {
                    known.extend(e.as_var().zip(evaluate(n, sizes)));
                }
            }
            bounds.of_call(f, args, &bounds_below(module, f, &known, calls - 1));
        }
        true
    });
    bounds
}
