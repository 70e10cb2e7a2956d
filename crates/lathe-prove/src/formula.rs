//! Formulas: scalar expressions over variables, shared and compared by number.
//!
//! They say what [`lathe_ir::Expr`] says of scalars, and besides it apply functions of which nothing is known. A
//! formula may have no value (a division by zero, an `index` that overflows 64 bits); [`Formulas::defined`] is the
//! formula of when it has one.

use lathe_ir::scalar::{self, ScalarValue};
use lathe_ir::{BinOp, MathFn, Scalar, UnOp};
use std::collections::HashMap;

/// A formula of one [`Formulas`]. Parts have smaller numbers than what they are part of.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Id(pub(crate) u32);

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Op {
    /// A variable by its number.
    Var(u32),
    /// Raw bits, as [`ScalarValue`] has them.
    Const(u64),
    Unary(UnOp, Id),
    Binary(BinOp, Id, Id),
    Cast(Id),
    Bitcast(Id),
    Math(MathFn, Vec<Id>),
    /// Lazy, as in the tree.
    Select(Id, Id, Id),
    /// A function by its number: of its arguments it is only known that equal ones give equal results.
    Apply(u32, Vec<Id>),
    /// Whether an operation on `index` stays within 64 bits.
    Fits(BinOp, Id, Id),
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Node {
    pub op: Op,
    pub ty: Scalar,
}

/// An arena of formulas: equal ones have equal numbers.
#[derive(Clone, Default)]
pub struct Formulas {
    nodes: Vec<Node>,
    known: HashMap<Node, Id>,
    defined: HashMap<Id, Id>,
}

impl Formulas {
    pub fn get(&self, id: Id) -> &Node {
        &self.nodes[id.0 as usize]
    }

    pub fn ty(&self, id: Id) -> Scalar {
        self.get(id).ty
    }

    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    pub fn add(&mut self, op: Op, ty: Scalar) -> Id {
        let node = Node { op, ty };
        if let Some(id) = self.known.get(&node) {
            return *id;
        }
        let id = Id(self.nodes.len() as u32);
        self.nodes.push(node.clone());
        self.known.insert(node, id);
        id
    }

    pub fn var(&mut self, n: u32, ty: Scalar) -> Id {
        self.add(Op::Var(n), ty)
    }

    pub fn constant(&mut self, v: ScalarValue) -> Id {
        self.add(Op::Const(v.bits), v.ty)
    }

    pub fn int(&mut self, ty: Scalar, v: i64) -> Id {
        self.constant(ScalarValue::int(ty, v))
    }

    pub fn boolean(&mut self, v: bool) -> Id {
        self.constant(ScalarValue::boolean(v))
    }

    /// The value, if it is a constant.
    pub fn value(&self, id: Id) -> Option<ScalarValue> {
        match self.get(id) {
            Node { op: Op::Const(bits), ty } => Some(ScalarValue { ty: *ty, bits: *bits }),
            _ => None,
        }
    }

    pub fn is_true(&self, id: Id) -> bool {
        matches!(self.get(id), Node { op: Op::Const(1), ty: Scalar::Bool })
    }

    pub fn is_false(&self, id: Id) -> bool {
        matches!(self.get(id), Node { op: Op::Const(0), ty: Scalar::Bool })
    }

    /// Operands are of one type.
    pub fn binary(&mut self, op: BinOp, a: Id, b: Id) -> Id {
        let from = self.ty(a);
        let ty = if op.is_comparison() { Scalar::Bool } else { from };
        if let (Some(x), Some(y)) = (self.value(a), self.value(b))
            && let Ok(bits) = scalar::binary(op, from, x.bits, y.bits)
        {
            return self.constant(ScalarValue { ty, bits });
        }
        self.add(Op::Binary(op, a, b), ty)
    }

    pub fn unary(&mut self, op: UnOp, a: Id) -> Id {
        let ty = self.ty(a);
        if let Some(x) = self.value(a)
            && let Ok(bits) = scalar::unary(op, ty, x.bits)
        {
            return self.constant(ScalarValue { ty, bits });
        }
        self.add(Op::Unary(op, a), ty)
    }

    pub fn cast(&mut self, to: Scalar, a: Id) -> Id {
        let from = self.ty(a);
        if from == to {
            return a;
        }
        if let Some(x) = self.value(a)
            && let Ok(bits) = scalar::cast(from, to, x.bits)
        {
            return self.constant(ScalarValue { ty: to, bits });
        }
        self.add(Op::Cast(a), to)
    }

    pub fn not(&mut self, a: Id) -> Id {
        match self.get(a).op {
            Op::Unary(UnOp::Not, b) if self.ty(a) == Scalar::Bool => b,
            _ => self.unary(UnOp::Not, a),
        }
    }

    pub fn and(&mut self, a: Id, b: Id) -> Id {
        match () {
            () if self.is_true(a) || a == b => b,
            () if self.is_true(b) => a,
            () if self.is_false(a) || self.is_false(b) => self.boolean(false),
            () => self.binary(BinOp::And, a, b),
        }
    }

    pub fn select(&mut self, c: Id, a: Id, b: Id) -> Id {
        match () {
            () if self.is_true(c) || a == b => a,
            () if self.is_false(c) => b,
            () => {
                let ty = self.ty(a);
                self.add(Op::Select(c, a, b), ty)
            }
        }
    }

    /// The parts of a formula.
    pub fn parts(&self, id: Id) -> Vec<Id> {
        match &self.get(id).op {
            Op::Var(_) | Op::Const(_) => Vec::new(),
            Op::Unary(_, a) | Op::Cast(a) | Op::Bitcast(a) => vec![*a],
            Op::Binary(_, a, b) | Op::Fits(_, a, b) => vec![*a, *b],
            Op::Select(c, a, b) => vec![*c, *a, *b],
            Op::Math(_, v) | Op::Apply(_, v) => v.clone(),
        }
    }

    /// All formulas that some are made of, parts first.
    pub fn under(&self, roots: &[Id]) -> Vec<Id> {
        let mut wanted = vec![false; self.nodes.len()];
        let mut left = roots.to_vec();
        while let Some(id) = left.pop() {
            if !std::mem::replace(&mut wanted[id.0 as usize], true) {
                left.extend(self.parts(id));
            }
        }
        (0..self.nodes.len() as u32).map(Id).filter(|i| wanted[i.0 as usize]).collect()
    }

    /// When a formula has a value. Functions of which nothing is known have one everywhere.
    pub fn defined(&mut self, id: Id) -> Id {
        // Parts first: formulas may nest deeper than the stack.
        for part in self.under(&[id]) {
            if !self.defined.contains_key(&part) {
                let d = self.defined_here(part);
                self.defined.insert(part, d);
            }
        }
        self.defined[&id]
    }

    /// As [`Formulas::defined`], that of all parts being known.
    fn defined_here(&mut self, id: Id) -> Id {
        let Node { op, ty } = self.get(id).clone();
        if let Op::Select(c, a, b) = op {
            let [c_defined, a, b] = [c, a, b].map(|x| self.defined[&x]);
            let taken = self.select(c, a, b);
            return self.and(c_defined, taken);
        }
        let mut out = self.boolean(true);
        for p in self.parts(id) {
            let d = self.defined[&p];
            out = self.and(out, d);
        }
        let own = self.own_condition(&op, ty);
        match own {
            Some(c) => self.and(out, c),
            None => out,
        }
    }

    /// What an operation asks of the values of its parts.
    fn own_condition(&mut self, op: &Op, ty: Scalar) -> Option<Id> {
        use BinOp::*;
        match *op {
            Op::Binary(o @ (FloorDiv | FloorMod | TruncDiv | TruncRem), a, b) => {
                let zero = self.int(ty, 0);
                let mut ok = self.binary(Ne, b, zero);
                if ty == Scalar::Index && matches!(o, FloorDiv | TruncDiv) {
                    let (least, minus) = (self.int(ty, i64::MIN), self.int(ty, -1));
                    let (x, y) = (self.binary(Eq, a, least), self.binary(Eq, b, minus));
                    let both = self.and(x, y);
                    let not = self.not(both);
                    ok = self.and(ok, not);
                }
                Some(ok)
            }
            Op::Binary(o @ (Add | Sub | Mul | Shl), a, b) if ty == Scalar::Index => Some(self.fits(o, a, b)),
            Op::Unary(UnOp::Neg, a) if ty == Scalar::Index => {
                let zero = self.int(ty, 0);
                Some(self.fits(Sub, zero, a))
            }
            Op::Math(MathFn::Abs, ref v) if ty == Scalar::Index => {
                let zero = self.int(ty, 0);
                Some(self.fits(Sub, zero, v[0]))
            }
            Op::Cast(a) if ty == Scalar::Index && self.ty(a) == Scalar::U64 => {
                let most = self.int(Scalar::U64, i64::MAX);
                Some(self.binary(Le, a, most))
            }
            _ => None,
        }
    }

    pub(crate) fn fits(&mut self, op: BinOp, a: Id, b: Id) -> Id {
        if let (Some(x), Some(y)) = (self.value(a), self.value(b)) {
            let fits = scalar::binary(op, Scalar::Index, x.bits, y.bits).is_ok();
            return self.boolean(fits);
        }
        self.add(Op::Fits(op, a, b), Scalar::Bool)
    }

    /// A formula with other parts, in their order.
    pub(crate) fn with_parts(&mut self, id: Id, parts: &[Id]) -> Id {
        let Node { op, ty } = self.get(id).clone();
        match op {
            Op::Var(_) | Op::Const(_) => id,
            Op::Unary(o, _) => self.unary(o, parts[0]),
            Op::Binary(o, ..) => self.binary(o, parts[0], parts[1]),
            Op::Cast(_) => self.cast(ty, parts[0]),
            Op::Bitcast(_) => self.add(Op::Bitcast(parts[0]), ty),
            Op::Math(f, _) => self.add(Op::Math(f, parts.to_vec()), ty),
            Op::Select(..) => self.select(parts[0], parts[1], parts[2]),
            Op::Apply(f, _) => self.add(Op::Apply(f, parts.to_vec()), ty),
            Op::Fits(o, ..) => self.fits(o, parts[0], parts[1]),
        }
    }
}
