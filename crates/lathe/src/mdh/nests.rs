//! Loops that are in no index notation: each nest gets the affine schedule that the cost model expects to be the
//! fastest, or stays as it is.

use super::expand::Setting;
use super::sums;
use crate::schedule::{Form, Version};
use lathe_diagnostics::Diagnostic;
use lathe_ir::interp::evaluate;
use lathe_ir::names::Role;
use lathe_ir::visit::{self, Path};
use lathe_ir::{Buffer, Function, Stmt};
use lathe_runtime::Engine;
use lathe_strategy::Evidence;
use lathe_transform::names::labels_in;
use lathe_transform::{Arg, Args, Cursor};
use std::collections::{BTreeMap, HashMap};

/// A schedule must be so much better than the loops as they are: where something is reduced, and elsewhere, where the
/// model makes too little of the ends of shifted and skewed rows.
const CLEARLY: [f64; 2] = [0.9, 0.6];
/// Nests that are looked at: so many from the first one on.
const NESTS: usize = 12;
/// Schedules of a nest that are checked, from the one that is expected to be the fastest.
const CHECKED: usize = 2;
/// What checking all nests may take ([`lathe_analysis::within_work`]).
const WORK: u64 = 40_000_000;
/// What all variables of a nest may take that get an element per iteration.
const EXPANDED: i64 = 64 << 20;
/// Iterations of another loop side by side, and the width of tiles for results in registers. The model knows too little
/// of skewed tiles to choose others.
const JAM: i64 = 4;
const TILE: i64 = 128;

/// The version with a schedule for every nest that gains by one; `sizes` are examples of those that it still has. Its
/// tree is as the steps left it, before and after.
pub(super) fn scheduled(set: &Setting, v: Version, sizes: &BTreeMap<String, i64>) -> Version {
    lathe_analysis::within_work(WORK, || each(set, v, sizes))
}

fn each(set: &Setting, mut v: Version, sizes: &BTreeMap<String, i64>) -> Version {
    let cost = |f: &Function| lathe_model::estimate(f, sizes, set.machine).cycles();
    // Loops that only copy and the like are as the decisions want them.
    let known = labels_in(&set.func.body);
    let own = |l: &String| known.iter().any(|k| l == k || Role::Init.is_of(l, k));
    let mut all = nests(&v.func.body);
    all.retain(|p| visit::at(&v.func.body, p).is_some_and(|s| labels_in(s).iter().any(own)));
    all.truncate(NESTS);
    // From the last one to the first: paths of earlier ones stay what they are.
    for path in all.into_iter().rev() {
        match best(set, &v.func, &path, sizes, &cost) {
            Ok(Some(made)) => v = made.after(v),
            Ok(None) => {}
            Err(d) => {
                let label = label(&v.func.body, &path);
                v.notes
                    .push(format!("the loops around `{label}` stay as written: {}: {}", d.code, d.message));
            }
        }
    }
    v
}

/// Whether there is index notation inside of loops.
pub(super) fn around_computes(func: &Function) -> bool {
    let mut found = false;
    visit::walk(&func.body, &mut |s, _| {
        found |= s.as_loop().is_some_and(|l| has(&l.body, &|s| s.as_compute().is_some()));
        !found
    });
    found
}

/// A function that steps changed.
#[derive(Clone)]
pub(super) struct Made {
    pub func: Function,
    /// The steps, each with its text and the function before it.
    pub steps: Vec<(String, Evidence, Function)>,
}

impl Made {
    pub fn of(func: &Function) -> Made {
        Made { func: func.clone(), steps: Vec::new() }
    }

    /// One more step on a nest.
    pub fn then(&self, set: &Setting, path: &Path, rule: &str, args: &Args) -> Result<Made, Diagnostic> {
        let cursor = Cursor { focus: path.clone(), ..Cursor::new(set.module, &self.func) };
        let edit = lathe_transform::apply(&cursor, rule, args).map_err(|r| *r.diagnostic)?;
        let text = format!("{rule}({}) @ stmt({})", args.texts().join(", "), label(&self.func.body, path));
        let mut out = self.clone();
        out.steps.push((text, edit.evidence, std::mem::replace(&mut out.func, edit.func)));
        Ok(out)
    }

    /// The same steps in a version that begins with them.
    pub fn before(self, mut v: Version) -> Version {
        let (texts, steps, forms) = self.parts();
        v.taken.strategy = joined(texts.into_iter().chain([v.taken.strategy]));
        v.steps.splice(0..0, steps);
        v.forms.splice(0..0, forms);
        v
    }

