//! What a call must know of a kernel's parameters, prepared so that it costs little.

use lathe::ir::{BinOp, Expr, ExprKind, Function, Mode, ParamKind, Scalar, Type, VarId};
use lathe::poly::sizes::{SizeSource, likely_sources};
use lathe_abi::dtype;

/// One parameter.
pub struct Param {
    pub name: String,
    pub mode: Mode,
    pub ty: Type,
    /// The ABI's code of the element type.
    pub dtype: u32,
    /// Size of one element in bytes.
    pub bytes: i64,
    /// A value instead of an array.
    pub scalar: Option<Scalar>,
    pub rank: usize,
    /// What the extents are, for results that are made by the call.
    extents: Vec<Extent>,
}

/// An extent over what the arguments tell.
enum Extent {
    Number(i64),
    /// A size, by its position in the signature.
    Size(usize),
    /// The value of a scalar parameter.
    Value(usize),
    Binary(BinOp, Box<Extent>, Box<Extent>),
    /// Nothing that the inputs tell.
    Unknown,
}

impl Extent {
    fn formula(&self) -> Option<String> {
        Some(match self {
            Extent::Number(v) => format!("({v})"),
            Extent::Size(i) => format!("s[{i}]"),
            Extent::Value(p) => format!("v[{p}]"),
            Extent::Unknown => return None,
            Extent::Binary(op, a, b) => {
                let (x, y) = (a.formula()?, b.formula()?);
                match op {
                    BinOp::Add => format!("({x} + {y})"),
                    BinOp::Sub => format!("({x} - {y})"),
                    BinOp::Mul => format!("({x} * {y})"),
                    BinOp::FloorDiv => format!("({x} // {y})"),
                    BinOp::FloorMod => format!("({x} % {y})"),
                    BinOp::Min => format!("min({x}, {y})"),
                    BinOp::Max => format!("max({x}, {y})"),
                    _ => return None,
                }
            }
        })
    }
}

/// Where a size is read: the extent of a dimension is `times * size + plus`, and multiples of sizes that are read
/// elsewhere.
#[derive(Clone)]
pub struct Source {
    pub param: usize,
    pub dim: usize,
    times: i64,
    plus: i64,
    others: Vec<(usize, i64)>,
}

/// How a size is read: name, parameter, dimension, times, plus, multiples of earlier sizes.
pub type SizeRule = (String, usize, usize, i64, i64, Vec<(usize, i64)>);

/// The parameters of a kernel.
pub struct Signature {
    pub params: Vec<Param>,
    /// Positions of those that a call is given, in order.
    pub inputs: Vec<usize>,
    /// Positions of those that it returns.
    pub outputs: Vec<usize>,
    /// Name of each size that the inputs tell, and where it is read.
    pub sizes: Vec<(String, Source)>,
}

impl Signature {
    pub fn of(f: &Function) -> Signature {
        let values: Values = (f.params.iter().enumerate())
            .filter_map(|(at, p)| match &p.kind {
                ParamKind::Scalar(b) => Some((b.id, at)),
                ParamKind::Array(_) => None,
            })
            .collect();
        let sizes = sources(f);
        let name = |id: &VarId| f.sizes.iter().find(|s| s.id == *id).map(|s| s.name.to_string());
        let names = sizes.iter().map(|(id, s)| (name(id).unwrap_or_default(), s.clone())).collect();
        let param = |p: &lathe::ir::Param| {
            let (ty, scalar, extents) = match &p.kind {
                ParamKind::Scalar(b) => (Type::Scalar(b.ty), Some(b.ty), Vec::new()),
                ParamKind::Array(b) => {
                    let extents = b.extents.iter().map(|e| extent(e, &sizes, &values)).collect();
                    (b.elem.clone(), None, extents)
                }
            };
            Param {
                name: p.name().to_string(),
                mode: p.mode,
                dtype: lathe::dtype_of(&ty),
                bytes: ty.bytes() as i64,
                rank: extents.len(),
                ty,
                scalar,
                extents,
            }
        };
        let params: Vec<Param> = f.params.iter().map(param).collect();
        let which = |out: bool| (0..params.len()).filter(|i| (params[*i].mode == Mode::Out) == out).collect();
        Signature { inputs: which(false), outputs: which(true), sizes: names, params }
    }

