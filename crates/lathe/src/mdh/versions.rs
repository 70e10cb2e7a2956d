//! The versions that a strategy with decisions makes: one for the sizes that are known, and the loops as written for
//! all others. Where sizes are not known, see [`super::any`].

use super::any::any;
use super::calls::calls;
use super::expand::{Chosen, Expander, Taken, why};
use super::forms::{self, Asked, Start};
use super::made::Made;
use super::setting::{Setting, Wanted, labels};
use super::space::FreeSpace;
use super::{DEFAULT_MODEL, STEP};
use super::{batches, cores, mapped, nests, raise, reductions};
use crate::applied::{Form, Progress, Version, on_loops};
use crate::parallel::each_in_turn;
use crate::schedule::specialize;
use lathe_diagnostics::Diagnostic;
use lathe_ir::Function;
use lathe_mdh::auto::{Auto, in_sequence};
use lathe_mdh::{Decisions, Homomorphism, Model};
use lathe_poly::simplify::simplify_function;
use lathe_space::{BinOp, Expr, Value, ValueRange, eval};
use lathe_strategy::{ArgValue, Argument, Context, Refusal, Strategy};
use lathe_target::Machine;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

/// The versions of one branch of a strategy.
///
/// # Errors
/// What is wrong with a step `mdh(…)`, which rule its decisions break, and what a step on loops refuses; none of that
/// if the strategy is lenient.
pub(crate) fn versions(
    w: &Wanted,
    context: &Context,
    branch: &lathe_strategy::Version,
) -> Result<Vec<Version>, Diagnostic> {
    let as_written = |cond: Option<Expr>, notes: Vec<String>| {
        let (func, steps, forms) =
            on_loops(w.set.module, w.set.func, context, &Strategy::Id).map_err(|r| *r.diagnostic)?;
        Ok(Version { notes, ..Version::new(cond, func, steps, forms) })
    };
    if let Some(name) = w.set.model {
        super::load_model(name, Path::new(""))?;
    }
    let open: Vec<&str> = w.set.func.sizes.iter().map(|b| &*b.name).collect();
    let known: BTreeMap<String, i64> =
        open.iter().filter_map(|n| w.sizes.get(*n).map(|v| (n.to_string(), *v))).collect();
    let value = |n: &str| known.get(n).map(|v| Value::Int(*v));
    let holds = |c: &Expr| eval(c, &value) == Ok(Value::Bool(true));
    if known.len() < open.len() || !branch.cond.as_ref().is_none_or(holds) {
        let expander = Expander::new(&w.set, context);
        for step in calls(context, &branch.strategy)? {
            match expander.check_form(&step.args, step.span) {
                Err(_) if w.lenient || step.lenient => {}
                other => other?,
            }
        }
        if w.lenient && w.set.params.is_empty() && branch.cond.is_none() && known.len() < open.len() {
            return any(w, context, &known, best);
        }
        let missing: Vec<&str> = open.iter().filter(|n| !known.contains_key(**n)).copied().collect();
        let note = match missing.as_slice() {
            [] => "decisions are for other sizes: the loops are as written".to_string(),
            _ => format!("decisions need sizes ({} not given): the loops are as written", missing.join(", ")),
        };
        return Ok(vec![as_written(branch.cond.clone(), vec![note])?]);
    }
    let func = if open.is_empty() { w.set.func.clone() } else { specialize(w.set.func, &known)? };
    let set = Setting { func: &func, ..w.set };
    let none = BTreeMap::new();
    let own = w.set.model.is_none_or(|m| m == DEFAULT_MODEL);
    let made = match w.lenient && (own || w.set.params.is_empty()) {
        true => best(&set, context, &none),
        false => exactly(&set, context, &branch.strategy),
    };
    let mut first = made?;
    if open.is_empty() {
        first.condition = branch.cond.clone();
        return Ok(vec![first]);
    }
    let whole = w.others && w.lenient && branch.cond.is_none();
    // The loops as written need no code of their own for these sizes.
    if w.lenient && branch.cond.is_none() && first.taken.is_nothing() {
        let others = match w.others {
            true => any(w, context, &known, best)?,
            false => vec![as_written(None, first.notes.clone())?],
        };
        if others.iter().all(|v| v.taken.is_nothing()) {
            return Ok(others);
        }
    }
    first.condition = Some(exactly_these(&known));
    let mut all = vec![first];
    if whole {
        all.extend(any(w, context, &known, best)?);
        all[1..].iter_mut().for_each(|v| v.notes.clear());
    } else {
        all.push(as_written(branch.cond.clone(), Vec::new())?);
    }
    all[0].baked = known;
    Ok(all)
}

