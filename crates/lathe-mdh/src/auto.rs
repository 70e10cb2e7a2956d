//! A strategy for a whole function: every compute that is a homomorphism gets chosen decisions, and adjacent
//! computes are fused over blocks, so that intermediate results stay in a cache.

mod chain;
mod chains;
pub mod device;
mod hoisted;
mod inner;
mod scatter;
mod short;
mod sums;

use self::chain::Chain;
use crate::around::Around;
use crate::choose::{Setting, choose};
use crate::codes;
use crate::decisions::Decisions;
use crate::homomorphism::Homomorphism;
use crate::lower::{self, Options};
use crate::model::Model;
use lathe_diagnostics::Diagnostic;
use lathe_ir::{Function, Module, visit};
use lathe_space::{SpaceDef, TuningParameter, Value, Values};
use lathe_strategy::Strategy;
use std::collections::BTreeMap;

/// What was chosen.
#[derive(Clone, Debug)]
pub struct Auto {
    pub strategy: Strategy,
    /// The same steps: those for a whole function, and those that a compute's decisions became, with its label. Where
    /// one of these is refused, the others still hold.
    pub parts: Vec<(Option<String>, Strategy)>,
    /// The function that the decisions are about: scans of reductions are two computes.
    pub func: Function,
    /// Per compute, in the order of the text: its label, and the decisions or why there are none; except those with
    /// indirect subscripts (histograms), which get tables, and sums of a few terms that stay in registers.
    pub computes: Vec<(String, Result<Decisions, Diagnostic>)>,
    /// Fused computes, and how many rows they process at a time.
    pub chains: Vec<(Vec<String>, u64)>,
    /// What a search may change: the decisions of every compute (see [`Around`]; where there are several computes, each
    /// name begins with the compute's label), `rows.LABEL` of the chain that begins with a compute, and `block.LABEL` of
    /// statements with tables.
    pub space: SpaceDef,
    /// What was chosen, as values of these parameters.
    pub start: Values,
}

/// Chooses for every compute of a function. `sizes` are those of the call, or examples where `exact` is not set
/// (then the strategy is good for these, and right for all). What is not a homomorphism stays as it is written,
/// except for updates with indirect subscripts (histograms): they get a table per block.
///
/// # Errors
/// E1202 where the model of a CPU that comes with Lathe is broken.
pub fn auto(
    module: &Module,
    func: &Function,
    sizes: &BTreeMap<String, i64>,
    setting: &Setting,
) -> Result<Auto, Diagnostic> {
    searched(module, func, sizes, setting, &Values::new())
}

