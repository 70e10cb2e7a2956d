//! `--check`: results beside a reference run of the program as written.
//!
//! Every element is compared by itself. Where no step changed the order of a sum or the rounding of a statement, it
//! must have the same bits; elsewhere it may differ by what the length of its computation admits (see
//! [`approx`]), which is found by a second run of the program on numbers with bounds ([`shadow`]).
//!
//! The reference is the interpreter. What it cannot afford as a whole it computes at blocks of the results
//! ([`mod@slice`]); beside that all elements are compared with unoptimized code, as long as that does not take minutes.

pub mod approx;
mod facts;
pub mod shadow;
pub mod slice;

pub use facts::check_facts;

use crate::build::{Build, compile_tree};
use crate::codes;
use crate::convert::to_values;
use crate::data::Data;
use crate::report::CheckReport;
use crate::schedule::Schedule;
use lathe_diagnostics::Diagnostic;
use lathe_ir::interp::{self, ArrayValue};
use lathe_ir::scalar::ScalarValue;
use lathe_ir::stmt::{AtomicOp, MemoryOrder};
use lathe_ir::{Function, Mode, Module, StmtKind, visit};
use lathe_model::count::Values;
use lathe_runtime::{Array, Pool};
use lathe_strategy::Discharge;
use shadow::{Computed, Number};
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

/// What a reference run may cost, in expressions that are evaluated.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Beyond it the interpreter computes blocks of the results only.
    pub whole: f64,
    /// All blocks together.
    pub blocks: f64,
    /// The run with bounds.
    pub bounds: u64,
    /// Beyond it unoptimized code takes too long where there are blocks to compare with.
    pub code: f64,
    /// Beyond it there is no reference where there are no blocks.
    pub refused: f64,
}

impl Limits {
    /// A part of the cost, from 0 to 1: a search for which there are few seconds checks fewer elements.
    #[must_use]
    pub fn part(self, part: f64) -> Limits {
        let bounds = (self.bounds as f64 * part) as u64;
        Limits {
            whole: self.whole * part,
            blocks: self.blocks * part,
            bounds,
            code: self.code * part,
            ..self
        }
    }
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { whole: 1.5e8, blocks: 3e7, bounds: 100_000_000, code: MINUTES, refused: MINUTES }
    }
}

/// Unoptimized code that evaluates more than this takes minutes.
const MINUTES: f64 = 1e11;

/// Cells of arrays are set up in the time in which so many expressions are evaluated.
const SETTING_UP: f64 = 33.0;

/// What is known to be evaluated at most is so many times what is evaluated, at most: triangles, conditions.
const SURE: f64 = 8.0;

/// What was compared, with the first difference.
#[derive(Clone, Debug)]
pub struct Checked {
    pub report: CheckReport,
    /// The first element that is wrong, or that differs: as `C[1, 2]: got, expected`.
    pub first: Option<String>,
    /// Claims of the strategy's steps that were only tested, not proved.
    pub tested: Vec<String>,
}

impl Checked {
    /// The message for a result that is wrong.
    pub fn diagnostic(&self, kernel: &str) -> Diagnostic {
        let d = Diagnostic::error(codes::WRONG_RESULT, format!("`{kernel}` gives a wrong result"))
            .note(self.first.clone().unwrap_or_default())
            .note(format!("compared with the {}", self.report.against));
        let report = "a bug in Lathe: please report it with the file, the strategy and the seed";
        match self.tested.is_empty() {
            true => d.help(format!("this is {report}")),
            false => self
                .tested
                .iter()
                .fold(d, |d, t| d.note(format!("only tested, not proved: {t}")))
                .help(format!("check whether what was only tested holds; if it does, this is {report}")),
        }
    }
}

/// Compares the outputs in `after` with a reference run on `before`.
///
/// # Errors
/// When the reference itself fails, and `E0920` where there is none in reasonable time.
pub fn check_result(
    schedule: &Schedule,
    build: &Build,
    before: Data,
    after: &Data,
    pool: &Pool,
) -> Result<Checked, Diagnostic> {
    Reference::new(schedule, build, before, pool)?.compare(schedule, after)
}

/// The claims of a schedule's steps that were only tested, each once.
fn tested(schedule: &Schedule) -> Vec<String> {
    let mut out = Vec::new();
    for step in schedule.steps() {
        for o in step.obligations.iter().filter(|o| o.by == Discharge::Tested) {
            let text = format!("`{}`: {}", step.rule, o.claim);
            if !out.contains(&text) {
                out.push(text);
            }
        }
    }
    out
}

