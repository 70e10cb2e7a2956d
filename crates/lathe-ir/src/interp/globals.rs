//! The globals of a module, from one call to the next.

use super::array::{ArrayValue, element_count, leaf_offsets};
use super::codes;
use crate::buffer::Space;
use crate::expr::{Expr, ExprKind};
use crate::module::{Global, Init, Module};
use crate::scalar::{ScalarValue, of_f64};
use crate::types::Name;
use lathe_diagnostics::Diagnostic;
use std::collections::BTreeMap;

/// What all globals of a module hold.
#[derive(Clone, Debug, Default)]
pub struct Globals(pub(super) BTreeMap<Name, State>);

#[derive(Clone, Debug)]
pub(super) struct State {
    pub value: ArrayValue,
    pub space: Space,
    pub class: Option<Name>,
}

impl Globals {
    /// What they hold before the first call.
    ///
    /// # Errors
    /// E0413 for a global of more elements than fit, or with another number of values, or a value that is not a constant.
    pub fn of(module: &Module) -> Result<Globals, Diagnostic> {
        let one = |(name, g): (&Name, &Global)| {
            let value = initial(g).ok_or_else(|| {
                let text = format!("the global `{name}` has no constant for each of its elements");
                Diagnostic::error(codes::UNSUPPORTED, text)
            })?;
            Ok((name.clone(), State { value, space: g.space, class: g.alias.clone() }))
        };
        Ok(Globals(module.globals.iter().map(one).collect::<Result<_, _>>()?))
    }

    /// What a global holds.
    pub fn get(&self, name: &str) -> Option<&ArrayValue> {
        self.0.get(name).map(|s| &s.value)
    }
}

fn initial(g: &Global) -> Option<ArrayValue> {
    let shape = g.extents.iter().map(|e| usize::try_from(*e).ok()).collect::<Option<Vec<_>>>()?;
    let n = element_count(&shape)?;
    n.checked_mul(g.elem.bytes() as usize).filter(|bytes| *bytes < 1 << 32)?;
    let values = match &g.init {
        Init::Undefined => return Some(ArrayValue::undefined(g.elem.clone(), &shape)),
        Init::Zero => return Some(ArrayValue::zeros(g.elem.clone(), &shape)),
        Init::Values(values) if values.len() == n => values,
        Init::Values(_) => return None,
    };
    let mut out = ArrayValue::undefined(g.elem.clone(), &shape);
    let leaves = leaf_offsets(&g.elem).len();
    for (k, v) in values.iter().enumerate() {
        let mut bits = Vec::new();
        constant(v, &mut bits)?;
        if bits.len() != leaves || *v.ty() != g.elem {
            return None;
        }
        bits.into_iter().enumerate().for_each(|(leaf, v)| out.set_leaf(k, leaf, v.bits));
    }
    Some(out)
}

/// The scalars of a constant, depth first.
fn constant(e: &Expr, out: &mut Vec<ScalarValue>) -> Option<()> {
    let ty = e.ty().scalar();
    match e.kind() {
        ExprKind::Bool(v) => out.push(ScalarValue { ty: ty?, bits: u64::from(*v) }),
        ExprKind::Int(v) => out.push(ScalarValue { ty: ty?, bits: *v as u64 }),
        ExprKind::Float(v) => out.push(ScalarValue { ty: ty?, bits: of_f64(ty?, v.get()) }),
        ExprKind::Aggregate(parts) => parts.iter().try_for_each(|p| constant(p, out))?,
        _ => return None,
    }
    Some(())
}
