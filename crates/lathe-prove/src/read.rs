//! From expressions of the tree to formulas, leaf by leaf: a tuple, a struct or a small array is the list of its
//! scalars.

use crate::formula::{Formulas, Id, Op};
use lathe_ir::scalar::ScalarValue;
use lathe_ir::{Access, Expr, ExprKind, Scalar, Type, VarId};
use std::collections::HashMap;

/// What variables and loads stand for, one formula per leaf of their type.
pub trait Leaves {
    fn var(&mut self, f: &mut Formulas, v: VarId, ty: Scalar) -> Option<Id>;
    fn load(&mut self, f: &mut Formulas, a: &Access) -> Option<Vec<Id>>;
}

/// Expressions over variables alone.
pub struct Vars<'a>(pub &'a [(VarId, Id)]);

impl Leaves for Vars<'_> {
    fn var(&mut self, _: &mut Formulas, v: VarId, _: Scalar) -> Option<Id> {
        self.0.iter().find(|(n, _)| *n == v).map(|(_, id)| *id)
    }

    fn load(&mut self, _: &mut Formulas, _: &Access) -> Option<Vec<Id>> {
        None
    }
}

/// The leaves of an expression; `None` for calls, and for what the leaves do not know.
pub fn read(f: &mut Formulas, e: &Expr, leaves: &mut dyn Leaves) -> Option<Vec<Id>> {
    Reader { f, leaves, known: HashMap::new() }.expr(e)
}

struct Reader<'a> {
    f: &'a mut Formulas,
    leaves: &'a mut dyn Leaves,
    /// By the address of the shared node.
    known: HashMap<usize, Vec<Id>>,
}

impl Reader<'_> {
    fn expr(&mut self, e: &Expr) -> Option<Vec<Id>> {
        if let Some(v) = self.known.get(&e.address()) {
            return Some(v.clone());
        }
        let out = self.read(e)?;
        self.known.insert(e.address(), out.clone());
        Some(out)
    }

    fn one(&mut self, e: &Expr) -> Option<Id> {
        match self.expr(e)?.as_slice() {
            [one] => Some(*one),
            _ => None,
        }
    }

    fn read(&mut self, e: &Expr) -> Option<Vec<Id>> {
        let ty = e.ty().scalar();
        let one = |id: Id| Some(vec![id]);
        match e.kind() {
            ExprKind::Bool(v) => one(self.f.boolean(*v)),
            ExprKind::Int(v) => one(self.f.int(ty?, *v)),
            ExprKind::Float(v) => one(self.f.constant(ScalarValue::float(ty?, v.get()))),
            ExprKind::Var(v) => one(self.leaves.var(self.f, *v, ty?)?),
            ExprKind::Load(a) => self.leaves.load(self.f, a),
            ExprKind::Unary(op, a) => {
                let a = self.one(a)?;
                one(self.f.unary(*op, a))
            }
            ExprKind::Binary(op, a, b) => {
                let (a, b) = (self.one(a)?, self.one(b)?);
                one(self.f.binary(*op, a, b))
            }
            ExprKind::Cast(a) => {
                let a = self.one(a)?;
                one(self.f.cast(ty?, a))
            }
            ExprKind::Bitcast(a) => {
                let a = self.one(a)?;
                one(self.f.add(Op::Bitcast(a), ty?))
            }
            ExprKind::Math(g, args) => {
                let args = args.iter().map(|a| self.one(a)).collect::<Option<Vec<_>>>()?;
                one(self.f.add(Op::Math(*g, args), ty?))
            }
            ExprKind::Select(c, a, b) => {
                let (c, a, b) = (self.one(c)?, self.expr(a)?, self.expr(b)?);
                Some(a.into_iter().zip(b).map(|(a, b)| self.f.select(c, a, b)).collect())
            }
            ExprKind::Aggregate(parts) => {
                let parts = parts.iter().map(|p| self.expr(p)).collect::<Option<Vec<_>>>()?;
                Some(parts.concat())
            }
            ExprKind::Field(of, n) => {
                let whole = self.expr(of)?;
                let fields = of.ty().fields();
                let count = |t: &Type| t.leaves().len();
                let start: usize = fields.iter().take(*n as usize).map(count).sum();
                let len = fields.get(*n as usize).map(count)?;
                whole.get(start..start + len).map(<[Id]>::to_vec)
            }
            ExprKind::Call(..) | ExprKind::Address(_) => None,
        }
    }
}

/// The scalars of a value, in order.
pub fn leaves_of(types: &[Type]) -> Vec<Scalar> {
    types.iter().flat_map(Type::leaves).collect()
}