/// The model of the devices that forms are written for.
const FORMS: &str = "cuda";

/// `I == 10 and J == 500`
pub(super) fn exactly_these(sizes: &BTreeMap<String, i64>) -> Expr {
    let one = |(n, v): (&String, &i64)| {
        Expr::Binary(BinOp::Eq, Box::new(Expr::Name(n.clone())), Box::new(Expr::Value(Value::Int(*v))))
    };
    let and = |a, b| Expr::Binary(BinOp::And, Box::new(a), Box::new(b));
    sizes.iter().map(one).reduce(and).unwrap_or(Expr::Value(Value::Bool(true)))
}

/// Every step as it is said.
fn exactly(set: &Setting, context: &Context, strategy: &Strategy) -> Result<Version, Diagnostic> {
    let start = Instant::now();
    let mut expander = Expander::new(set, context);
    let strategy = expander.strategy(strategy)?;
    let taken = taken(expander.chosen, &strategy, start);
    let (func, steps, forms) =
        on_loops(set.module, set.func, context, &strategy).map_err(|r| *r.diagnostic)?;
    Ok(Version { taken, notes: expander.notes, ..Version::new(None, func, steps, forms) })
}

fn taken(computes: Vec<Chosen>, strategy: &Strategy, start: Instant) -> Taken {
    Taken { computes, strategy: strategy.to_string(), seconds: start.elapsed().as_secs_f64() }
}

/// Decisions for every compute that takes some, and a schedule for every other nest that gains by one; the rest is
/// left as written, with a note that says why. `sizes` are examples of those that the function still has.
pub(super) fn best(
    set: &Setting,
    context: &Context,
    sizes: &BTreeMap<String, i64>,
) -> Result<Version, Diagnostic> {
    let start = Instant::now();
    if sizes.is_empty() && set.params.is_empty() && set.model.is_some_and(nests::for_devices) {
        return on_device(set, context);
    }
    let asked = Asked::of(set.params);
    let Some((_, mut v)) = formed(set, context, sizes, &asked)? else {
        return one_by_one(set, context, &[]);
    };
    if set.params.is_empty() {
        v = on_cores(set, context, sizes, v)?;
    } else if asked.cores {
        v = cores::placed(set, v, sizes);
    }
    v = batches::fused(set, v, sizes);
    if v.taken.is_nothing() {
        v.notes.extend(reductions::hints(set));
    }
    if v.taken.is_nothing() && v.notes.is_empty() {
        v.notes.push("nothing is expected to be faster than the loops as written".to_string());
    }
    v.func = simplify_function(&v.func);
    v.forms.push(Form::Tree(v.func.clone()));
    v.taken.seconds = start.elapsed().as_secs_f64();
    Ok(v)
}