    /// The same steps in a version that ends with them.
    fn after(self, mut v: Version) -> Version {
        let func = self.func.clone();
        let (texts, steps, forms) = self.parts();
        v.taken.strategy = joined([v.taken.strategy].into_iter().chain(texts));
        v.steps.extend(steps);
        v.forms.extend(forms);
        Version { func, ..v }
    }

    fn parts(self) -> (Vec<String>, Vec<Evidence>, Vec<Form>) {
        let mut out = (Vec::new(), Vec::new(), Vec::new());
        for (text, evidence, before) in self.steps {
            out.0.push(text);
            out.1.push(evidence);
            out.2.push(Form::Tree(before));
        }
        out
    }
}

fn joined(steps: impl Iterator<Item = String>) -> String {
    steps.filter(|s| !s.is_empty()).collect::<Vec<_>>().join(" ; ")
}

/// The best schedule of a nest, if one is clearly better than none; why there is none at all.
fn best(
    set: &Setting,
    func: &Function,
    path: &Path,
    sizes: &BTreeMap<String, i64>,
    cost: &dyn Fn(&Function) -> f64,
) -> Result<Option<Made>, Diagnostic> {
    let whole = Made::of(func);
    let nothing = Stmt::seq(Vec::new());
    let rest = visit::replace_at(&func.body, path, nothing)
        .map_or(0.0, |body| cost(&Function { body, ..func.clone() }));
    let clearly = if reduces(func, path) { CLEARLY[0] } else { CLEARLY[1] };
    let least = rest + (cost(func) - rest) * clearly;
    let mut best: Option<(f64, Made)> = None;
    let runs = |f: &Function| Engine::any_takes(set.module, f).is_ok();
    let ran = runs(func);
    let mut offer = |made: Option<Made>| {
        // Lanes that write one element and the like are legal, and no engine takes them.
        if let Some(made) = made.filter(|m| !ran || runs(&m.func)) {
            let c = cost(&made.func);
            if c < best.as_ref().map_or(least, |b| b.0) {
                best = Some((c, made));
            }
        }
    };
    offer(sums::in_lanes(set, &whole, path));
    let refused = match apart(set, &whole, path, sizes) {
        Ok(start) => affine(set, &start, path, (least, cost), &mut offer).err(),
        Err(d) => Some(d),
    };
    match (best, refused) {
        (Some((_, made)), _) => Ok(Some(made)),
        (None, Some(d)) => Err(d),
        (None, None) => Ok(None),
    }
}

/// Offers affine schedules of a nest: the model ranks what the step would make; only the best ones are checked.
fn affine(
    set: &Setting,
    start: &Made,
    path: &Path,
    (least, cost): (f64, &dyn Fn(&Function) -> f64),
    offer: &mut dyn FnMut(Option<Made>),
) -> Result<(), Diagnostic> {
    let all = candidates(set, &start.func, path);
    let cursor = Cursor { focus: path.clone(), ..Cursor::new(set.module, &start.func) };
    let (mut ranked, mut refused) = (Vec::new(), None);
    for (args, proposal) in all.iter().zip(lathe_transform::affine_schedule::proposals(&cursor, &all)) {
        match proposal {
            Ok(f) => ranked.push((cost(&f), args)),
            Err(r) => refused = refused.or(Some(*r.diagnostic)),
        }
    }
    if let Some(d) = refused.filter(|_| ranked.is_empty()) {
        return Err(d);
    }
    ranked.retain(|r| r.0 < least);
    ranked.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut refused = None;
    for (_, args) in ranked.into_iter().take(CHECKED) {
        match start.then(set, path, "affine_schedule", args) {
            Ok(made) => {
                offer(Some(made));
                refused = None;
                break;
            }
            Err(d) => refused = refused.or(Some(d)),
        }
    }
    // What is reduced may run innermost in another order.
    if reduces(&start.func, path)
        && let Ok(made) = start.then(set, path, "affine_schedule", &Args::default())
    {
        offer(sums::in_lanes(set, &made, path));
    }
    refused.map_or(Ok(()), Err)
}

fn reduces(func: &Function, path: &Path) -> bool {
    visit::at(&func.body, path).is_some_and(|s| has(s, &|s| s.as_reduce().is_some()))
}

