//! What a kernel computes of its arguments before its body runs, as expressions over the fields of descriptors: whether
//! each check fails, and the sizes. Engines for CPUs print them, and [`Entry::check`] evaluates them on the host.

use crate::checks::{CheckTable, dtype_of, element_type};
use crate::memory::Shape;
use crate::program::{Assembler, Program, Register};
use lathe_abi::{CheckKind, MAX_EXTENT};
use lathe_ir::build::{
    add, and, binary, boolean, cast, eq, float, index, le, lt, math, max, min, mul, not, or, select, sub, var,
};
use lathe_ir::{BinOp, Binder, Expr, Function, MathFn, ParamKind, Scalar, Type, VarId, visit};
use lathe_poly::sizes;
use std::collections::HashMap;

/// A field of a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Field {
    Dtype,
    Rank,
    ElemBytes,
    Address,
    Extent(usize),
    Stride(usize),
}

/// The checks and sizes of one function. Variables are fields, values that came before, and scalar parameters. An
/// expression is meant to be computed once the checks before it are known to hold.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Each with its parameter.
    pub fields: HashMap<VarId, (usize, Field)>,
    /// What several expressions need: sizes, the first byte of an array and its end.
    pub values: Vec<(Binder, Expr)>,
    /// The first so many of the values are sizes, and what they are computed from.
    pub sizes: usize,
    /// The first byte and the end of the elements of each parameter that an overlap check compares.
    pub ranges: HashMap<usize, [Expr; 2]>,
    /// Whether a check fails, in the order of the table; `None` for `check` statements, which are in the body.
    pub fails: Vec<Option<Expr>>,
    /// Whether neighbours along each last dimension lie side by side.
    pub unit: Expr,
    /// Where the scalar parameters are.
    pub scalars: HashMap<VarId, usize>,
    /// Above every number in the function and here.
    pub next_id: u32,
    hosted: Hosted,
}

/// The same as one program, for engines that compute it on the host, at every call.
#[derive(Clone, Debug)]
struct Hosted {
    program: Program<Input>,
    /// Registers of the values.
    values: Vec<(VarId, Register)>,
    /// Per check its number, its register, and how many registers are computed by then.
    fails: Vec<(i32, Register, usize)>,
}

#[derive(Clone, Copy, Debug)]
enum Input {
    Field(usize, Field),
    Scalar(usize),
}

/// Gives out variables that the function does not have.
struct Maker<'f> {
    func: Function,
    fields: HashMap<(usize, Field), Binder>,
    params: &'f Function,
}

impl Entry {
    /// The table is that of the function, or of what it was lowered from.
    pub fn of(table: &CheckTable, func: &Function) -> Entry {
        let mut m = Maker { func: func.clone(), fields: HashMap::new(), params: func };
        let mut values: Vec<(Binder, Expr)> = Vec::new();
        for s in &table.sizes {
            let Some(b) = func.sizes.iter().find(|b| b.id == s.equation.size) else { continue };
            let mut value = s.equation.quotient(m.field(s.param, Field::Extent(s.dim)));
            if !s.equation.is_plain() {
                let quotient = m.func.fresh_var(format!("{}_near", b.name), Scalar::Index);
                values.push((quotient.clone(), value));
                value = sizes::within(var(&quotient));
            }
            values.push((b.clone(), value));
        }
        let sizes = values.len();
        let mut ranges = HashMap::new();
        for c in &table.entries {
            let CheckKind::Overlap { a, b } = c else { continue };
            for p in [*a, *b] {
                ranges.entry(p).or_insert_with(|| {
                    m.range(p).map(|(what, e)| {
                        let name = format!("{}_{what}", func.params[p].name());
                        let b = m.func.fresh_var(name, Scalar::Index);
                        values.push((b.clone(), e));
                        var(&b)
                    })
                });
            }
        }
        let fails: Vec<_> = table.entries.iter().map(|c| m.fails(c, &ranges)).collect();
        let unit = (0..func.params.len()).filter_map(|p| m.unit(p)).fold(boolean(true), and);
        let fields = m.fields.into_iter().map(|(at, b)| (b.id, at)).collect();
        let scalars = func.params.iter().enumerate().filter_map(|(at, p)| match &p.kind {
            ParamKind::Scalar(b) => Some((b.id, at)),
            ParamKind::Array(_) => None,
        });
        let scalars = scalars.collect();
        let hosted = Hosted::of(&fields, &values, &fails, &scalars);
        Entry { fields, values, sizes, ranges, fails, unit, scalars, next_id: m.func.next_id, hosted }
    }

    /// The values of the sizes, or the number of the first check that these arguments fail: what the code of an engine for
    /// CPUs does first, for engines whose code runs elsewhere. `scalar` reads the value of an integer parameter by its
    /// position, once types and ranks are right.
    ///
    /// # Errors
    /// The number of the check.
    pub fn check(
        &self,
        args: &[Shape],
        scalar: &dyn Fn(usize) -> Option<i64>,
    ) -> Result<HashMap<VarId, i64>, i32> {
        let mut input = |i: &Input| match i {
            Input::Field(param, f) => args.get(*param)?.field(*f),
            Input::Scalar(at) => scalar(*at),
        };
        let Hosted { program, values, fails } = &self.hosted;
        let mut registers = Vec::with_capacity(program.len());
        for (number, failed, end) in fails {
            // What has no value, for want of a dimension or beyond 64 bits, is needed by no check before one that fails.
            program.run(&mut registers, *end, &mut input);
            if registers.get(*failed) != Some(&Some(0)) {
                return Err(*number);
            }
        }
        program.run(&mut registers, usize::MAX, &mut input);
        let value = |(v, at): &(VarId, Register)| Some((*v, registers.get(*at).copied().flatten()? as i64));
        Ok(values.iter().filter_map(value).collect())
    }
}