/// The form that the model takes, or that a search asks for, by its name, with decisions and schedules. None, where not all
/// steps of the kernel's decisions can be done.
fn formed(
    set: &Setting,
    context: &Context,
    sizes: &BTreeMap<String, i64>,
    asked: &Asked,
) -> Result<Option<(&'static str, Version)>, Diagnostic> {
    let set = &Setting { params: &asked.decisions, ..*set };
    let of_nest =
        |set: &Setting, made: &Made, path: &_| forms::scheduled(set, made, path, sizes, &asked.schedules);
    let decide = |set: &Setting| -> Result<Option<Version>, Diagnostic> {
        let made = decided(set, context, sizes)?;
        made.map(|made| nests::scheduled(set, made, sizes, &of_nest)).transpose()
    };
    let all = forms::forms(set, sizes, asked.form());
    let mut made = each_in_turn(&all, |form| -> Result<Option<Version>, Diagnostic> {
        let plain = || run(set, context, &Strategy::Id).map_err(|r| *r.diagnostic);
        Ok(match &form.1 {
            Start::Written => decide(set)?,
            Start::Loops => Some(nests::scheduled(set, plain()?, sizes, &of_nest)?),
            Start::Done(made) => Some(made.clone().after(plain()?)),
            Start::Decided(made) => {
                decide(&Setting { func: &made.func, ..*set })?.map(|other| made.clone().before(other))
            }
        })
    })
    .into_iter();
    let Some((first, v)) = all.first().zip(made.next()) else {
        let text = format!("there is no form `{}` of `{}`", asked.form().unwrap_or_default(), set.func.name);
        return Err(Diagnostic::error(lathe_mdh::codes::FREE, text));
    };
    let Some(mut best) = v?.map(|v| (first.0, v)) else { return Ok(None) };
    let simple = |v: &Version| simplify_function(&v.func);
    let cycles = |f: &Function| lathe_model::estimate(f, sizes, set.machine).cycles();
    let mut least = cycles(&simple(&best.1));
    for ((name, start), other) in all.iter().skip(1).zip(made) {
        let Some(other) = other? else { continue };
        let func = simple(&other);
        let more = matches!(start, Start::Done(_) | Start::Decided(_));
        if cycles(&func) < least && (!more || nests::takes_no_more(&func, set.func, sizes)) {
            (least, best) = (cycles(&func), (*name, other));
        }
    }
    Ok(Some(best))
}

/// The version with those loops on threads that the whole function gains by; if there are none left, what is best on one thread.
fn on_cores(
    set: &Setting,
    context: &Context,
    sizes: &BTreeMap<String, i64>,
    v: Version,
) -> Result<Version, Diagnostic> {
    let some = cores::has_threads(&v.func.body);
    let placed = cores::placed(set, v, sizes);
    if !some || cores::has_threads(&placed.func.body) {
        return Ok(placed);
    }
    let machine = Machine { threads: 1, ..set.machine.clone() };
    let alone = best(&Setting { machine: &machine, ..*set }, context, sizes)?;
    let cost = |v: &Version| lathe_model::estimate(&simplify_function(&v.func), sizes, &machine).cycles();
    Ok(if cost(&alone) <= cost(&placed) { alone } else { placed })
}

/// For a device: loops that are equivalent to index notation are raised to it, every compute is decided for itself, and
/// all loops that are left are mapped.
fn on_device(set: &Setting, context: &Context) -> Result<Version, Diagnostic> {
    let start = Instant::now();
    let none = BTreeMap::new();
    let recognized = reductions::recognized(set);
    let raised = match &recognized {
        None => raise::raised(set, &none),
        Some(made) => {
            let raised = raise::raised(&Setting { func: &made.func, ..*set }, &none);
            raised.map(|raised| made.clone().followed_by(raised))
        }
    };
    let made = raised.or(recognized);
    let func = made.as_ref().map_or(set.func, |m| &m.func);
    let from = Setting { func, ..*set };
    let version = |inside: &[String]| -> Result<Version, Diagnostic> {
        Ok(mapped::mapped(set, one_by_one(&from, context, inside)?))
    };
    // The host starts no grid where data on the device decide.
    let by_data = nests::computes_under_data(func);
    let mut v = version(&by_data)?;
    // Kernels inside of loops are launched in every iteration; the loops may have iterations for one kernel.
    let mut inside = nests::computes_in_loops(func);
    inside.retain(|l| !by_data.contains(l));
    if !inside.is_empty() {
        inside.extend(by_data);
        let other = version(&inside)?;
        if mapped::expected(&other.func) < mapped::expected(&v.func) * mapped::CLEARLY {
            v = other;
        }
    }
    if let Some(made) = made {
        v = made.before(v);
    }
    v.taken.seconds = start.elapsed().as_secs_f64();
    Ok(v)
}

