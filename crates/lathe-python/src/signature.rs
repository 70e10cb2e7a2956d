//! What a call must know of a kernel's parameters, prepared so that it costs little.

use lathe::ir::{BinOp, Expr, ExprKind, Function, Mode, ParamKind, Scalar, Type, VarId};
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
    /// A size, as a dimension of a parameter tells it.
    Size(Source),
    /// The value of a scalar parameter.
    Value(usize),
    Binary(BinOp, Box<Extent>, Box<Extent>),
    /// Nothing that the inputs tell.
    Unknown,
}

/// Where a size is read: the extent of a dimension is `times * size + plus`.
#[derive(Clone, Copy)]
pub struct Source {
    pub param: usize,
    pub dim: usize,
    times: i64,
    plus: i64,
}

impl Source {
    /// The size, given the extent. What does not divide is found by the kernel's own checks.
    pub fn size(&self, extent: i64) -> i64 {
        if self.times == 1 { extent - self.plus } else { (extent - self.plus).div_euclid(self.times) }
    }
}

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
        let values: Vec<(VarId, usize)> = (f.params.iter().enumerate())
            .filter_map(|(at, p)| match &p.kind {
                ParamKind::Scalar(b) => Some((b.id, at)),
                ParamKind::Array(_) => None,
            })
            .collect();
        let sizes = sources(f);
        let name = |id: &VarId| f.sizes.iter().find(|s| s.id == *id).map(|s| s.name.to_string());
        let names = sizes.iter().filter_map(|(id, s)| Some((name(id)?, *s))).collect();
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

    /// The extents of a result, if the arguments tell them: `shape` gives those of an input, `value` that of a scalar.
    pub fn extents<'a>(
        &self,
        param: usize,
        shape: &dyn Fn(usize) -> &'a [i64],
        value: &dyn Fn(usize) -> i64,
        out: &mut [i64],
    ) -> bool {
        self.params[param].extents.iter().zip(out).all(|(e, o)| match eval(e, shape, value) {
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

    /// Whether the elements are 64-bit integers, by either of their names.
    pub fn is_index(&self) -> bool {
        self.dtype == dtype::INDEX
    }
}

/// Where the sizes are read: where one is a whole extent of an input, else where an extent is a multiple of it with
/// something added.
fn sources(f: &Function) -> Vec<(VarId, Source)> {
    let mut out: Vec<(VarId, Source)> = Vec::new();
    for whole in [true, false] {
        for (param, p) in f.params.iter().enumerate().filter(|p| p.1.mode != Mode::Out) {
            let Some(b) = p.array() else { continue };
            for (dim, e) in b.extents.iter().enumerate() {
                let Some((v, times, plus)) = linear(e) else { continue };
                let fits = if whole { (times, plus) == (1, 0) } else { times != 0 };
                if fits && f.sizes.iter().any(|s| s.id == v) && out.iter().all(|o| o.0 != v) {
                    out.push((v, Source { param, dim, times, plus }));
                }
            }
        }
    }
    out
}

/// `times * v + plus`.
fn linear(e: &Expr) -> Option<(VarId, i64, i64)> {
    match e.kind() {
        ExprKind::Var(v) => Some((*v, 1, 0)),
        ExprKind::Binary(op, a, b) => match (op, linear(a), a.as_int(), linear(b), b.as_int()) {
            (BinOp::Add, Some((v, t, p)), _, _, Some(c)) | (BinOp::Add, _, Some(c), Some((v, t, p)), _) => {
                Some((v, t, p.checked_add(c)?))
            }
            (BinOp::Sub, Some((v, t, p)), _, _, Some(c)) => Some((v, t, p.checked_sub(c)?)),
            (BinOp::Mul, Some((v, t, p)), _, _, Some(c)) | (BinOp::Mul, _, Some(c), Some((v, t, p)), _) => {
                Some((v, t.checked_mul(c)?, p.checked_mul(c)?))
            }
            _ => None,
        },
        _ => None,
    }
}

fn extent(e: &Expr, sizes: &[(VarId, Source)], values: &[(VarId, usize)]) -> Extent {
    match e.kind() {
        ExprKind::Int(v) => Extent::Number(*v),
        ExprKind::Var(v) => match (sizes.iter().find(|s| s.0 == *v), values.iter().find(|s| s.0 == *v)) {
            (Some((_, s)), _) => Extent::Size(*s),
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

fn eval<'a>(e: &Extent, shape: &dyn Fn(usize) -> &'a [i64], value: &dyn Fn(usize) -> i64) -> Option<i64> {
    Some(match e {
        Extent::Number(v) => *v,
        Extent::Size(s) => s.size(*shape(s.param).get(s.dim)?),
        Extent::Value(p) => value(*p),
        Extent::Unknown => return None,
        Extent::Binary(op, a, b) => {
            let (x, y) = (eval(a, shape, value)?, eval(b, shape, value)?);
            match op {
                BinOp::Add => x.checked_add(y)?,
                BinOp::Sub => x.checked_sub(y)?,
                BinOp::Mul => x.checked_mul(y)?,
                BinOp::FloorDiv => {
                    let q = x.checked_div(y)?;
                    if x.checked_rem(y)? != 0 && (x < 0) != (y < 0) { q - 1 } else { q }
                }
                BinOp::FloorMod => {
                    x.checked_rem(y).map(|r| if r != 0 && (r < 0) != (y < 0) { r + y } else { r })?
                }
                BinOp::Min => x.min(y),
                BinOp::Max => x.max(y),
                _ => return None,
            }
        }
    })
}
