//! Whether a schedule can be called with some sizes at all: told from its constraints and checks, without compiling.

use crate::build::version_for;
use crate::schedule::Schedule;
use lathe_ir::StmtKind;
use lathe_ir::stmt::Enters;
use lathe_ir::visit::{substitute, walk};
use lathe_poly::Ranges;
use lathe_poly::simplify::simplify_expr;
use lathe_runtime::{check_message, codes};
use lathe_space::{Value, eval};
use std::collections::{BTreeMap, HashMap};

/// Why every call with these sizes fails; `None` if that is not certain.
pub(super) fn illegal(schedule: &Schedule, sizes: &BTreeMap<String, i64>) -> Option<String> {
    let value = |name: &str| sizes.get(name).map(|n| Value::Int(*n));
    if let Some(c) = schedule.requires.iter().find(|c| eval(c, &value) == Ok(Value::Bool(false))) {
        return Some(format!("the strategy is for sizes with {c}"));
    }
    let named: Vec<(String, i64)> = sizes.iter().map(|(n, v)| (n.clone(), *v)).collect();
    let func = &schedule.versions.get(version_for(schedule, &named))?.func;
    let known = func.sizes.iter().filter_map(|b| {
        let n = sizes.get(b.name.as_ref() as &str)?;
        Some((b.id, lathe_ir::build::index(*n)))
    });
    let known: HashMap<_, _> = known.collect();
    let mut why = None;
    walk(&func.body, &mut |s, _| {
        if let StmtKind::Check { cond, code, message } = s.kind() {
            let cond = simplify_expr(&substitute(cond, &known), &Ranges::default());
            if why.is_none() && cond.as_bool() == Some(false) {
                why = Some(format!("{}: {}", codes::CHECK_FAILED, check_message(&func.name, message, code)));
            }
        }
        // Only what every call comes to.
        s.as_seq().is_some() || matches!(s.enters(0), Enters::Let(..) | Enters::Alloc(_))
    });
    why
}