/// What a strategy makes; the tree is as its steps left it.
pub(super) fn run(set: &Setting, context: &Context, strategy: &Strategy) -> Result<Version, Refusal> {
    let (tree, trace) = lathe_transform::run(set.module, set.func, context, strategy)?;
    let before = trace.trees.into_iter().map(|t| Form::Tree(t.func)).collect();
    Ok(Version::new(None, tree, trace.steps, before))
}

/// Decisions for every compute that takes some; its tree is as the steps left it. None, where not all of these steps can
/// be done.
fn decided(
    set: &Setting,
    context: &Context,
    sizes: &BTreeMap<String, i64>,
) -> Result<Option<Version>, Diagnostic> {
    let start = Instant::now();
    let as_written = |notes: Vec<String>| match run(set, context, &Strategy::Id) {
        Ok(v) => Ok(Some(Version { notes, ..v })),
        Err(r) => Err(*r.diagnostic),
    };
    if labels(set.func).is_empty() {
        return as_written(Vec::new());
    }
    let decided = match together(set, sizes) {
        // A search is told what is wrong with its values.
        Err(d) if !set.params.is_empty() => return Err(d),
        other => other.ok(),
    };
    if let Some((parts, chosen, notes)) = decided {
        let strategy = in_sequence(parts.iter().map(|p| &p.1));
        match run(set, context, &strategy) {
            Ok(v) => {
                let taken = taken(chosen, &strategy, start);
                return Ok(Some(Version { taken, notes, ..v }));
            }
            Err(r) if !set.params.is_empty() => return Err(*r.diagnostic),
            Err(_) => {
                if let Some(v) = as_far_as_possible(set, context, parts, (chosen, notes)) {
                    return Ok(Some(v));
                }
            }
        }
    }
    if sizes.is_empty() {
        return Ok(None);
    }
    as_written(vec![format!("decisions need sizes ({}): the loops are as written", names(sizes))])
}

/// Parts of a strategy of which one or the other is refused: all others, where they still decide a compute; a note says
/// why one has no decisions.
fn as_far_as_possible(
    set: &Setting,
    context: &Context,
    parts: Parts,
    (mut chosen, mut notes): (Vec<Chosen>, Vec<String>),
) -> Option<Version> {
    let start = Instant::now();
    let mut kept = Vec::new();
    let mut on = Progress::begin(set.module, set.func, context).ok()?;
    for (label, steps) in parts {
        match on.then(context, &in_sequence([&steps])) {
            Ok(()) => kept.push(steps),
            Err(r) => {
                if let Some(label) = label {
                    chosen.retain(|c| c.compute != label);
                    notes.push(why(&label, &r.diagnostic));
                }
            }
        }
    }
    let taken = taken(chosen, &in_sequence(&kept), start);
    let (func, steps, forms) = on.plain();
    let some = !kept.is_empty() && !taken.computes.is_empty();
    some.then(|| Version { taken, notes, ..Version::new(None, func, steps, forms) })
}

fn names(sizes: &BTreeMap<String, i64>) -> String {
    sizes.keys().map(String::as_str).collect::<Vec<_>>().join(", ")
}

/// Steps by the compute whose decisions they are, if they are one's.
type Parts = Vec<(Option<String>, Strategy)>;

/// What the cost model says of the whole function, changed by values of a search.
///
/// # Errors
/// Which rule these values break; `E1222` where another model than that of CPUs is asked for.
fn together(
    set: &Setting,
    sizes: &BTreeMap<String, i64>,
) -> Result<(Parts, Vec<Chosen>, Vec<String>), Diagnostic> {
    let auto = whole(set, sizes)?;
    let model = Model::named(DEFAULT_MODEL)?;
    let (mut chosen, mut notes) = (Vec::new(), Vec::new());
    for (label, decided) in &auto.computes {
        match decided {
            Ok(d) => {
                let h = Homomorphism::of(set.module, &auto.func, Some(label))?;
                chosen.push(Chosen::new(&h, &model, &Decisions::free(&h, &model), d));
            }
            Err(d) => notes.push(why(label, d)),
        }
    }
    Ok((auto.parts, chosen, notes))
}