impl Hosted {
    fn of(
        fields: &HashMap<VarId, (usize, Field)>,
        values: &[(Binder, Expr)],
        fails: &[Option<Expr>],
        scalars: &HashMap<VarId, usize>,
    ) -> Hosted {
        let mut a = Assembler::new();
        for (v, (param, field)) in fields {
            a.input(*v, Input::Field(*param, *field));
        }
        let mut of_values = Vec::new();
        for (b, e) in values {
            let at = a.expression(e);
            a.variables.insert(b.id, at);
            of_values.push((b.id, at));
        }
        let mut of_checks = Vec::new();
        for (number, fails) in (1..).zip(fails) {
            let Some(fails) = fails else { continue };
            // Scalars are read no earlier than a check needs them.
            for v in visit::vars_of(fails) {
                if let Some(at) = scalars.get(&v).filter(|_| !a.variables.contains_key(&v)) {
                    a.input(v, Input::Scalar(*at));
                }
            }
            let at = a.expression(fails);
            of_checks.push((number, at, a.len()));
        }
        Hosted { program: a.program, values: of_values, fails: of_checks }
    }
}

impl Shape {
    fn field(&self, f: Field) -> Option<i64> {
        match f {
            Field::Dtype => Some(i64::from(self.dtype)),
            Field::Rank => i64::try_from(self.extents.len()).ok(),
            Field::ElemBytes => i64::try_from(self.elem_bytes).ok(),
            Field::Address => i64::try_from(self.address).ok(),
            Field::Extent(d) => self.extents.get(d).copied(),
            Field::Stride(d) => self.strides.get(d).copied(),
        }
    }
}

impl Maker<'_> {
    fn field(&mut self, param: usize, f: Field) -> Expr {
        let fresh = || self.func.fresh_var(format!("{f:?}"), Scalar::Index);
        var(self.fields.entry((param, f)).or_insert_with(fresh))
    }

    fn rank(&self, param: usize) -> usize {
        self.params.params[param].array().map_or(0, |b| b.extents.len())
    }

    fn fails(&mut self, check: &CheckKind, ranges: &HashMap<usize, [Expr; 2]>) -> Option<Expr> {
        let differs = |a: Expr, b: i64| binary(BinOp::Ne, a, index(b));
        Some(match check {
            CheckKind::Dtype { param } => {
                let ty = element_type(&self.params.params[*param].kind);
                let other = differs(self.field(*param, Field::Dtype), i64::from(dtype_of(&ty)));
                or(other, differs(self.field(*param, Field::ElemBytes), ty.bytes() as i64))
            }
            CheckKind::Rank { param } => differs(self.field(*param, Field::Rank), self.rank(*param) as i64),
            CheckKind::Size { param, dim } => {
                let n = self.field(*param, Field::Extent(*dim));
                let bytes = element_type(&self.params.params[*param].kind).bytes().max(1);
                // As floats nothing overflows, and all products up to 2^53 are exact.
                let real = |e: Expr| cast(Type::F64, e);
                let stride = real(self.field(*param, Field::Stride(*dim)));
                let far = mul(real(self.steps(*param, *dim)), stride);
                let most = (MAX_EXTENT as u64 / bytes) as f64;
                let inside = and(le(index(0), n.clone()), le(n, index(MAX_EXTENT)));
                not(and(inside, le(math(MathFn::Abs, vec![far]), float(Scalar::F64, most))))
            }
            CheckKind::Shape { param, dim } => {
                let declared = self.params.params[*param].array()?.extents.get(*dim)?.clone();
                binary(BinOp::Ne, self.field(*param, Field::Extent(*dim)), declared)
            }
            CheckKind::Overlap { a, b } => {
                let ([first, end], [other, last]) = (ranges.get(a)?.clone(), ranges.get(b)?.clone());
                and(lt(first, last), lt(other, end))
            }
            CheckKind::User { .. } | CheckKind::External { .. } => return None,
        })
    }

    /// How many steps lead from the first element along a dimension to the last. Right for no element, too: none.
    fn steps(&mut self, param: usize, dim: usize) -> Expr {
        sub(max(self.field(param, Field::Extent(dim)), index(1)), index(1))
    }

    /// First byte and end of an array's elements. Without elements it ends before everything.
    fn range(&mut self, param: usize) -> [(&'static str, Expr); 2] {
        let bytes = element_type(&self.params.params[param].kind).bytes() as i64;
        let address = self.field(param, Field::Address);
        let (mut first, mut end) = (address.clone(), add(address, index(bytes)));
        let mut some = boolean(true);
        for d in 0..self.rank(param) {
            let reach = mul(mul(self.steps(param, d), self.field(param, Field::Stride(d))), index(bytes));
            first = add(first, min(reach.clone(), index(0)));
            end = add(end, max(reach, index(0)));
            some = and(some, lt(index(0), self.field(param, Field::Extent(d))));
        }
        [("first", first), ("end", min(end, select(some, index(i64::MAX), index(i64::MIN))))]
    }

    fn unit(&mut self, param: usize) -> Option<Expr> {
        let last = self.rank(param).checked_sub(1)?;
        let neighbours = eq(self.field(param, Field::Stride(last)), index(1));
        // Along at most one element the stride does not matter.
        Some(or(neighbours, le(self.field(param, Field::Extent(last)), index(1))))
    }
}
