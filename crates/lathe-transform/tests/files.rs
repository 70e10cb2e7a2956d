//! Every step of a strategy in files: what it makes of a tree, and what it refuses (`tests/steps`; see `lathe_filetest`).

mod facts;

use lathe_diagnostics::Diagnostic;
use lathe_filetest::Front;
use lathe_ir::{Function, Module};
use lathe_strategy::evidence::{Copy, Formula, Kind};
use lathe_strategy::{Claim, Context, Definitions, Discharge, Evidence, Obligation, Witness, parse_strategy};
use std::path::Path;

/// Trees, and strategies without definitions of their own.
struct Steps;

impl Front for Steps {
    fn apply(&self, module: &Module, func: &Function, steps: &str) -> Result<Function, Diagnostic> {
        let definitions = Definitions::default();
        let context = Context::new(&definitions, None, &facts::facts);
        // Places in the steps are none in the program.
        let strategy = parse_strategy(steps).map_err(|d| Diagnostic { marks: Vec::new(), ..d })?;
        let (made, trace) =
            lathe_transform::run(module, func, &context, &strategy).map_err(|r| *r.diagnostic)?;
        account(module, func, &made, &trace.steps);
        Ok(made)
    }
}

#[test]
fn every_step_works_and_is_refused() {
    let checked = lathe_filetest::check(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/steps"), &Steps);
    for rule in lathe_transform::rules() {
        let name = rule.name();
        let own = checked.iter().find(|c| c.path.file_stem().is_some_and(|s| s == name));
        let own = own.unwrap_or_else(|| panic!("`{name}` has no file steps/{name}.tree"));
        assert!(own.accepted > 0, "steps/{name}.tree accepts nothing");
        assert!(own.refused > 0, "steps/{name}.tree refuses nothing");
    }
}

/// What steps leave is data: it is read again as it was written, leads to the same tree, and nothing in it can be changed
/// without being found.
fn account(module: &Module, func: &Function, made: &Function, steps: &[Evidence]) {
    let text = serde_json::to_string(steps).expect("evidence is data");
    let read: Vec<Evidence> = serde_json::from_str(&text).expect("what was written can be read");
    assert_eq!(read, steps);
    for e in &read {
        assert_eq!(e.flaw(), None, "{}", e.rule);
        assert!(!e.obligations.is_empty() || e.before == e.after, "`{}` owes nothing", e.rule);
    }
    let again = lathe_transform::replay(module, func, &read).unwrap_or_else(|r| panic!("{}", r.diagnostic));
    assert_eq!(again.body, made.body);
    let Some((last, earlier)) = read.split_last() else { return };
    for (n, wrong) in tampered(last).into_iter().enumerate() {
        let all: Vec<Evidence> = earlier.iter().cloned().chain([wrong]).collect();
        let refused = lathe_transform::replay(module, func, &all);
        let refused = refused.map(|_| panic!("`{}`: change {n} is not found", last.rule)).unwrap_err();
        assert_eq!(refused.diagnostic.code, lathe_strategy::codes::REPLAY);
    }
}

/// Records that say something other than the step does.
fn tampered(e: &Evidence) -> Vec<Evidence> {
    let mut out = Vec::new();
    let mut change = |f: &dyn Fn(&mut Evidence)| {
        let mut wrong = e.clone();
        f(&mut wrong);
        if wrong != *e {
            out.push(wrong);
        }
    };
    change(&|e| e.obligations.clear());
    change(&|e| e.obligations.push(Obligation::stated(Claim::Fact { holds: Formula::Bool(true) })));
    for n in 0..e.obligations.len() {
        change(&|e| drop(e.obligations.remove(n)));
        change(&|e| e.obligations[n].by = Discharge::Trusted);
        change(&|e| e.obligations[n].by = Discharge::ByRule);
        change(&|e| e.obligations[n].witness = Witness::Pairs(usize::MAX));
        change(&|e| e.obligations[n].claim = Claim::DependencesKept);
    }
    for n in 0..e.obligations.len() {
        change(&|e| match &mut e.obligations[n].claim {
            Claim::InBounds { holds } | Claim::NoFailure { holds } | Claim::Fact { holds } => {
                *holds = Formula::apply("not", vec![holds.clone()]);
            }
            _ => {}
        });
    }
    change(&|e| e.relations.clear());
    for n in 0..e.relations.len() {
        change(&|e| e.relations[n].kind = Kind::Subset);
        let copy = |c: &mut Copy| c.instance.push(Formula::Int(0));
        change(&|e| e.relations[n].after.iter_mut().take(1).for_each(copy));
        change(&|e| drop(e.relations[n].before.pop()));
    }
    change(&|e| e.reassociates.push("no such label".to_string()));
    change(&|e| drop(e.buffers.pop()));
    change(&|e| e.after = e.before.clone());
    out
}

/// How evidence is written, for a handful of steps: `tests/evidence/NAME.json`.
#[test]
fn evidence_as_json() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/evidence");
    for name in ["open", "close", "split", "reorder", "parallel", "stage", "factor"] {
        let tree = std::fs::read_to_string(folder.join(format!("{name}.tree"))).expect("a program");
        let (steps, text) = tree.split_once('\n').expect("the steps stand in the first line");
        let module = lathe_ir::text::parse_module(lathe_diagnostics::FileId(0), text).expect("a module");
        let func = module.functions.values().next().expect("a function");
        let definitions = Definitions::default();
        let context = Context::new(&definitions, None, &facts::facts);
        let strategy = parse_strategy(steps.trim_start_matches("# ")).expect("steps");
        let (_, trace) = lathe_transform::run(&module, func, &context, &strategy).expect("legal");
        // The one that every strategy begins with has a file of its own.
        let told: Vec<&Evidence> =
            trace.steps.iter().skip_while(|e| e.rule == "open" && name != "open").collect();
        assert!(told.iter().any(|e| e.rule == name), "{name}");
        let json = serde_json::to_string_pretty(&told).expect("evidence is data") + "\n";
        let expected = folder.join(format!("{name}.json"));
        if std::env::var_os("LATHE_BLESS").is_some() {
            std::fs::write(&expected, &json).expect("writable");
        }
        assert_eq!(std::fs::read_to_string(&expected).unwrap_or_default(), json, "{name}");
    }
}