/// The parameters of `auto` for a function whose sizes are constants: the decisions and schedules of the form that the model
/// takes.
///
/// # Errors
/// As [`together`].
pub(crate) fn auto_space(set: &Setting, context: &Context) -> Result<FreeSpace, Diagnostic> {
    let none = BTreeMap::new();
    let asked = Asked::default();
    let (name, taken) = match formed(set, context, &none, &asked)? {
        Some((name, v)) => (name, Some(v)),
        None => (forms::WRITTEN, None),
    };
    let start = forms::forms(set, &none, Some(name)).pop().map(|f| f.1);
    let func = match &start {
        Some(Start::Decided(made)) => &made.func,
        _ => set.func,
    };
    let of = Setting { func, ..*set };
    let mut out = FreeSpace::default();
    let mut before = None;
    match start {
        Some(Start::Done(_)) => {}
        Some(Start::Loops) => before = run(&of, context, &Strategy::Id).ok(),
        Some(Start::Decided(_) | Start::Written) | None => {
            out = decisions(&of)?;
            before = decided(&of, context, &none)?;
        }
    }
    let mut kept = before.map_or(Vec::new(), |v| forms::schedules(&of, &v, &none));
    if name != forms::WRITTEN && out.def.params.is_empty() && kept.is_empty() {
        // It has nothing to search, but the kernel as it is written may have.
        out = decisions(set)?;
        kept.extend(Some(forms::or_written(name)).filter(|_| !out.def.params.is_empty()));
    } else if !out.def.params.is_empty() || !kept.is_empty() {
        kept.extend(forms::form(name));
        let placed = taken.map(|v| (cores::placed(set, v.clone(), &none).func != v.func, v));
        kept.extend(placed.filter(|p| p.0).map(|_| forms::cores()));
    }
    for p in kept {
        if let ValueRange::Set(values) = &p.values {
            out.start.extend(values.first().map(|v| (p.name.clone(), v.clone())));
        }
        out.def.params.push(p);
    }
    Ok(out)
}

/// The decisions of a function whose sizes are constants that have more than one value.
fn decisions(set: &Setting) -> Result<FreeSpace, Diagnostic> {
    let auto = whole(set, &BTreeMap::new())?;
    let mut def = auto.space;
    def.params.retain(|p| !matches!(&p.values, ValueRange::Set(v) if v.len() < 2));
    Ok(FreeSpace { def, start: auto.start })
}

fn whole(set: &Setting, sizes: &BTreeMap<String, i64>) -> Result<Auto, Diagnostic> {
    if let Some(other) = set.model.filter(|m| *m != DEFAULT_MODEL) {
        let text =
            format!("the decisions of a whole function are for the model `{DEFAULT_MODEL}`, not `{other}`");
        return Err(
            Diagnostic::error(lathe_mdh::codes::UNSUPPORTED, text).help("use a step `mdh(…)` per compute")
        );
    }
    let setting = lathe_mdh::choose::Setting {
        machine: set.machine,
        threads: set.machine.threads,
        exact: sizes.is_empty(),
    };
    lathe_mdh::auto::searched(set.module, set.func, sizes, &setting, set.params)
}