/// [`auto`] with values of a search for some of its parameters.
///
/// # Errors
/// As [`auto`]; which rule the decisions of these values break; E1220 for names that are not parameters.
pub fn searched(
    module: &Module,
    func: &Function,
    sizes: &BTreeMap<String, i64>,
    setting: &Setting,
    values: &Values,
) -> Result<Auto, Diagnostic> {
    let model = Model::named("cpu")?;
    let (func, mut apart) = inner::first(module, func, sizes);
    let read = |func: &Function, labels: &[String]| -> Vec<Result<Homomorphism, Diagnostic>> {
        labels.iter().map(|l| Homomorphism::of(module, func, Some(l))).collect()
    };
    let all = labels(&func);
    let mut chains = chains::find(&func, &all, &read(&func, &all), sizes, setting);
    let alone = |l: &str| !chains.iter().any(|c| c.labels.iter().any(|x| x == l));
    let hoisted = hoisted::first(module, &func, &alone, sizes, setting);
    if !hoisted.steps.is_empty() {
        apart.extend(hoisted.steps);
        // What was computed before a product is no member of a chain.
        chains = chains::find(&hoisted.func, &all, &read(&hoisted.func, &all), sizes, setting);
    }
    let func = &hoisted.func;
    let labels = labels(func);
    let read = read(func, &labels);
    let mut out = Auto {
        strategy: Strategy::Id,
        parts: Vec::new(),
        func: func.clone(),
        computes: Vec::new(),
        chains: Vec::new(),
        space: SpaceDef::new(),
        start: Values::new(),
    };
    // First: with whole loops before them, their tables are seen to begin with values that were computed.
    let (mut tabled, mut steps) = (Vec::new(), Vec::new());
    for mut t in scatter::tables(func, sizes, setting) {
        t.block = out.number(&format!("block.{}", t.label), t.block, &t.blocks(), values);
        steps.push(t.steps());
        tabled.push(t.label);
    }
    steps.extend(apart);
    for c in &mut chains {
        let rows = out.number(&format!("rows.{}", c.labels[0]), c.rows, &c.choices(), values);
        c.set_rows(rows);
    }
    for c in &chains {
        steps.extend(c.begin());
        out.chains.push((c.labels.clone(), c.rows));
    }
    out.parts.push((None, Strategy::Seq(steps)));
    for (label, h) in labels.iter().zip(read) {
        let chain = chains.iter().find(|c| c.labels.contains(label));
        // Their loops are decided with those of the chain.
        if chain.is_some_and(|c| c.lanes.is_some()) {
            continue;
        }
        let mut one = |h: Homomorphism| -> Result<(Decisions, Strategy), Diagnostic> {
            let mut shaped = h.at(sizes)?;
            let mut setting = *setting;
            let mut inside = lower::Inside::default();
            if let Some(c) = chain {
                setting.threads = 1;
                setting.exact &= c.divides;
                inside = c.inside(label, &mut shaped);
            }
            let chosen = choose(&shaped, &model, &setting);
            let fixed = Decisions::free(&h, &model);
            let around = Around { h: &shaped, model: &model, fixed: &fixed, chosen: &chosen };
            let prefix = if labels.len() > 1 { format!("{label}.") } else { String::new() };
            let d = out.around(&around, &prefix, values);
            if !values.is_empty() && d != chosen {
                crate::require(&shaped, &model, &d, &|n| setting.machine.fact(n))?;
            }
            let options = Options { exact: setting.exact, machine: setting.machine.clone(), inside };
            let s = lower::strategy(&shaped, &model, &d, &options)?;
            Ok((d, s))
        };
        let refusable = !values.is_empty() && h.is_ok();
        match h.and_then(&mut one) {
            Ok((d, s)) => {
                out.parts.push((Some(label.clone()), s));
                out.computes.push((label.clone(), Ok(d)));
            }
            Err(_) if tabled.contains(label) => {}
            Err(e) if refusable => return Err(e),
            Err(e) => out.computes.push((label.clone(), Err(e))),
        }
    }
    if let Some(n) = values.keys().find(|n| !out.space.params.iter().any(|p| p.name == **n)) {
        let names: Vec<&str> = out.space.params.iter().map(|p| p.name.as_str()).collect();
        return Err(Diagnostic::error(codes::FREE, format!("these decisions have no parameter `{n}`"))
            .help(format!("their parameters: {}", names.join(", "))));
    }
    let ends = chains.iter().filter(|_| setting.threads > 1).flat_map(Chain::end);
    out.parts.push((None, Strategy::Seq(ends.collect())));
    out.strategy = in_sequence(out.parts.iter().map(|p| &p.1));
    Ok(out)
}

/// The steps of all parts in one sequence.
pub fn in_sequence<'a>(parts: impl IntoIterator<Item = &'a Strategy>) -> Strategy {
    let mut steps = Vec::new();
    for s in parts {
        match s {
            Strategy::Seq(all) => steps.extend(all.iter().cloned()),
            Strategy::Id => {}
            other => steps.push(other.clone()),
        }
    }
    if steps.is_empty() { Strategy::Id } else { Strategy::Seq(steps) }
}

impl Auto {
    /// A parameter: its value of a search, or what was chosen.
    fn number(&mut self, name: &str, chosen: u64, choices: &[u64], values: &Values) -> u64 {
        let mut all: Vec<i64> = choices.iter().chain([&chosen]).map(|n| *n as i64).collect();
        all.sort_unstable();
        all.dedup();
        self.space.params.push(TuningParameter::ints(name, all));
        self.start.insert(name.to_string(), Value::Int(chosen as i64));
        match values.get(name) {
            Some(Value::Int(n)) if *n > 0 => *n as u64,
            _ => chosen,
        }
    }

    /// The parameters of a compute's decisions: the decisions of a search's values, or what was chosen.
    fn around(&mut self, around: &Around, prefix: &str, values: &Values) -> Decisions {
        self.space.params.extend(around.named(prefix).params);
        let named = |(n, v): (String, Value)| (format!("{prefix}{n}"), v);
        self.start.extend(around.start().into_iter().map(named));
        let own = values.iter().filter_map(|(n, v)| Some((n.strip_prefix(prefix)?.to_string(), v.clone())));
        around.bind(&own.collect())
    }
}

/// The labels of all computes, in the order of the text.
pub fn labels(func: &Function) -> Vec<String> {
    let mut out = Vec::new();
    visit::walk(&func.body, &mut |s, _| {
        out.extend(s.as_compute().map(|c| c.label.to_string()));
        true
    });
    out
}