/// What a function owes before any step holds formulas: the trees say whether it stands there, and other formulas do not.
#[test]
fn checks_and_facts_are_decided_by_their_conditions() {
    let text = "func f(N)(k: in index, x: in f32[N], y: out f32[N]) stage plain {
  check 0 <= k and k < N, \"bounds\", \"some words\"
  check k < 100, \"overflow\", \"other words\"
  assume N % 4 == 0, \"the author\"
  for i in 0..N {
    'y'[i]: y[i] = x[k]
  }
}
";
    let module = lathe_ir::text::parse_module(lathe_diagnostics::FileId(0), text).expect("a module");
    let func = module.functions.values().next().expect("a function");
    let definitions = Definitions::default();
    let context = Context::new(&definitions, None, &facts::facts);
    let strategy = parse_strategy("reverse(i)").expect("steps");
    let (after, trace) = lathe_transform::run(&module, func, &context, &strategy).expect("legal");
    let step = lathe_analysis::Change { module: &module, before: func, after: &after };
    let decide = |claim: &Claim| lathe_transform::decide(&step, claim);
    let mut told = Vec::new();
    for (n, o) in trace.steps[0].obligations.iter().enumerate() {
        let wrong = |holds: &Formula| Formula::apply("or", vec![holds.clone(), Formula::Bool(true)]);
        let (name, wrong) = match &o.claim {
            Claim::InBounds { holds } => ("bounds", Claim::InBounds { holds: wrong(holds) }),
            Claim::NoFailure { holds } => ("failure", Claim::NoFailure { holds: wrong(holds) }),
            Claim::Fact { holds } => ("fact", Claim::Fact { holds: wrong(holds) }),
            _ => continue,
        };
        told.push((name, o.claim.to_string()));
        assert_eq!(decide(&o.claim), Some(Ok(1)), "{}", o.claim);
        assert!(matches!(decide(&wrong), Some(Err(_))), "{wrong}");
        let mut steps = trace.steps.clone();
        steps[0].obligations[n].claim = wrong;
        let refused = lathe_transform::replay(&module, func, &steps).expect_err("another formula");
        assert_eq!(refused.diagnostic.code, lathe_strategy::codes::REPLAY);
    }
    let kinds: Vec<&str> = told.iter().map(|t| t.0).collect();
    assert_eq!(kinds, ["bounds", "failure", "fact"], "{told:?}");
    assert!(told[0].1.starts_with("(0 <= k) and (k < N) holds"), "{}", told[0].1);
    // A formula of which a part is not said stands for many: the trees do not decide it.
    assert_eq!(decide(&Claim::Fact { holds: Formula::unknown() }), None);
}
