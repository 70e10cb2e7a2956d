//! A normal form has the value of its formula, wherever that has one.

use super::{Maker, cases, rows};
use crate::decide::{Equality, same};
use crate::formula::{Formulas, Id, Op};
use crate::machine::{Machine, renumbered};
use crate::normal::Normal;
use crate::sample::Draw;
use lathe_ir::Scalar;

#[test]
fn normal_forms_keep_values() {
    let mut draw = Draw(7);
    let mut changed = 0;
    for n in 0..cases(3000) {
        let mut f = Formulas::default();
        let mut types = vec![Scalar::Bool];
        for _ in 0..2 {
            types.push(Scalar::ALL[draw.below(Scalar::ALL.len())]);
        }
        types.dedup();
        let ty = types[draw.below(types.len())];
        let id = Maker { f: &mut f, draw: &mut draw, types }.formula(ty, 1 + n % 5);
        let form = Normal::default().of(&mut f, id);
        let defined = f.defined(id);
        changed += usize::from(form != id);
        let form = wrapping(&mut f, form);
        let m = Machine::new(&f, &[id, form, defined]);
        let inputs = rows(&m.vars, 40, &mut draw);
        let out = m.run(&inputs, 3);
        for k in 0..out[0].len() {
            // The formula of when it has a value says when it has one.
            assert_eq!(out[0][k].is_some(), out[2][k] == Some(1), "{n}: {:?}", f.get(id));
            let Some(before) = out[0][k] else { continue };
            let Some(after) = out[1][k] else { panic!("{n}: no value any more of {:?}", shown(&f, id)) };
            let inputs: Vec<u64> = inputs.iter().map(|c| c[k]).collect();
            assert!(
                same(ty, before, after, Equality::Bits),
                "{n}: {before:x} became {after:x} for {:?} = {inputs:x?}\n{}\n{}",
                m.vars,
                shown(&f, id),
                shown(&f, form)
            );
        }
    }
    assert!(changed > 500, "only {changed} formulas changed");
}

/// Normal forms of `index` wrap around, as `i64` does.
fn wrapping(f: &mut Formulas, id: Id) -> Id {
    let mut at = std::collections::HashMap::new();
    for part in f.under(&[id]) {
        let node = f.get(part).clone();
        let parts: Vec<Id> = f.parts(part).iter().map(|p| at[p]).collect();
        let new = match (&node.op, node.ty) {
            (Op::Var(_), Scalar::Index) => f.add(Op::Cast(part), Scalar::I64),
            (_, Scalar::Index) => f.add(renumbered(&node.op, &parts), Scalar::I64),
            (Op::Cast(_), ty) if f.ty(parts[0]) == ty => parts[0],
            (op, ty) => f.add(renumbered(op, &parts), ty),
        };
        at.insert(part, new);
    }
    at[&id]
}

fn shown(f: &Formulas, id: Id) -> String {
    let node = f.get(id);
    let parts: Vec<String> = f.parts(id).iter().map(|p| shown(f, *p)).collect();
    format!("{:?}:{}({})", node.op, node.ty, parts.join(", "))
}