    /// The rules by which sizes are read.
    pub fn rules(&self) -> Vec<SizeRule> {
        let one =
            |(name, s): &(String, Source)| (name.clone(), s.param, s.dim, s.times, s.plus, s.others.clone());
        self.sizes.iter().map(one).collect()
    }

    /// The value of the `i`-th size; `shape` gives the extents of an input. What does not divide is found by the
    /// kernel's own checks.
    pub fn size<'a>(&self, i: usize, shape: &dyn Fn(usize) -> &'a [i64]) -> i64 {
        let s = &self.sizes[i].1;
        let Some(extent) = shape(s.param).get(s.dim) else { return 0 };
        let mut rest = extent.wrapping_sub(s.plus);
        for (other, times) in &s.others {
            rest = rest.wrapping_sub(times.wrapping_mul(self.size(*other, shape)));
        }
        if s.times == 1 { rest } else { rest.div_euclid(s.times) }
    }

    /// The extents of a result, if the arguments tell them: `shape` gives those of an input, `value` that of a scalar.
    pub fn extents<'a>(
        &self,
        param: usize,
        shape: &dyn Fn(usize) -> &'a [i64],
        value: &dyn Fn(usize) -> i64,
        out: &mut [i64],
    ) -> bool {
        self.params[param].extents.iter().zip(out).all(|(e, o)| match self.eval(e, shape, value) {
            Some(v) => {
                *o = v;
                true
            }
            None => false,
        })
    }
}

impl Param {
    /// Of the type's name and shape, as a message shows it.
    pub fn describe(&self) -> String {
        self.ty.to_string()
    }

    /// The extents as formulas of Python, where they follow from the arguments.
    pub fn formulas(&self) -> Vec<Option<String>> {
        self.extents.iter().map(Extent::formula).collect()
    }

    /// Whether it is one number: a scalar, or a complex number.
    pub fn is_number(&self) -> bool {
        let complex = matches!(self.dtype, dtype::C64 | dtype::C128) && self.rank == 0;
        self.scalar.is_some() || complex && self.mode == Mode::In
    }

    /// Whether the elements are 64-bit integers, by either of their names.
    pub fn is_index(&self) -> bool {
        self.dtype == dtype::INDEX
    }
}

/// Scalar parameters: the variable, and the position.
type Values = Vec<(VarId, usize)>;

/// Where the sizes are read: the sizes of an equation are before it.
fn sources(f: &Function) -> Vec<(VarId, Source)> {
    let mut out: Vec<(VarId, Source)> = Vec::new();
    for SizeSource { param, dim, equation } in likely_sources(f, &|p| p.mode != Mode::Out) {
        let at = |v: &VarId| out.iter().position(|o| o.0 == *v);
        let others = equation.others.iter().filter_map(|(v, k)| Some((at(v)?, *k))).collect();
        let source = Source { param, dim, times: equation.times, plus: equation.plus, others };
        out.push((equation.size, source));
    }
    out
}

fn extent(e: &Expr, sizes: &[(VarId, Source)], values: &Values) -> Extent {
    match e.kind() {
        ExprKind::Int(v) => Extent::Number(*v),
        ExprKind::Var(v) => match (sizes.iter().position(|s| s.0 == *v), values.iter().find(|s| s.0 == *v)) {
            (Some(i), _) => Extent::Size(i),
            (None, Some((_, p))) => Extent::Value(*p),
            (None, None) => Extent::Unknown,
        },
        ExprKind::Cast(a) => extent(a, sizes, values),
        ExprKind::Binary(op, a, b) => {
            Extent::Binary(*op, Box::new(extent(a, sizes, values)), Box::new(extent(b, sizes, values)))
        }
        _ => Extent::Unknown,
    }
}

impl Signature {
    fn eval<'a>(
        &self,
        e: &Extent,
        shape: &dyn Fn(usize) -> &'a [i64],
        value: &dyn Fn(usize) -> i64,
    ) -> Option<i64> {
        Some(match e {
            Extent::Number(v) => *v,
            Extent::Size(i) => self.size(*i, shape),
            Extent::Value(p) => value(*p),
            Extent::Unknown => return None,
            Extent::Binary(op, a, b) => {
                let (x, y) = (self.eval(a, shape, value)?, self.eval(b, shape, value)?);
                let value = lathe::ir::scalar::binary(*op, Scalar::Index, x as u64, y as u64).ok()?;
                value as i64
            }
        })
    }
}
