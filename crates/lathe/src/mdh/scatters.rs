//! Loops on threads whose iterations share what they add to: elements which data choose, or one element of all. Each thread adds to arrays of
//! its own, and these are added up when all are done. Loops that share nothing, and that checks of data keep from having an affine schedule, are
//! the same without such arrays.

use super::affine::WITH_THREADS;
use super::arrays::{self, LARGE, bytes};
use super::candidates::{has, repeats};
use super::made::{Cost, Made};
use super::setting::Setting;
use super::sums::array;
use lathe_ir::interp::evaluate;
use lathe_ir::names::{self, Role};
use lathe_ir::visit::{self, Path};
use lathe_ir::{Access, BufId, Buffer, Executor, Expr, Stmt, StmtKind, VarId};
use lathe_transform::Arg;
use lathe_transform::names::labels_in;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// The fewest iterations of a thread.
const FEWEST: i64 = 64;
/// Arrays of so many elements get their first values and are added up on threads, too.
const MANY: i64 = 1 << 14;

/// The loop in a block for each thread, with arrays of its own for what its iterations share; `None` if the nest is no such loop, is short,
/// gains little, or the arrays of a thread are large; `rest` is what the function takes without it.
pub(super) fn on_threads(
    set: &Setting,
    start: &Made,
    nest: &Path,
    sizes: &BTreeMap<String, i64>,
    (rest, cost): (f64, Cost),
) -> Option<Made> {
    let threads = set.machine.threads as i64;
    let s = visit::at(&start.func.body, nest)?;
    let l = s.as_loop().filter(|l| l.exec == Executor::Serial && l.step == 1)?;
    let targets = shared(s, l.binder.id)?;
    // There are as many arrays as blocks: more iterations than expected must not make more of them.
    let trips = |of: &HashMap<VarId, i64>| evaluate(&l.hi, of)?.checked_sub(evaluate(&l.lo, of)?);
    let known = start.func.sizes.iter().filter_map(|b| Some((b.id, *sizes.get(&*b.name)?))).collect();
    let n = if targets.is_empty() { trips(&known) } else { trips(&HashMap::new()) }?;
    let block = n.checked_add(threads - 1)? / threads.max(1);
    let of = bytes(&start.func, sizes);
    let arrays: Vec<Arc<Buffer>> =
        arrays::all(&start.func).into_iter().filter(|b| targets.iter().any(|t| t.0 == b.id)).collect();
    let own = arrays.iter().map(|b| of(b)).fold(0, i64::saturating_add);
    if threads < 2 || block < FEWEST || own > LARGE.saturating_mul(set.machine.l2_bytes as i64) {
        return None;
    }
    let step =
        |m: &Made, rule: &str, args: Vec<Arg>, name: Option<&String>| m.naming(set, nest, rule, args, name);
    let at = |path: &String| Arg::Path(path.clone());
    let label = labels_in(s).into_iter().next()?;
    let over = names::around(label, &l.binder.name);
    let mut made = start.clone();
    if targets.is_empty() {
        let checks = has(&l.body, &|s| matches!(s.kind(), StmtKind::Check { .. }));
        // Rows of their own, of whatever length, are another form's.
        if !checks || has(&l.body, &repeats) {
            return None;
        }
        made = step(&made, "parallel", vec![at(&over)], None)?;
    } else {
        let outer = Role::Outer.of(&over);
        made = step(&made, "split", vec![at(&over), Arg::Int(block)], None)?;
        for (b, _) in &targets {
            let name = array(&start.func, *b)?;
            let part = Role::Cores.numbered(&name, 1);
            made = step(&made, "privatize", vec![at(&name), at(&outer)], Some(&part))?;
        }
        made = step(&made, "parallel", vec![at(&outer)], None)?;
        for (b, label) in &targets {
            let many = arrays.iter().any(|a| a.id == *b && of(a) / (a.elem.bytes() as i64).max(1) >= MANY);
            let begin = names::private(array(&start.func, *b)?);
            for rows in [begin, Role::Combine.of(label)].iter().filter(|_| many) {
                made = step(&made, "parallel", vec![at(&names::dimension(rows, 0))], None).unwrap_or(made);
            }
        }
    }
    (cost(&made.func) < rest + (cost(&start.func) - rest) * WITH_THREADS).then_some(made)
}

/// The arrays in which iterations of a loop add to the same elements, with the first statement that does. `None` if data choose none of them, or
/// if iterations share elements in other ways: what has elements of an iteration's own is for the steps to check.
fn shared(s: &Stmt, v: VarId) -> Option<Vec<(BufId, String)>> {
    let (mut fits, mut by_data, mut out) = (true, false, Vec::<(BufId, String)>::new());
    let (mut values, mut local) = (Values { own: HashSet::from([v]), data: HashSet::new() }, HashSet::new());
    visit::walk(s, &mut |s, _| {
        local.extend(s.allocated().map(|b| b.id));
        if let Some((binder, value, _)) = s.as_let() {
            match (values.is_data(value), values.is_own(value)) {
                (true, _) => values.data.insert(binder.id),
                (false, own) => own && values.own.insert(binder.id),
            };
        }
        let apart = |a: &Access| {
            a.view.buffer().is_some_and(|b| local.contains(&b)) || a.indices.iter().any(|e| values.is_own(e))
        };
        if let Some(r) = s.as_reduce().filter(|r| !r.targets.iter().all(apart)) {
            let buffers: Option<Vec<BufId>> = r.targets.iter().map(|t| t.view.buffer()).collect();
            fits &= r.licence && buffers.is_some();
            by_data |= r.targets.iter().flat_map(|t| &t.indices).any(|e| values.is_data(e));
            for b in buffers.into_iter().flatten() {
                if out.iter().all(|o| o.0 != b) {
                    out.push((b, r.label.to_string()));
                }
            }
        } else {
            fits &= s.accesses().all(|(a, mode)| !mode.writes() || apart(a));
        }
        fits
    });
    (fits && (by_data || out.is_empty())).then_some(out)
}

/// The variables that follow from the iteration of a loop, and those whose values come from memory.
struct Values {
    own: HashSet<VarId>,
    data: HashSet<VarId>,
}

impl Values {
    fn is_data(&self, e: &Expr) -> bool {
        !visit::loads_of(e).is_empty() || visit::vars_of(e).iter().any(|v| self.data.contains(v))
    }

    fn is_own(&self, e: &Expr) -> bool {
        !self.is_data(e) && visit::vars_of(e).iter().any(|v| self.own.contains(v))
    }
}