/// Every compute for itself, `but` some: one that is refused costs only its own decisions. On CUDA's devices, forms come
/// first.
fn one_by_one(set: &Setting, context: &Context, but: &[String]) -> Result<Version, Diagnostic> {
    let start = Instant::now();
    let (mut notes, mut kept, mut chosen) = (Vec::new(), Vec::new(), Vec::new());
    let mut on = Progress::begin(set.module, set.func, context).map_err(|r| *r.diagnostic)?;
    let wanted = set.model == Some(FORMS) && set.params.is_empty();
    let forms = |whole| lathe_mdh::auto::device::forms(set.module, set.func, &set.machine.code, whole);
    let mut made = wanted.then(|| forms(false));
    if let Some(m) = made.as_ref().filter(|m| !m.first.is_empty()) {
        match on.then(context, &Strategy::Seq(m.first.clone())) {
            Ok(()) => kept.extend(m.first.iter().cloned()),
            Err(_) => made = Some(forms(true)),
        }
    }
    let (func, forms) = made.map_or((set.func.clone(), Vec::new()), |m| (m.func, m.forms));
    let inner = Setting { func: &func, ..*set };
    let mut left = labels(&func);
    left.retain(|l| !but.contains(l));
    for form in forms {
        if !form.labels.iter().all(|l| left.contains(l)) {
            continue;
        }
        let strategy = form.after(on.func());
        if on.then(context, &strategy).is_ok() {
            kept.push(strategy);
            left.retain(|l| !form.labels.contains(l));
        }
    }
    for label in left {
        let mut expander = Expander::new(&inner, context);
        let of = Argument {
            name: Some("of".to_string()),
            value: ArgValue::Expr(Expr::Name(label.clone())),
            span: None,
        };
        let step = Strategy::Call { name: STEP.to_string(), args: vec![of], span: None };
        match expander.strategy(&step) {
            Ok(s) => match on.then(context, &s) {
                Ok(()) => {
                    kept.push(s);
                    chosen.extend(expander.chosen);
                }
                Err(r) => notes.push(why(&label, &r.diagnostic)),
            },
            Err(d) => notes.push(why(&label, &d)),
        }
    }
    let (func, steps, forms) = on.simplified();
    let taken = taken(chosen, &Strategy::Seq(kept), start);
    Ok(Version { taken, notes, ..Version::new(None, func, steps, forms) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use lathe_space::Values;
    use lathe_strategy::Definitions;
    use lathe_target::Machine;

    struct Alone;

    impl lathe_lang::Resolver for Alone {
        fn load(&mut self, _: &str, name: &str) -> Result<(String, String), String> {
            Err(format!("there is no file {name}"))
        }
    }

    #[test]
    fn one_refused_step_costs_one_computes_decisions() {
        let text = "kernel two(A: f64[64, 64]) -> (B: f64[64, 64], C: f64[64, 64]) {
            B[i, j] = A[i, j] + 1\n C[i, j] = A[i, j] * 2\n }";
        let mut map = lathe_diagnostics::SourceMap::new();
        let (p, _) = lathe_lang::load(&mut map, "two.lathe", text, &mut Alone).expect("is a program");
        let machine = Machine::named("x86-64-v3").expect("is known");
        let params = Values::new();
        let func = p.module.functions.values().next().expect("has a kernel");
        let set = Setting {
            module: &p.module,
            func,
            machine: &machine,
            model: None,
            folder: Path::new(""),
            params: &params,
        };
        let (mut parts, chosen, notes) = together(&set, &BTreeMap::new()).expect("decides");
        let one = parts.iter_mut().find(|p| p.0.as_deref() == Some("B")).expect("has decisions");
        one.1 = Strategy::Seq(vec![one.1.clone(), Strategy::Fail("no".to_string())]);
        let none = Definitions::default();
        let facts = |_: &str| None;
        let v = as_far_as_possible(&set, &Context::new(&none, Some("two"), &facts), parts, (chosen, notes));
        let v = v.expect("C has decisions");
        assert_eq!(v.taken.computes.iter().map(|c| c.compute.as_str()).collect::<Vec<_>>(), ["C"]);
        assert!(
            v.taken.strategy.contains("vectorize(C.") && !v.taken.strategy.contains("vectorize(B."),
            "{}",
            v.taken.strategy
        );
        assert!(v.notes[0].contains("`B`") && v.notes[0].contains("E0611"), "{:?}", v.notes);
    }
}
