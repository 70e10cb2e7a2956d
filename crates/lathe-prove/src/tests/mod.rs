//! Random formulas: what is said of them is compared with what they give.

mod circuits;
mod normal_forms;
mod verdicts;

use crate::formula::{Formulas, Id, Op};
use crate::sample::{Draw, any, special};
use lathe_ir::scalar::ScalarValue;
use lathe_ir::{BinOp, MathFn, Scalar, UnOp};

/// More of everything, for long runs.
fn cases(n: usize) -> usize {
    let times = std::env::var("LATHE_CASES").ok().and_then(|v| v.parse::<usize>().ok());
    n * times.unwrap_or(1).clamp(1, 1000)
}

/// Random formulas over a few variables, one of each type.
struct Maker<'a> {
    f: &'a mut Formulas,
    draw: &'a mut Draw,
    types: Vec<Scalar>,
}

impl Maker<'_> {
    fn formula(&mut self, ty: Scalar, depth: usize) -> Id {
        if depth == 0 || self.draw.below(6) == 0 {
            return self.leaf(ty);
        }
        let d = depth - 1;
        match self.draw.below(10) {
            0 => {
                let c = self.formula(Scalar::Bool, d);
                let (a, b) = (self.formula(ty, d), self.formula(ty, d));
                self.f.add(Op::Select(c, a, b), ty)
            }
            1 | 2 => {
                let from = self.types[self.draw.below(self.types.len())];
                let a = self.formula(from, d);
                if from == ty { a } else { self.f.add(Op::Cast(a), ty) }
            }
            3 => {
                let a = self.formula(ty, d);
                let op = if ty == Scalar::Bool || (ty.is_int() && self.draw.below(2) == 0) {
                    UnOp::Not
                } else {
                    UnOp::Neg
                };
                self.f.add(Op::Unary(op, a), ty)
            }
            4 if ty.is_float() => {
                use MathFn::*;
                let g = [Abs, Sqrt, Floor, Ceil, Round, Trunc, Exp][self.draw.below(7)];
                let a = self.formula(ty, d);
                self.f.add(Op::Math(g, vec![a]), ty)
            }
            4 if ty.is_int() => {
                let a = self.formula(ty, d);
                self.f.add(Op::Math(MathFn::Abs, vec![a]), ty)
            }
            _ if ty == Scalar::Bool => {
                use BinOp::*;
                let of = self.types[self.draw.below(self.types.len())];
                let (a, b) = (self.formula(of, d), self.formula(of, d));
                let op = [Eq, Ne, Lt, Le, Gt, Ge][self.draw.below(6)];
                self.f.add(Op::Binary(op, a, b), ty)
            }
            _ => {
                use BinOp::*;
                let (a, mut b) = (self.formula(ty, d), self.formula(ty, d));
                if self.draw.below(4) == 0 {
                    b = a;
                }
                let op = if ty.is_float() {
                    [Add, Sub, Mul, Div, Min, Max][self.draw.below(6)]
                } else {
                    let all = [
                        Add, Sub, Mul, FloorDiv, FloorMod, TruncDiv, TruncRem, Min, Max, And, Or, Xor, Shl,
                        Shr,
                    ];
                    all[self.draw.below(all.len())]
                };
                self.f.add(Op::Binary(op, a, b), ty)
            }
        }
    }

    fn leaf(&mut self, ty: Scalar) -> Id {
        if self.draw.below(3) == 0 {
            let small = [0, 1, 2, 3, 4, 8, -1][self.draw.below(7)];
            let v = match (self.draw.below(3), ty.is_float()) {
                (0, _) => {
                    let all = special(ty);
                    ScalarValue { ty, bits: all[self.draw.below(all.len())] }
                }
                (_, true) => ScalarValue::float(ty, small as f64),
                _ if ty == Scalar::Bool => ScalarValue::boolean(small > 1),
                _ => ScalarValue::int(ty, small),
            };
            return self.f.constant(v);
        }
        let at = self.types.iter().position(|t| *t == ty).unwrap_or(0) as u32;
        // Two variables of each type.
        let n = 2 * at + self.draw.below(2) as u32;
        self.f.var(n, ty)
    }
}

/// Rows of values for variables.
fn rows(vars: &[(u32, Scalar)], count: usize, draw: &mut Draw) -> Vec<Vec<u64>> {
    vars.iter()
        .map(|v| {
            let value = |_| match draw.below(3) {
                0 => {
                    let all = special(v.1);
                    all[draw.below(all.len())]
                }
                _ => any(v.1, draw.next()),
            };
            (0..count).map(value).collect()
        })
        .collect()
}
