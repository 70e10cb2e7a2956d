//! Would a rule that is wrong be found? Bugs are planted in what rules make: a bound, a copy, an order, a guard that
//! is not as it should be. Each must be found by what guards every rule: the verifier, the checker of what the rule
//! claims, runs beside the program before the step, or the checker of order. The programs are those of `tests/steps`.
//! `LATHE_CASES` sets how many bugs are tried.

mod facts;

use lathe_analysis::{Change as Step, Env, instances_preserved, order_preserved};
use lathe_diagnostics::Diagnostic;
use lathe_filetest::{Case, Front, Inputs, agree};
use lathe_ir::build::{add, boolean, index, le, not, sub, var};
use lathe_ir::ops::BinOp;
use lathe_ir::stmt::{Executor, Loop, StmtKind};
use lathe_ir::verify::verify_function;
use lathe_ir::visit::{Path, map_accesses, replace_at, substitute_stmt, vars_of, walk};
use lathe_ir::{Access, Expr, ExprKind, Function, Module, Stmt};
use lathe_strategy::evidence::Range;
use lathe_strategy::{Claim, Context, Definitions, Evidence, Formula, parse_strategy};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{Hash, Hasher};

struct Steps;

impl Front for Steps {
    fn apply(&self, module: &Module, func: &Function, steps: &str) -> Result<Function, Diagnostic> {
        trace(module, func, steps).map(|t| t.1)
    }
}

/// The trees before each step with what it left, and the last tree.
type Trees = (Vec<(Evidence, Function)>, Function);

fn trace(module: &Module, func: &Function, steps: &str) -> Result<Trees, Diagnostic> {
    let definitions = Definitions::default();
    let context = Context::new(&definitions, None, &facts::facts);
    let strategy = parse_strategy(steps)?;
    let (last, trace) = lathe_transform::run(module, func, &context, &strategy).map_err(|r| *r.diagnostic)?;
    let steps = trace.steps.iter().cloned();
    Ok((steps.zip(trace.trees.into_iter().map(|t| t.func)).collect(), last))
}

/// What one rule made of one tree.
struct Example {
    module: Module,
    rule: String,
    claims: Vec<Claim>,
    before: Function,
    after: Function,
    inputs: Vec<Inputs>,
}