/// Variables that are declared around inner loops get an element per iteration, so that they tie no iterations together.
pub(super) fn apart(
    set: &Setting,
    start: &Made,
    path: &Path,
    sizes: &BTreeMap<String, i64>,
) -> Result<Made, Diagnostic> {
    let mut made = start.clone();
    let nest = visit::at(&start.func.body, path);
    let Some((nest, outer)) = nest.and_then(|n| Some((n, n.as_loop()?))) else { return Ok(made) };
    let mut around: Vec<String> = Vec::new();
    visit::walk(nest, &mut |s, _| {
        around.extend(
            s.as_alloc().filter(|a| has(a.1, &|s| s.as_loop().is_some())).map(|a| a.0.name.to_string()),
        );
        true
    });
    // The step takes all of one name.
    around.sort();
    around.dedup();
    for name in around {
        let mut args = Args::default();
        args.push(None, Arg::Path(name));
        args.push(Some("at"), Arg::Path(outer.binder.name.to_string()));
        made = made.then(set, path, "expand", &args)?;
    }
    let values: HashMap<_, _> =
        made.func.sizes.iter().filter_map(|b| Some((b.id, *sizes.get(&*b.name)?))).collect();
    let bytes = |b: &Buffer| {
        let cells = b.extents.iter().map(|e| evaluate(e, &values).unwrap_or(i64::MAX));
        cells.fold(b.elem.bytes() as i64, i64::saturating_mul)
    };
    let mut here = visit::at(&made.func.body, path);
    let mut total = 0i64;
    while let Some((b, inside)) = here.and_then(Stmt::as_alloc) {
        total = total.saturating_add(bytes(b));
        here = Some(inside);
    }
    if total > EXPANDED {
        let text = "its variables would take too much memory with an element per iteration";
        return Err(Diagnostic::error(lathe_transform::codes::UNSUPPORTED, text.to_string()));
    }
    Ok(made)
}

fn has(s: &Stmt, what: &dyn Fn(&Stmt) -> bool) -> bool {
    let mut found = false;
    visit::walk(s, &mut |s, _| {
        found |= what(s);
        !found
    });
    found
}

/// The outermost loops in which nobody has made lanes yet.
fn nests(body: &Stmt) -> Vec<Path> {
    let mut out = Vec::new();
    visit::walk(body, &mut |s, p| {
        if s.as_loop().is_some_and(|l| l.exec == lathe_ir::Executor::Serial) && visit::leaves_lanes(s) {
            out.push(p.to_vec());
        }
        s.as_loop().is_none()
    });
    out
}

fn label(body: &Stmt, path: &Path) -> String {
    let mut out = None;
    if let Some(s) = visit::at(body, path) {
        visit::walk(s, &mut |s, _| {
            out = out.take().or_else(|| s.label().map(ToString::to_string));
            out.is_none()
        });
    }
    out.unwrap_or_default()
}

/// Arguments worth trying: lanes of the elements that are written, alone, with results in registers, with tiles.
fn candidates(set: &Setting, func: &Function, path: &Path) -> Vec<Args> {
    let Some(nest) = visit::at(&func.body, path) else { return Vec::new() };
    let (mut bytes, mut depth) = (8, 0);
    visit::walk(nest, &mut |s, p| {
        bytes = s.accesses().map(|(a, _)| a.elem.bytes() as i64).fold(bytes, |n, b| n.min(b.max(1)));
        if s.label().is_some() {
            let above =
                (0..=p.len()).filter(|n| visit::at(nest, &p[..*n]).is_some_and(|s| s.as_loop().is_some()));
            depth = depth.max(above.count());
        }
        true
    });
    let lanes = (set.machine.vector_bytes as i64 / bytes).max(2);
    let of = |all: &[(&str, i64)], fuse: Option<&str>| {
        let mut args = Args::default();
        all.iter().for_each(|(n, v)| args.push(Some(n), Arg::Int(*v)));
        fuse.iter().for_each(|f| args.push(Some("fuse"), Arg::Path((*f).to_string())));
        args
    };
    let mut out = vec![of(&[("vector", lanes)], None)];
    if depth > 1 {
        out.push(of(&[("vector", lanes)], Some("none")));
    }
    if depth > 2 && reduces(func, path) {
        out.push(of(&[("vector", 2 * lanes), ("jam", JAM)], None));
        out.push(of(&[("vector", 2 * lanes), ("jam", JAM)], Some("none")));
        out.push(of(&[("vector", 2 * lanes), ("jam", JAM), ("tile", TILE)], None));
    }
    out
}