/// What a call must give; computed once, compared with any number of runs of any schedule of the kernel.
pub struct Reference {
    module: Module,
    /// The program as written.
    plain: Function,
    before: Data,
    limits: Limits,
    /// Every output, by the interpreter or by unoptimized code.
    whole: Option<Vec<ArrayValue>>,
    by_interpreter: bool,
    parts: Vec<Part>,
    /// By the labels whose order or rounding a schedule changes.
    bounds: Mutex<HashMap<Vec<String>, Bounds>>,
}

/// How far elements may be from their values: for each part, or for the whole.
type Bounds = Arc<Vec<Option<Computed>>>;

/// Blocks of the outputs that the interpreter computed.
struct Part {
    func: Function,
    /// Parameter, element, and its scalars.
    elements: Vec<(usize, usize, Vec<ScalarValue>)>,
}

impl Reference {
    /// Runs the program as written on a copy of `before`.
    ///
    /// # Errors
    /// What the run says; `E0920` where it takes too long.
    pub fn new(
        schedule: &Schedule,
        build: &Build,
        before: Data,
        pool: &Pool,
    ) -> Result<Reference, Diagnostic> {
        Reference::within(schedule, build, before, pool, Limits::default())
    }

    /// As [`Reference::new`], at another cost.
    ///
    /// # Errors
    /// As [`Reference::new`].
    pub fn within(
        schedule: &Schedule,
        build: &Build,
        before: Data,
        pool: &Pool,
        limits: Limits,
    ) -> Result<Reference, Diagnostic> {
        let plain = &schedule.plain;
        let work = slice::work(&plain.body, &before.sizes);
        let cells: f64 = before.arrays.iter().map(|a| a.len() as f64).sum();
        let mut r = Reference {
            module: schedule.module.clone(),
            plain: plain.clone(),
            before,
            limits,
            whole: None,
            by_interpreter: false,
            parts: Vec::new(),
            bounds: Mutex::default(),
        };
        if work + cells <= limits.whole || work.is_infinite() {
            r.whole = r.interpreted(plain, work.is_infinite())?;
            r.by_interpreter = r.whole.is_some();
        }
        if r.whole.is_none() {
            r.sample(cells)?;
            if !r.parts.is_empty() && work > limits.code {
                return Ok(r);
            }
            if work.is_finite() && work > limits.refused {
                return Err(too_large(plain, work));
            }
            let naive = lathe_transform::open_all(&schedule.module, plain).map_err(|r| *r.diagnostic)?;
            let code = compile_tree(schedule, &naive, &Build { opt_level: 1, ..build.clone() })?;
            let mut run = r.before.duplicate()?;
            let mut views: Vec<_> = run.arrays.iter_mut().map(Array::view_mut).collect();
            code.call(pool, &mut views)?;
            r.whole = Some(to_values(&run.arrays)?);
        }
        Ok(r)
    }

    /// The arguments of a run of the interpreter.
    fn arguments(&self) -> Result<Vec<ArrayValue>, Diagnostic> {
        to_values(&self.before.arrays)
    }

    /// All outputs by the interpreter; none if it takes too long, which is only known afterwards where data decide.
    fn interpreted(&self, func: &Function, data_decide: bool) -> Result<Option<Vec<ArrayValue>>, Diagnostic> {
        let mut values = self.arguments()?;
        let max_steps = data_decide.then_some((self.limits.whole / 10.0) as u64);
        let options = interp::Options { max_steps, ..interp::Options::default() };
        match interp::run(&self.module, func, &mut values, &options) {
            Ok(_) => Ok(Some(values)),
            Err(f) if data_decide && f.diagnostic.code == interp::codes::LIMIT => Ok(None),
            Err(f) => Err(*f.diagnostic),
        }
    }

