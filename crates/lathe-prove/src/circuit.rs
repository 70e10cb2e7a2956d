//! Formulas as circuits of `and`, `xor` and choice gates, one wire per bit (bit-blasting).
//!
//! What has no small circuit (products and quotients of two wide variables, floating-point sums, math functions) is a
//! function of which nothing is known but that equal arguments give equal results (Ackermann's reduction): what
//! holds for every such function holds for this one.

mod arithmetic;
mod gates;

use crate::formula::{Formulas, Id, Node, Op};
use arithmetic as bits;
pub(crate) use gates::{Gate, Gates, Wire};
use lathe_ir::{BinOp, MathFn, Scalar, UnOp};
use std::collections::HashMap;

/// Products of two variables of more bits have no circuit of a size that a solver masters.
const WIDE: usize = 16;

/// Applications of one unknown function that are compared pair by pair.
const APPLICATIONS: usize = 40;

/// One operation of which nothing is known.
#[derive(PartialEq, Eq, Hash, Clone, Debug)]
enum Unknown {
    Apply(u32),
    Binary(BinOp, Scalar),
    Math(MathFn, Scalar),
    Cast(Scalar, Scalar),
    Fits(BinOp),
}

/// Arguments and result of one application of an unknown function.
type Application = (Vec<Id>, Vec<Wire>);

/// Formulas as wires.
pub(crate) struct Circuit<'a> {
    f: &'a Formulas,
    pub gates: Gates,
    wires: HashMap<Id, Vec<Wire>>,
    unknown: HashMap<Unknown, Vec<Application>>,
    /// What holds of all unknown functions.
    pub holds: Vec<Wire>,
    /// The wires of variables, by their formulas.
    pub inputs: Vec<(Id, Vec<Wire>)>,
}

/// Gates that one question may have.
const GATES: usize = 400_000;

