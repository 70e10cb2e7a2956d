//! Circuits compute what the interpreter computes.

use super::{Maker, cases, rows};
use crate::circuit::{Circuit, Gate, Wire};
use crate::decide::{Equality, same};
use crate::formula::{Formulas, Id, Op};
use crate::machine::{Machine, vars_of};
use crate::sample::Draw;
use lathe_ir::scalar::ScalarValue;
use lathe_ir::{BinOp, MathFn, Scalar};

/// Everything in it has a circuit of its own.
fn is_known(f: &Formulas, id: Id) -> bool {
    f.under(&[id]).iter().all(|i| {
        let node = f.get(*i);
        let float = |p: &Id| f.ty(*p).is_float();
        match &node.op {
            Op::Binary(BinOp::Add | BinOp::Sub | BinOp::Mul | BinOp::Div, ..) if node.ty.is_float() => false,
            Op::Binary(BinOp::Mul, ..) => node.ty.bits() <= 16,
            Op::Binary(BinOp::FloorDiv | BinOp::FloorMod | BinOp::TruncDiv | BinOp::TruncRem, ..) => {
                node.ty.bits() <= 8
            }
            Op::Math(g, _) => *g == MathFn::Abs,
            Op::Cast(a) => node.ty == Scalar::Bool || !(node.ty.is_float() || float(a)),
            _ => true,
        }
    })
}

/// The value of every gate.
fn simulate(c: &Circuit, f: &Formulas, vars: &[(u32, Scalar)], row: &[u64]) -> Vec<bool> {
    let mut values = vec![false; c.gates.len()];
    for (id, wires) in &c.inputs {
        let Op::Var(n) = f.get(*id).op else { continue };
        let Some(k) = vars.iter().position(|v| v.0 == n) else { continue };
        for (bit, w) in wires.iter().enumerate() {
            values[w.gate()] = row[k] >> bit & 1 == 1;
        }
    }
    let of = |values: &[bool], w: Wire| values[w.gate()] != w.is_complement();
    for n in 1..c.gates.len() {
        values[n] = match c.gates.get(n) {
            Gate::Input => continue,
            Gate::And(a, b) => of(&values, a) && of(&values, b),
            Gate::Xor(a, b) => of(&values, a) != of(&values, b),
            Gate::Choose(c, a, b) => {
                if of(&values, c) {
                    of(&values, a)
                } else {
                    of(&values, b)
                }
            }
        };
    }
    values
}

#[test]
fn circuits_compute_what_the_interpreter_computes() {
    let mut draw = Draw(11);
    let mut looked_at = 0;
    for n in 0..cases(2500) {
        let mut f = Formulas::default();
        let small =
            [Scalar::I8, Scalar::U8, Scalar::I16, Scalar::F16, Scalar::Bf16, Scalar::I64, Scalar::F32];
        let types =
            vec![Scalar::Bool, small[draw.below(7)], small[draw.below(7)], Scalar::ALL[draw.below(14)]];
        let ty = types[draw.below(types.len())];
        let id = Maker { f: &mut f, draw: &mut draw, types }.formula(ty, 1 + n % 4);
        if !is_known(&f, id) {
            continue;
        }
        let mut c = Circuit::new(&f);
        let Some(wires) = c.of(id) else { continue };
        let m = Machine::new(&f, &[id]);
        let inputs = rows(&m.vars, 12, &mut draw);
        let out = m.run(&inputs, 3).remove(0);
        for k in 0..out.len() {
            let Some(wanted) = out[k] else { continue };
            let row: Vec<u64> = inputs.iter().map(|c| c[k]).collect();
            let values = simulate(&c, &f, &vars_of(&f, &[id]), &row);
            let bit = |w: &Wire| u64::from(values[w.gate()] != w.is_complement());
            let raw = wires.iter().rev().fold(0u64, |v, w| v << 1 | bit(w));
            let got = if ty.is_int() { ScalarValue::int(ty, raw as i64).bits } else { raw };
            assert!(same(ty, got, wanted, Equality::Bits), "{n}: {got:x}, not {wanted:x}: {:?}", f.get(id));
            looked_at += 1;
        }
    }
    assert!(looked_at > 3000, "only {looked_at} values");
}
