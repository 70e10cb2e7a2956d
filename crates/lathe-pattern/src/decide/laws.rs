//! The laws of an operator that a term is: what rules of reductions rely on.

use super::compare::{Answer, Defined, Sense, compare_values};
use super::eval::value;
use super::value::{Out, Sym, World};
use crate::facts::Facts;
use crate::term::Term;
use lathe_ir::Name;
use std::collections::HashMap;
use std::sync::{Mutex, OnceLock};

/// What is known of operators with what they start from.
type Known = HashMap<(Term, Term), Result<(), String>>;

/// Whether an operator is associative and commutative, and a start neutral: up to rounding, for all values as far as
/// they are proved or tested.
///
/// # Errors
/// The law that does not hold, or is not seen to.
pub fn lawful(op: &Term, start: &Term) -> Result<(), String> {
    static KNOWN: OnceLock<Mutex<Known>> = OnceLock::new();
    let lock = || KNOWN.get_or_init(Mutex::default).lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let key = (op.clone(), start.clone());
    if let Some(known) = lock().get(&key) {
        return known.clone();
    }
    let out = decided(op, start);
    lock().insert(key, out.clone());
    out
}

fn decided(op: &Term, start: &Term) -> Result<(), String> {
    let ty = start.ty().clone();
    let names = ["a", "b", "c"].map(Name::from);
    let of = |w: &mut World, n: usize| w.meta(&names[n], &ty);
    let apply = |w: &mut World, x: &Sym, y: &Sym| -> Out {
        let f = value(w, op)?;
        w.call2(&f, x.clone(), y.clone())
    };
    let associative = |w: &mut World| {
        let (a, b, c) = (of(w, 0), of(w, 1), of(w, 2));
        let (ab, bc) = (apply(w, &a, &b)?, apply(w, &b, &c)?);
        Ok((apply(w, &ab, &c)?, apply(w, &a, &bc)?))
    };
    let commutative = |w: &mut World| {
        let (a, b) = (of(w, 0), of(w, 1));
        Ok((apply(w, &a, &b)?, apply(w, &b, &a)?))
    };
    let left = |w: &mut World| {
        let (a, e) = (of(w, 0), value(w, start)?);
        let ea = apply(w, &e, &a)?;
        Ok((a, ea))
    };
    let right = |w: &mut World| {
        let (a, e) = (of(w, 0), value(w, start)?);
        let ae = apply(w, &a, &e)?;
        Ok((a, ae))
    };
    type Sides<'a> = &'a dyn Fn(&mut World) -> Out<(Sym, Sym)>;
    let laws: [(&str, Sides); 4] = [
        ("is associative", &associative),
        ("is commutative", &commutative),
        ("starts from the neutral element", &left),
        ("starts from the neutral element", &right),
    ];
    for (what, sides) in laws {
        match compare_values(sides, &ty, &Facts::default(), (Sense::Rounding, Defined::Right)) {
            Answer::Proved(_) | Answer::Tested(_) => {}
            Answer::Unknown(why) => return Err(format!("it is not known whether `{op}` {what}: {why}")),
            Answer::Refuted { .. } => return Err(format!("it is false that `{op}` {what}")),
        }
    }
    Ok(())
}