fn examples() -> Vec<Example> {
    let checked = lathe_filetest::check(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/steps"), &Steps);
    let mut out = Vec::new();
    let mut seen = HashSet::new();
    for Case { module, before, steps, inputs, .. } in checked.into_iter().flat_map(|c| c.steps) {
        let (trees, last) = trace(&module, &before, &steps).unwrap_or_else(|d| panic!("{steps}: {d}"));
        let after = trees.iter().skip(1).map(|t| t.1.clone()).chain([last]);
        for ((evidence, before), after) in trees.iter().cloned().zip(after) {
            let (rule, hash) = (evidence.rule, lathe_ir::structural_hash);
            if hash(&before) != hash(&after) && seen.insert((rule.clone(), hash(&before), hash(&after))) {
                let (module, inputs) = (module.clone(), inputs.clone());
                let claims = evidence.obligations.into_iter().map(|o| o.claim).collect();
                out.push(Example { module, rule, claims, before, after, inputs });
            }
        }
    }
    out
}

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Change {
    OneMore,
    OneLess,
    OneLater,
    OtherStep,
    /// A store or a reduction is left out.
    Lost,
    WrittenBeside,
    ReadBeside,
    /// Statements, or nested loops, change places.
    Swapped,
    Nested,
    Backwards,
    AtOnce,
    /// A condition is left out, turned, or holds once more.
    Unguarded,
    Turned,
    Wider,
}

/// Bugs that are none, and why: rule, change, place.
const EQUIVALENT: [(&str, Change, usize, &str); 1] = [(
    "open",
    Change::Backwards,
    2,
    "a licensed sum of integers, in another order; the checker of order gives up, as outer loops share its instances",
)];

const CHANGES: [Change; 14] = [
    Change::OneMore,
    Change::OneLess,
    Change::OneLater,
    Change::OtherStep,
    Change::Lost,
    Change::WrittenBeside,
    Change::ReadBeside,
    Change::Swapped,
    Change::Nested,
    Change::Backwards,
    Change::AtOnce,
    Change::Unguarded,
    Change::Turned,
    Change::Wider,
];

impl Change {
    /// It changes nothing but the order: whether that matters is known exactly.
    fn is_of_order(self) -> bool {
        matches!(self, Change::Swapped | Change::Nested | Change::Backwards | Change::AtOnce)
    }

    /// The statement with this wrong, if it can be.
    fn plant(self, s: &Stmt) -> Option<Stmt> {
        let with = |kind: StmtKind| Some(Stmt::new(kind, s.places().clone()));
        let with_loop = |l: Loop| with(StmtKind::Loop(l));
        let l = || s.as_loop().cloned();
        match self {
            // An iteration that finds nothing to do inside does no harm.
            Change::OneMore => l()
                .filter(|l| !decides(&l.body, l))
                .and_then(|l| with_loop(Loop { hi: add(l.hi.clone(), index(1)), ..l })),
            Change::OneLess => l().and_then(|l| with_loop(Loop { hi: sub(l.hi.clone(), index(1)), ..l })),
            Change::OneLater => l().and_then(|l| with_loop(Loop { lo: add(l.lo.clone(), index(1)), ..l })),
            Change::OtherStep => l().and_then(|l| with_loop(Loop { step: l.step + 1, ..l })),
            Change::Lost => {
                let moves = matches!(s.kind(), StmtKind::Store(_) | StmtKind::Reduce(_));
                moves.then(|| Stmt::new(StmtKind::Seq(Vec::new()), s.places().clone()))
            }
            Change::WrittenBeside | Change::ReadBeside => beside(s, self == Change::WrittenBeside),
            Change::Swapped => match s.kind() {
                StmtKind::Seq(all) if all.len() > 1 => {
                    let mut all = all.clone();
                    let last = all.len() - 1;
                    all.swap(last - 1, last);
                    with(StmtKind::Seq(all))
                }
                _ => None,
            },
            Change::Nested => {
                let outer = l()?;
                let inner = outer.body.as_loop()?.clone();
                if [&inner.lo, &inner.hi].into_iter().any(|e| vars_of(e).contains(&outer.binder.id)) {
                    return None;
                }
                let own =
                    Stmt::new(StmtKind::Loop(Loop { body: inner.body.clone(), ..outer }), s.places().clone());
                with_loop(Loop { body: own, ..inner })
            }
            Change::Backwards => {
                let l = l().filter(|l| l.step == 1 && l.exec == Executor::Serial)?;
                let turned = sub(sub(add(l.lo.clone(), l.hi.clone()), index(1)), var(&l.binder));
                let body = substitute_stmt(&l.body, &HashMap::from([(l.binder.id, turned)]));
                with_loop(Loop { body, ..l })
            }
            Change::AtOnce => l()
                .filter(|l| l.exec == Executor::Serial)
                .and_then(|l| with_loop(Loop { exec: Executor::Cpu, ..l })),
            Change::Unguarded | Change::Turned | Change::Wider => {
                let StmtKind::If { cond, then, other } = s.kind() else { return None };
                let cond = match self {
                    Change::Unguarded => boolean(true),
                    Change::Turned => not(cond.clone()),
                    _ => match cond.kind() {
                        ExprKind::Binary(BinOp::Lt, a, b) => le(a.clone(), b.clone()),
                        _ => return None,
                    },
                };
                with(StmtKind::If { cond, then: then.clone(), other: other.clone() })
            }
        }
    }
}

/// Whether the variable of a loop decides whether anything in a statement happens.
fn decides(s: &Stmt, l: &Loop) -> bool {
    let mut found = false;
    walk(s, &mut |s, _| {
        let bounds: Vec<&Expr> = match (s.as_loop(), s.kind()) {
            (Some(inner), _) => vec![&inner.lo, &inner.hi],
            (None, StmtKind::If { cond, .. }) => vec![cond],
            _ => Vec::new(),
        };
        found |= bounds.into_iter().any(|e| vars_of(e).contains(&l.binder.id));
        true
    });
    found
}

/// The statement with the first subscript of what it writes, or of the first load of its value, one further.
fn beside(s: &Stmt, written: bool) -> Option<Stmt> {
    let (StmtKind::Store(_) | StmtKind::Reduce(_)) = s.kind() else { return None };
    let mut done = false;
    let mut seen = 0;
    let further = |a: &Access| {
        let mut indices = a.indices.clone();
        indices[0] = add(indices[0].clone(), index(1));
        Access { indices, ..a.clone() }
    };
    let targets: Vec<Access> = match s.kind() {
        StmtKind::Store(x) => vec![x.target.clone()],
        StmtKind::Reduce(x) => x.targets.clone(),
        _ => Vec::new(),
    };
    let out = map_accesses(s, &mut |a| {
        let is_target = targets.contains(a);
        seen += 1;
        if done || is_target != written || a.indices.is_empty() {
            return None;
        }
        done = true;
        Some(further(a))
    });
    (done && seen > 0).then_some(out)
}

/// Places of what the rule made: statements that were not in the tree before.
fn made(before: &Stmt, after: &Stmt) -> Vec<Path> {
    let mut old = HashSet::new();
    walk(before, &mut |s, _| {
        old.insert(s.structural_hash());
        true
    });
    let mut out = Vec::new();
    walk(after, &mut |s, path| {
        let new = !old.contains(&s.structural_hash());
        if new {
            out.push(path.to_vec());
        }
        new
    });
    out
}

/// The example with the `nth` place where it can be so made wrong.
fn planted(e: &Example, change: Change, nth: usize) -> Option<Function> {
    let places = made(&e.before.body, &e.after.body);
    let mut wrong = places.iter().filter_map(|p| {
        let s = lathe_ir::visit::at(&e.after.body, p)?;
        let body = replace_at(&e.after.body, p, change.plant(s)?)?;
        (body != e.after.body).then_some(body)
    });
    wrong.nth(nth).map(|body| Function { body, ..e.after.clone() })
}

/// What becomes of a tree that was made wrong.
enum Fate {
    Found(&'static str),
    /// Another order that does what the right one did is not a bug.
    Harmless,
    Missed,
}

/// So much work a claim may take.
const WORK: u64 = 20_000_000;

/// Why a claim does not hold of two trees, or could not be shown to.
fn refuted(step: &Step, claim: &Claim) -> Option<String> {
    lathe_analysis::within_work(WORK, || lathe_transform::decide(step, claim)).and_then(Result::err)
}

/// What steps claim is looked at first; runs are quick, so they come before the checker of order.
fn fate(e: &Example, change: Change, wrong: &Function) -> Fate {
    if !verify_function(&e.module, wrong).is_empty() {
        return Fate::Found("verifier");
    }
    let step = Step { module: &e.module, before: &e.before, after: wrong };
    if e.claims.iter().any(|c| refuted(&step, c).is_some()) {
        return Fate::Found("claims");
    }
    if e.inputs.iter().any(|i| agree(&e.module, &e.before, wrong, i, 0.0).is_err()) {
        return Fate::Found("run");
    }
    let preserved = |f: &Function, from: &Function| {
        order_preserved(&Env::root(&e.module, from), &from.body, &f.body).is_ok()
    };
    if change.is_of_order() && preserved(wrong, &e.after) {
        return Fate::Harmless;
    }
    let checked = |f: &Function| {
        let env = Env::root(&e.module, &e.before);
        preserved(f, &e.before) && instances_preserved(&env, &e.before.body, &f.body).is_ok()
    };
    if checked(&e.after) && !checked(wrong) { Fate::Found("checker") } else { Fate::Missed }
}

/// Whatever is wrong in what these rules make, their claims say: no program has to run.
const DECIDED: [&str; 43] = [
    "guard",
    "to_reduction",
    "inscan",
    "split",
    "tile",
    "reorder",
    "fuse",
    "fission",
    "reverse",
    "remap",
    "shift",
    "cut",
    "peel",
    "separate",
    "unroll",
    "unroll_and_jam",
    "vectorize",
    "parallel",
    "bind",
    "serial",
    "stage",
    "localize",
    "accumulate",
    "compute_at",
    "cse",
    "forward",
    "licm",
    "dse",
    "omit",
    "dce",
    "set_layout",
    "promote",
    "inline",
    "expand",
    "materialize",
    "hoist",
    "prereduce",
    "prescan",
    "lookback",
    "pipeline",
    "prefetch",
    "nontemporal",
    "atomic",
];

/// The claim with operands that are wrong, each by itself.
fn with_wrong_operands(claim: &Claim) -> Vec<Claim> {
    let later = |f: &Formula| Formula::apply("+", vec![f.clone(), Formula::Int(1)]);
    let wrong = |window: &[Range]| -> Vec<Vec<Range>> {
        let each = (0..window.len()).flat_map(|d| {
            let with = |r: Range| [&window[..d], &[r], &window[d + 1..]].concat();
            let r = &window[d];
            [
                with(Range { lo: later(&r.lo), ..r.clone() }),
                with(Range { size: Formula::Int(0), ..r.clone() }),
                with(Range { lo: Formula::apply("...", Vec::new()), ..r.clone() }),
                [window, std::slice::from_ref(r)].concat(),
            ]
        });
        each.collect()
    };
    match claim.clone() {
        Claim::Redirected { array, buffer, window } => {
            let of = |window| Claim::Redirected { array: array.clone(), buffer: buffer.clone(), window };
            let swapped =
                Claim::Redirected { array: buffer.clone(), buffer: array.clone(), window: window.clone() };
            wrong(&window).into_iter().map(of).chain([swapped]).collect()
        }
        Claim::Recomputed { array, window } => wrong(&window)
            .into_iter()
            .map(|window| Claim::Recomputed { array: array.clone(), window })
            .collect(),
        Claim::WrittenFirst { array, window } => {
            let of = |window| Claim::WrittenFirst { array: array.clone(), window };
            wrong(&window).into_iter().map(of).collect()
        }
        Claim::PartsCombined { parts, own } => {
            let first = wrong(&parts[0].window).into_iter().map(|window| {
                let mut parts = parts.clone();
                parts[0].window = window;
                Claim::PartsCombined { parts, own: own.clone() }
            });
            first.chain([Claim::PartsCombined { parts: parts.clone(), own: later(&own) }]).collect()
        }
        _ => Vec::new(),
    }
}

#[test]
fn claims_with_other_operands_do_not_hold() {
    let (mut tried, mut held) = (0, Vec::new());
    for e in examples() {
        let step = Step { module: &e.module, before: &e.before, after: &e.after };
        // Where trees do not decide a claim, no operand makes them do.
        for claim in e.claims.iter().filter(|c| lathe_transform::decide(&step, c).is_some()) {
            for wrong in with_wrong_operands(claim) {
                tried += 1;
                if refuted(&step, &wrong).is_none() {
                    held.push(format!("`{}`: {wrong}", e.rule));
                }
            }
        }
    }
    assert!(tried > 100, "only {tried} claims");
    assert!(held.is_empty(), "{} of {tried} wrong claims hold:\n{}", held.len(), held.join("\n"));
}

#[test]
fn planted_bugs_are_found() {
    let all = examples();
    let mut wrong = Vec::new();
    for e in &all {
        let step = Step { module: &e.module, before: &e.before, after: &e.after };
        let refuted =
            e.claims.iter().filter_map(|c| Some(format!("`{}`: {c}: {}", e.rule, refuted(&step, c)?)));
        wrong.extend(refuted);
    }
    assert!(wrong.is_empty(), "claims of right steps do not hold:\n{}", wrong.join("\n"));
    let most: usize = std::env::var("LATHE_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(5).min(500);
    let rules: Vec<&str> = lathe_transform::rules().map(|r| r.name()).collect();
    // Each rule with each change at three places: as many as are asked for, in an order of their own.
    let mut bugs: Vec<(&str, Change, usize)> = (0..3)
        .flat_map(|nth| rules.iter().flat_map(move |r| CHANGES.iter().map(move |c| (*r, *c, nth))))
        .collect();
    bugs.sort_by_key(|bug| {
        let mut h = std::hash::DefaultHasher::new();
        bug.hash(&mut h);
        h.finish()
    });
    let mut by: BTreeMap<&str, usize> = BTreeMap::new();
    let mut each: BTreeMap<&str, BTreeMap<&str, usize>> = BTreeMap::new();
    let (mut tried, mut same, mut missed) = (0, 0, Vec::new());
    for (rule, change, nth) in bugs {
        if tried == most {
            break;
        }
        let own = all.iter().filter(|e| e.rule == rule);
        let mut fates = own.filter_map(|e| {
            let wrong = planted(e, change, nth)?;
            Some((fate(e, change, &wrong), wrong))
        });
        let mut not_found = None;
        let who = fates.find_map(|(fate, wrong)| match fate {
            Fate::Found(who) => Some(who),
            Fate::Harmless => None,
            Fate::Missed => {
                not_found.get_or_insert(wrong);
                None
            }
        });
        tried += usize::from(who.is_some() || not_found.is_some());
        match (who, not_found) {
            (Some(who), _) => {
                if who == "run" {
                    println!("a program finds: {rule}: {change:?}, place {nth}");
                }
                *by.entry(who).or_default() += 1;
                *each.entry(rule).or_default().entry(who).or_default() += 1;
            }
            (None, Some(_)) if EQUIVALENT.iter().any(|e| (e.0, e.1, e.2) == (rule, change, nth)) => same += 1,
            (None, Some(wrong)) => missed
                .push(format!("{rule}: {change:?}, place {nth}\n{}", lathe_ir::text::print_function(&wrong))),
            (None, None) => {}
        }
    }
    println!("{tried} bugs: found by {by:?}, {same} do no harm, {} not found", missed.len());
    EQUIVALENT.iter().for_each(|(rule, change, nth, why)| println!("{rule}: {change:?}, place {nth}: {why}"));
    each.iter().for_each(|(rule, who)| println!("{rule}: {who:?}"));
    missed.iter().for_each(|m| println!("{m}"));
    for rule in DECIDED {
        let others = each.get(rule).into_iter().flatten().filter(|w| !["claims", "verifier"].contains(w.0));
        assert_eq!(others.count(), 0, "`{rule}`: only programs found some bugs");
        assert!(!missed.iter().any(|m| m.starts_with(&format!("{rule}:"))), "`{rule}`: bugs are not found");
    }
    assert!(tried >= most.min(400), "only {tried} bugs were planted");
    assert!(
        missed.len() * 20 <= tried,
        "{} of {tried} bugs are not found\n{}",
        missed.len(),
        missed.join("\n")
    );
}