    /// Blocks of the outputs by the interpreter, if the function is made of what can be computed in blocks.
    fn sample(&mut self, cells: f64) -> Result<(), Diagnostic> {
        let func = crate::mdh::closed(&self.module, &self.plain);
        // Setting up a run touches all cells.
        let runs = (SETTING_UP * self.limits.blocks / cells.max(1.0)).clamp(2.0, 64.0) as usize;
        let (mut values, mut seen) = (self.arguments()?, HashSet::new());
        for s in slice::samples(&func, &self.before.sizes, 0, self.limits.blocks, runs) {
            for ((v, p), a) in values.iter_mut().zip(&func.params).zip(&self.before.arrays) {
                if p.mode == Mode::InOut {
                    *v = crate::convert::to_value(a)?;
                }
            }
            interp::run(&self.module, &s.func, &mut values, &interp::Options::default())
                .map_err(|f| *f.diagnostic)?;
            let mut elements = Vec::new();
            for b in &s.blocks {
                let v = &values[b.param];
                for at in slice::positions(b, &v.shape) {
                    if !v.is_defined(at) || !seen.insert((b.param, at)) {
                        continue;
                    }
                    let leaves = (0..v.ty.leaves().len()).filter_map(|l| v.leaf(at, l));
                    elements.push((b.param, at, leaves.collect()));
                }
            }
            self.parts.push(Part { func: s.func, elements });
        }
        Ok(())
    }

    /// How far elements may be from their values where a schedule changes the order or rounding of what is named.
    fn bounds(&self, named: &[String]) -> Bounds {
        if let Some(known) = self.bounds.lock().unwrap_or_else(PoisonError::into_inner).get(named) {
            return known.clone();
        }
        let of = |func: &Function| {
            // What is far beyond the limit would only reach it.
            if slice::work(&func.body, &self.before.sizes) > SURE * self.limits.bounds as f64 {
                return None;
            }
            let args = self.arguments().ok()?;
            bounds(&self.module, func, &self.before.sizes, &args, named, self.limits.bounds)
        };
        let made = Arc::new(match self.parts.is_empty() {
            true => vec![of(&self.plain)],
            false => self.parts.iter().map(|p| of(&p.func)).collect(),
        });
        self.bounds.lock().unwrap_or_else(PoisonError::into_inner).insert(named.to_vec(), made.clone());
        made
    }

    /// Compares the outputs of a call of a schedule: the same bits, unless it changes an order or a rounding.
    ///
    /// # Errors
    /// When memory is short.
    pub fn compare(&self, schedule: &Schedule, after: &Data) -> Result<Checked, Diagnostic> {
        let named = self.changed(schedule);
        let exact = named.is_empty();
        let mut tally = Tally::default();
        let got: Vec<Option<ArrayValue>> = self
            .outputs()
            .zip(&after.arrays)
            .map(|(out, a)| if out { crate::convert::to_value(a).map(Some) } else { Ok(None) })
            .collect::<Result<_, _>>()?;
        for (n, part) in self.parts.iter().enumerate() {
            for (param, at, want) in &part.elements {
                let Some(got) = &got[*param] else { continue };
                tally.elements += 1;
                for (leaf, w) in want.iter().enumerate() {
                    let Some(g) = got.leaf(*at, leaf) else { continue };
                    if same(g, *w) {
                        continue;
                    }
                    let bound = match exact {
                        true => None,
                        false => self.bounds(&named)[n].as_ref().map(|b| b.leaf(*param, *at, leaf)),
                    };
                    let name = self.plain.params[*param].name();
                    tally.differ(g, *w, Bound::of(bound, exact), || element(name, &got.shape, *at));
                }
            }
        }
        for (param, got) in got.iter().enumerate() {
            let (Some(got), Some(whole)) = (got, self.whole.as_ref().map(|w| &w[param])) else { continue };
            self.compare_whole(param, got, whole, &named, &mut tally);
        }
        let elements: usize = got.iter().flatten().map(ArrayValue::len).sum();
        let against = match (&self.whole, self.by_interpreter, self.parts.is_empty()) {
            (_, true, _) => "interpreter",
            (Some(_), _, true) => "unoptimized code",
            (Some(_), _, false) => "unoptimized code, samples with the interpreter",
            (None, ..) => "interpreter on samples",
        };
        Ok(Checked {
            report: CheckReport {
                against: against.to_string(),
                max_abs_error: tally.max_abs,
                max_rel_error: tally.max_rel,
                ok: tally.wrong.is_none(),
                elements,
                sampled: (!self.by_interpreter).then_some(tally.elements).filter(|_| !self.parts.is_empty()),
                same_bits: exact,
                of_bound: tally.share,
                undecided: tally.undecided,
                calls: 1,
            },
            first: tally.wrong.or(tally.first),
            tested: tested(schedule),
        })
    }