impl<'a> Circuit<'a> {
    pub fn new(f: &'a Formulas) -> Circuit<'a> {
        Circuit {
            f,
            gates: Gates::default(),
            wires: HashMap::new(),
            unknown: HashMap::new(),
            holds: Vec::new(),
            inputs: Vec::new(),
        }
    }

    /// The wires of a formula, lowest bit first; `None` if the circuit gets too large.
    pub fn of(&mut self, id: Id) -> Option<Vec<Wire>> {
        for part in self.f.under(&[id]) {
            if !self.wires.contains_key(&part) {
                let w = self.node(part);
                if self.gates.len() > GATES {
                    return None;
                }
                self.wires.insert(part, w);
            }
        }
        Some(self.wires[&id].clone())
    }

    fn node(&mut self, id: Id) -> Vec<Wire> {
        let Node { op, ty } = self.f.get(id).clone();
        let n = ty.bits() as usize;
        let g = &mut self.gates;
        let w = |x: &Id| self.wires[x].clone();
        match op {
            Op::Var(_) => {
                let wires: Vec<Wire> = (0..n).map(|_| g.input()).collect();
                self.inputs.push((id, wires.clone()));
                wires
            }
            Op::Const(bits) => (0..n).map(|k| Wire::constant(bits >> k & 1 == 1)).collect(),
            Op::Unary(UnOp::Not, a) => w(&a).into_iter().map(Wire::not).collect(),
            Op::Unary(UnOp::Neg, a) if ty.is_float() => {
                let mut a = w(&a);
                a[n - 1] = a[n - 1].not();
                a
            }
            Op::Unary(UnOp::Neg, a) => bits::negate(g, &w(&a)),
            Op::Math(MathFn::Abs, v) if ty.is_float() => {
                let mut a = w(&v[0]);
                a[n - 1] = Wire::FALSE;
                a
            }
            Op::Math(MathFn::Abs, v) => {
                let a = w(&v[0]);
                let minus = bits::negate(g, &a);
                if ty.is_signed() { bits::choose(g, a[n - 1], &minus, &a) } else { a }
            }
            Op::Math(f, v) => self.unknown(Unknown::Math(f, ty), v, n),
            Op::Select(c, a, b) => {
                let (c, a, b) = (w(&c)[0], w(&a), w(&b));
                bits::choose(g, c, &a, &b)
            }
            Op::Bitcast(a) => w(&a),
            Op::Cast(a) => self.cast(a, ty),
            Op::Apply(f, v) => self.unknown(Unknown::Apply(f), v, n),
            Op::Fits(op, a, b) => self.fits(op, a, b),
            Op::Binary(op, a, b) => self.binary(op, a, b, n),
        }
    }

    fn binary(&mut self, op: BinOp, p: Id, q: Id, n: usize) -> Vec<Wire> {
        use BinOp::*;
        let from = self.f.ty(p);
        let (a, b) = (self.wires[&p].clone(), self.wires[&q].clone());
        let signed = from.is_signed();
        let g = &mut self.gates;
        if from.is_float() {
            return match op {
                Eq => vec![bits::float_equal(g, &a, &b, from)],
                Ne => vec![bits::float_equal(g, &a, &b, from).not()],
                Lt => vec![bits::float_less(g, &a, &b, from)],
                Gt => vec![bits::float_less(g, &b, &a, from)],
                Le | Ge => {
                    let (a, b) = if op == Le { (a, b) } else { (b, a) };
                    let (less, equal) =
                        (bits::float_less(g, &a, &b, from), bits::float_equal(g, &a, &b, from));
                    vec![g.or(less, equal)]
                }
                Min | Max => {
                    let first = bits::float_before(g, &a, &b);
                    let (x, y) = if op == Min { (&a, &b) } else { (&b, &a) };
                    let number = bits::choose(g, first, x, y);
                    let (s, t) = (bits::is_nan(g, &a, from), bits::is_nan(g, &b, from));
                    let number = bits::choose(g, t, &b, &number);
                    bits::choose(g, s, &a, &number)
                }
                _ => self.unknown(Unknown::Binary(op, from), vec![p, q], n),
            };
        }
        let known = |w: &[Wire]| w.iter().all(|w| w.is_constant());
        match op {
            Add => bits::add(g, &a, &b, Wire::FALSE).0,
            Sub => bits::subtract(g, &a, &b).0,
            Mul if n <= WIDE || known(&a) || known(&b) => bits::multiply(g, &a, &b),
            And => bits::each(&a, &b, |x, y| g.and(x, y)),
            Or => bits::each(&a, &b, |x, y| g.or(x, y)),
            Xor => bits::each(&a, &b, |x, y| g.xor(x, y)),
            Eq => vec![bits::equal(g, &a, &b)],
            Ne => vec![bits::equal(g, &a, &b).not()],
            Lt => vec![bits::less(g, &a, &b, signed)],
            Gt => vec![bits::less(g, &b, &a, signed)],
            Le => vec![bits::less(g, &b, &a, signed).not()],
            Ge => vec![bits::less(g, &a, &b, signed).not()],
            Min | Max if from == Scalar::Bool => {
                bits::each(&a, &b, |x, y| if op == Min { g.and(x, y) } else { g.or(x, y) })
            }
            Min | Max => {
                let less = bits::less(g, &a, &b, signed);
                if op == Min { bits::choose(g, less, &a, &b) } else { bits::choose(g, less, &b, &a) }
            }
            Shl | Shr => bits::shift(g, &a, &b, op == Shl, signed),
            FloorDiv | FloorMod | TruncDiv | TruncRem if n <= WIDE / 2 || known(&b) => {
                bits::divide(g, op, &a, &b, signed)
            }
            _ => self.unknown(Unknown::Binary(op, from), vec![p, q], n),
        }
    }

    fn fits(&mut self, op: BinOp, p: Id, q: Id) -> Vec<Wire> {
        let (a, b) = (self.wires[&p].clone(), self.wires[&q].clone());
        let g = &mut self.gates;
        let extended = |w: &[Wire]| [w, &w[w.len() - 1..]].concat();
        let wide = match op {
            BinOp::Add => bits::add(g, &extended(&a), &extended(&b), Wire::FALSE).0,
            BinOp::Sub => bits::subtract(g, &extended(&a), &extended(&b)).0,
            _ => return self.unknown(Unknown::Fits(op), vec![p, q], 1),
        };
        let n = wide.len();
        vec![g.xor(wide[n - 1], wide[n - 2]).not()]
    }

    fn cast(&mut self, a: Id, to: Scalar) -> Vec<Wire> {
        let (from, w) = (self.f.ty(a), self.wires[&a].clone());
        let n = to.bits() as usize;
        if from.is_float() || to.is_float() {
            if to == Scalar::Bool {
                let zero = vec![Wire::FALSE; w.len()];
                return vec![bits::float_equal(&mut self.gates, &w, &zero, from).not()];
            }
            return self.unknown(Unknown::Cast(from, to), vec![a], n);
        }
        if to == Scalar::Bool {
            return vec![bits::any(&mut self.gates, &w)];
        }
        let last = if from.is_signed() { w[w.len() - 1] } else { Wire::FALSE };
        (0..n).map(|k| w.get(k).copied().unwrap_or(last)).collect()
    }

    /// A new value, equal to the others of the same function wherever the arguments are.
    fn unknown(&mut self, what: Unknown, args: Vec<Id>, n: usize) -> Vec<Wire> {
        let out: Vec<Wire> = (0..n).map(|_| self.gates.input()).collect();
        let others = self.unknown.get(&what).cloned().unwrap_or_default();
        for (theirs, result) in others.iter().take(APPLICATIONS) {
            let mut differ = Wire::FALSE;
            for (x, y) in args.iter().zip(theirs) {
                let same = self.same(*x, *y);
                differ = self.gates.or(differ, same.not());
            }
            let result_ty = match &what {
                Unknown::Binary(_, t) | Unknown::Math(_, t) | Unknown::Cast(_, t) => Some(*t),
                Unknown::Apply(_) | Unknown::Fits(_) => None,
            };
            let equal = match result_ty {
                Some(t) if t.is_float() => bits::same_value(&mut self.gates, &out, result, t),
                _ => bits::equal(&mut self.gates, &out, result),
            };
            let implied = self.gates.or(differ, equal);
            self.holds.push(implied);
        }
        self.unknown.entry(what).or_default().push((args, out.clone()));
        out
    }

    /// Equal as values: the same bits, or both no number.
    pub fn same(&mut self, x: Id, y: Id) -> Wire {
        let (a, b) = (self.wires[&x].clone(), self.wires[&y].clone());
        let ty = self.f.ty(x);
        if ty.is_float() {
            bits::same_value(&mut self.gates, &a, &b, ty)
        } else {
            bits::equal(&mut self.gates, &a, &b)
        }
    }
}
