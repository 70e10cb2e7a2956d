//! Shared by the tests of structural rules: strategies as text, and runs of the interpreter before and after.

use lathe_diagnostics::FileId;
use lathe_ir::interp::{self, ArrayValue, Options, Order};
use lathe_ir::{Function, Mode, Module, ParamKind};
use lathe_strategy::{ArgValue, Argument, Context, Definitions, Evidence, Refusal, Strategy};

pub fn parse(text: &str) -> Module {
    match lathe_ir::text::parse_module(FileId(0), text) {
        Ok(m) => m,
        Err(errors) => panic!("{errors:#?}\n{text}"),
    }
}

/// The only function of a module.
pub fn only(module: &Module) -> &Function {
    module.functions.values().next().expect("a function")
}

/// `split(i, 8) ; tile(i: 4, j: 4) @ stmt(C)`; `a <+ b` is tried before `;`.
pub fn strategy(text: &str) -> Strategy {
    let steps = split(text, &[';', '\n']);
    Strategy::Seq(steps.iter().map(|s| choice(s)).collect())
}

fn choice(text: &str) -> Strategy {
    let options: Vec<Strategy> = text.split("<+").map(located).collect();
    if options.len() == 1 { options.into_iter().next().expect("one") } else { Strategy::Choice(options) }
}

fn located(text: &str) -> Strategy {
    match text.split_once('@') {
        Some((step, place)) => Strategy::At(Box::new(call(step.trim())), Box::new(call(place.trim()))),
        None => call(text.trim()),
    }
}

pub fn call(text: &str) -> Strategy {
    let (name, rest) = text.split_once('(').unwrap_or((text, ")"));
    let rest = rest.strip_suffix(')').expect("a closing bracket");
    let args = split(rest, &[',']).iter().map(|a| argument(a)).collect();
    Strategy::Call { name: name.trim().to_string(), args, span: None }
}

fn argument(text: &str) -> Argument {
    let (name, value) = match text.split_once(": ") {
        Some((n, v)) if !n.contains('(') => (Some(n.to_string()), v),
        _ => (None, text),
    };
    let value = match lathe_space::parse(value) {
        Ok(e) => ArgValue::Expr(e),
        Err(_) => ArgValue::Strategy(Box::new(strategy(value))),
    };
    Argument { name, value, span: None }
}

fn split(text: &str, at: &[char]) -> Vec<String> {
    let (mut out, mut depth, mut word) = (Vec::new(), 0, String::new());
    for c in text.chars() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            c if depth == 0 && at.contains(&c) => {
                out.push(std::mem::take(&mut word));
                continue;
            }
            _ => {}
        }
        word.push(c);
    }
    out.push(word);
    out.iter().map(|w| w.trim().to_string()).filter(|w| !w.is_empty()).collect()
}

/// Opens the function and applies the strategy.
pub fn run(module: &Module, text: &str) -> Result<(Function, Vec<Evidence>), Refusal> {
    let definitions = Definitions::default();
    let facts = |_: &str| None;
    let context = Context::new(&definitions, None, &facts);
    let (func, trace) = lathe_transform::run(module, only(module), &context, &strategy(text))?;
    Ok((func, trace.steps))
}

/// The function after the strategy, which must succeed.
pub fn apply(module: &Module, text: &str) -> Function {
    match run(module, text) {
        Ok((f, _)) => f,
        Err(r) => panic!("{text}: {}", r.diagnostic),
    }
}

/// The code of the strategy, which must be refused.
pub fn refused(module: &Module, text: &str) -> &'static str {
    match run(module, text) {
        Ok((f, _)) => panic!("{text} was accepted:\n{}", show(&f)),
        Err(r) => r.diagnostic.code.0,
    }
}

pub fn show(func: &Function) -> String {
    lathe_ir::text::print_function(func)
}

/// Small random integers, the same for the same seed.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        self.0 >> 33
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n.max(1)
    }
}

/// Arguments of a function for given sizes: random inputs, undefined outputs.
pub fn arguments(func: &Function, sizes: &[i64], seed: u64) -> Vec<ArrayValue> {
    let mut random = Random(seed);
    let known = func.sizes.iter().zip(sizes).map(|(b, v)| (b.id, *v)).collect();
    let mut out = Vec::new();
    for p in &func.params {
        let (ty, shape) = match &p.kind {
            ParamKind::Scalar(b) => (b.ty.into(), Vec::new()),
            ParamKind::Array(b) => {
                let extents = b.extents.iter().map(|e| interp::evaluate(e, &known).expect("an extent"));
                (b.elem.clone(), extents.map(|e| e.max(0) as usize).collect::<Vec<_>>())
            }
        };
        if p.mode == Mode::Out {
            out.push(ArrayValue::undefined(ty, &shape));
            continue;
        }
        let n = interp::element_count(&shape).expect("a small array");
        let values: Vec<i64> = (0..n).map(|_| random.below(19) as i64 - 9).collect();
        let scalar = ty.scalar().expect("arrays of scalars");
        out.push(if scalar.is_float() {
            let values: Vec<f64> = values.iter().map(|v| *v as f64).collect();
            ArrayValue::from_f64(scalar, &shape, &values)
        } else {
            ArrayValue::from_i64(scalar, &shape, &values)
        });
    }
    out
}

/// The transformed function computes what the original does: in order, and in another legal order
/// without races.
pub fn same(module: &Module, new: &Function, sizes: &[i64]) {
    let old = only(module);
    let mut want = arguments(old, sizes, 7);
    interp::run(module, old, &mut want, &Options::default()).unwrap_or_else(|f| panic!("{sizes:?}: {f:?}"));
    for order in [Order::Reference, Order::Seed(3)] {
        let mut got = arguments(old, sizes, 7);
        let options = Options { order, races: true, ..Options::default() };
        interp::run(module, new, &mut got, &options)
            .unwrap_or_else(|f| panic!("{sizes:?}: {f:?}\n{}", show(new)));
        for ((w, g), p) in want.iter().zip(&got).zip(&old.params) {
            assert_eq!(w.bytes(), g.bytes(), "`{}` for sizes {sizes:?}, {order:?}\n{}", p.name(), show(new));
        }
    }
}

/// Applies a strategy and compares at several sizes.
pub fn check(text: &str, steps: &str, sizes: &[&[i64]]) -> Function {
    let module = parse(text);
    let func = apply(&module, steps);
    for s in sizes {
        same(&module, &func, s);
    }
    func
}