    /// The statements of the program whose order or rounding a schedule changes; everything that depends on atomic updates,
    /// which take place in any order.
    fn changed(&self, schedule: &Schedule) -> Vec<String> {
        let named = schedule.reassociates();
        match schedule.of_fun && !named.is_empty() || updates_in_any_order(&self.plain) {
            true => vec![EVERYTHING.to_string()],
            false => named,
        }
    }

    fn outputs(&self) -> impl Iterator<Item = bool> + '_ {
        self.plain.params.iter().map(|p| p.mode != Mode::In)
    }

    /// Every element of an output.
    fn compare_whole(
        &self,
        param: usize,
        got: &ArrayValue,
        whole: &ArrayValue,
        named: &[String],
        tally: &mut Tally,
    ) {
        // Equal bytes are equal values, found without making numbers of them.
        if got.bytes() == whole.bytes() {
            return;
        }
        let name = self.plain.params[param].name();
        let leaves = whole.ty.leaves().len();
        let mut loose: Option<Vec<f64>> = None;
        for at in 0..whole.len() {
            for leaf in 0..leaves {
                let (Some(g), Some(w)) = (got.leaf(at, leaf), whole.leaf(at, leaf)) else { continue };
                if same(g, w) {
                    continue;
                }
                let bound = if named.is_empty() {
                    Bound::Same
                } else if self.by_interpreter
                    && let Some(Some(b)) = self.bounds(named).first()
                {
                    Bound::of(Some(b.leaf(param, at, leaf)), false)
                } else {
                    let all = loose.get_or_insert_with(|| self.loose(param, whole, named));
                    Bound::Within(all[leaf])
                };
                tally.differ(g, w, bound, || element(name, &whole.shape, at));
            }
        }
    }

    /// Where elements have no bounds of their own: per leaf the largest bound of the samples; without samples `2 n u`
    /// times the largest magnitude, for `n` terms per result.
    fn loose(&self, param: usize, whole: &ArrayValue, named: &[String]) -> Vec<f64> {
        let leaves = whole.ty.leaves();
        let mut out = vec![0f64; leaves.len()];
        let mut sampled = false;
        for (part, bounds) in self.parts.iter().zip(self.bounds(named).iter()) {
            let Some(bounds) = bounds else { continue };
            for (p, at, _) in part.elements.iter().filter(|e| e.0 == param) {
                for (leaf, o) in out.iter_mut().enumerate() {
                    if let Number::Float(a) = bounds.leaf(*p, *at, leaf) {
                        sampled = true;
                        // Elements between may be larger than any that was looked at.
                        *o = o.max(SPREAD * a.error);
                    }
                }
            }
        }
        if sampled {
            return out;
        }
        let work = slice::work(&self.plain.body, &self.before.sizes);
        let terms = (work / whole.len().max(1) as f64).clamp(2.0, 1e12);
        for (leaf, (o, ty)) in out.iter_mut().zip(&leaves).enumerate() {
            let unit = approx::Format::of(*ty).map_or(0.0, |f| f.unit);
            let values = (0..whole.len()).filter_map(|at| whole.leaf(at, leaf)).map(ScalarValue::to_f64);
            let scale = values.filter(|v| v.is_finite()).fold(1f64, |m, v| m.max(v.abs()));
            *o = 4.0 * terms * unit * scale;
        }
        out
    }
}

/// How much larger than the sampled ones a bound may be for elements that were not sampled.
const SPREAD: f64 = 8.0;

fn too_large(func: &Function, work: f64) -> Diagnostic {
    let text =
        format!("this call of `{}` is too large to be checked: about {work:.0e} operations", func.name);
    Diagnostic::error(codes::TOO_LARGE, text)
        .note("its loops cannot be run for a sample of the results, so no reference run finishes in reasonable time")
        .help("check it with smaller sizes")
}

/// Equal in value and sign, or both NaN.
fn same(a: ScalarValue, b: ScalarValue) -> bool {
    a.bits == b.bits || (a.ty.is_float() && a.to_f64().is_nan() && b.to_f64().is_nan())
}

/// `C[1, 2]`
pub(crate) fn element(name: &str, shape: &[usize], at: usize) -> String {
    let (mut index, mut at) = (vec![0; shape.len()], at);
    for (i, n) in index.iter_mut().zip(shape).rev() {
        *i = at % (*n).max(1);
        at /= (*n).max(1);
    }
    format!("{name}{index:?}")
}

/// Whether sums of floats are updated by atomics, whose order differs from run to run.
fn updates_in_any_order(func: &Function) -> bool {
    let mut found = false;
    visit::walk(&func.body, &mut |s, _| {
        if let StmtKind::Atomic(a) = s.kind() {
            let adds = matches!(a.op, AtomicOp::Update(..)) && a.order != MemoryOrder::InOrder;
            found |= adds && a.target.elem.leaves().iter().any(|t| t.is_float());
        }
        !found
    });
    found
}

/// A name that no program has.
const EVERYTHING: &str = "";

/// What the outputs of a function may be in every evaluation that differs from the program in the order or rounding of
/// statements, which are named as evidence names them: by a label, or a family of them (`C` for `C.acc`); a name that
/// the program does not have stands for everything. None where the run evaluates more than `limit` expressions, or has
/// something that is not followed.
pub fn bounds(
    module: &Module,
    func: &Function,
    sizes: &Values,
    args: &[ArrayValue],
    named: &[String],
    limit: u64,
) -> Option<Computed> {
    let mut labels: Vec<String> = Vec::new();
    lathe_ir::visit::walk(&func.body, &mut |s, _| {
        labels.extend(s.label().map(ToString::to_string));
        true
    });
    let family = |a: &str, b: &str| a == b || a.strip_prefix(b).is_some_and(|r| r.starts_with('.'));
    let related = |a: &str, b: &str| family(a, b) || family(b, a);
    let all = !named.iter().all(|n| labels.iter().any(|l| related(l, n)));
    let inexact = |label: &str| all || named.iter().any(|n| related(label, n));
    let opened = lathe_transform::open_all(module, func).ok()?;
    shadow::run(module, &opened, sizes, args, &inexact, limit)
}

/// How far an element may be off.
enum Bound {
    /// It must have the same bits.
    Same,
    Within(f64),
    /// Rounding decides what it is.
    Undecided,
}

impl Bound {
    fn of(n: Option<Number>, exact: bool) -> Bound {
        match n {
            _ if exact => Bound::Same,
            Some(Number::Float(a)) if a.same => Bound::Same,
            // Both are within the error of the value.
            Some(Number::Float(a)) if a.error.is_finite() => Bound::Within(2.0 * a.error),
            Some(Number::Bits(_)) => Bound::Same,
            Some(Number::Float(_) | Number::Unknown) | None => Bound::Undecided,
        }
    }
}

/// What a comparison found.
#[derive(Default)]
struct Tally {
    elements: usize,
    max_abs: f64,
    max_rel: f64,
    share: Option<f64>,
    undecided: usize,
    first: Option<String>,
    wrong: Option<String>,
}

impl Tally {
    /// Counts two scalars that are not the same.
    fn differ(&mut self, got: ScalarValue, want: ScalarValue, bound: Bound, name: impl Fn() -> String) {
        let (g, w) = (got.to_f64(), want.to_f64());
        let shown = |why: &str| format!("{}: got {}, expected {}{why}", name(), shown(got), shown(want));
        let abs = (g - w).abs();
        // NaN against a number, or infinities that differ, are infinitely wrong.
        let abs = if abs.is_nan() { f64::INFINITY } else { abs };
        if matches!(bound, Bound::Undecided) {
            self.undecided += 1;
            return;
        }
        self.max_abs = self.max_abs.max(abs);
        if w != 0.0 {
            self.max_rel = self.max_rel.max(abs / w.abs());
        }
        if self.first.is_none() {
            self.first = Some(shown(""));
        }
        let zero = g == 0.0 && w == 0.0;
        let (fine, why) = match bound {
            Bound::Within(most) => {
                let share = if most > 0.0 { abs / most } else { f64::INFINITY };
                self.share = Some(self.share.unwrap_or(0.0).max(if zero { 0.0 } else { share }));
                (abs <= most || zero, format!(", within {most:.3e}"))
            }
            _ => (false, String::new()),
        };
        if !fine && self.wrong.is_none() {
            self.wrong = Some(shown(&why));
        }
    }
}

/// A scalar as messages show it.
pub(crate) fn shown(v: ScalarValue) -> String {
    if v.ty.is_float() { format!("{:?}", v.to_f64()) } else { v.to_i64().to_string() }
}
