//! What the tests of storage rules share: strategies as text, and comparison of runs.

use lathe_diagnostics::FileId;
use lathe_ir::interp::{ArrayValue, Options, Order};
use lathe_ir::{Function, Mode, Module, Scalar};
use lathe_space::{Expr, Value};
use lathe_strategy::Refusal;
use lathe_transform::{Arg, Args, Cursor, Edit};
use std::collections::HashMap;

pub fn parse(text: &str) -> Module {
    match lathe_ir::text::parse_module(FileId(0), text) {
        Ok(m) => m,
        Err(errors) => panic!("{errors:#?}\n{text}"),
    }
}

/// `rule(arg, name: value, …)`; arguments are integers, `true`, names, or calls of integers.
pub fn step(module: &Module, func: &Function, text: &str) -> Result<Edit, Refusal> {
    let (name, rest) = text.split_once('(').expect("a call");
    let rest = rest.strip_suffix(')').expect("a call");
    let mut args = Args::default();
    for part in split_args(rest) {
        let (name, value) = match part.split_once(": ") {
            Some((n, v)) => (Some(n), v),
            None => (None, &*part),
        };
        args.push(name, arg(value));
    }
    lathe_transform::apply(&Cursor::new(module, func), name, &args)
}

fn split_args(text: &str) -> Vec<String> {
    let (mut out, mut depth, mut word) = (Vec::new(), 0, String::new());
    for c in text.chars() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                out.push(std::mem::take(&mut word).trim().to_string());
                continue;
            }
            _ => {}
        }
        word.push(c);
    }
    if !word.trim().is_empty() {
        out.push(word.trim().to_string());
    }
    out
}

fn arg(text: &str) -> Arg {
    if let Ok(v) = text.parse() {
        return Arg::Int(v);
    }
    match (text, text.split_once('(')) {
        ("true", _) => Arg::Bool(true),
        (_, Some((f, rest)))
            if rest.ends_with(')')
                && rest[..rest.len() - 1].split(',').all(|a| a.trim().parse::<i64>().is_ok()) =>
        {
            let ints = rest[..rest.len() - 1].split(',').map(|a| a.trim().parse().expect("checked"));
            Arg::Data(Expr::Call(f.to_string(), ints.map(|v| Expr::Value(Value::Int(v))).collect()))
        }
        _ => Arg::Path(text.to_string()),
    }
}

/// Applies steps, one per line or `;`; panics with the refusal.
pub fn schedule(module: &Module, name: &str, steps: &str) -> Function {
    let mut func = module.functions[name].clone();
    for s in steps.split([';', '\n']).map(str::trim).filter(|s| !s.is_empty()) {
        match step(module, &func, s) {
            Ok(edit) => func = edit.func,
            Err(r) => panic!("{s}: {}\n{}", r.diagnostic, show(&func)),
        }
    }
    func
}

pub fn show(func: &Function) -> String {
    lathe_ir::text::print_function(func)
}

/// The code of the last step, which must be refused.
pub fn refusal(module: &Module, name: &str, steps: &str) -> &'static str {
    let (before, last) = steps.rsplit_once(';').unwrap_or(("", steps));
    let func = schedule(module, name, before);
    match step(module, &func, last.trim()) {
        Ok(e) => panic!("{last} was accepted:\n{}", show(&e.func)),
        Err(r) => r.diagnostic.code.0,
    }
}

/// Both functions give the same outputs, cell by cell, also in another legal order, and without races.
pub fn same(module: &Module, name: &str, new: &Function, sizes: &[(&str, i64)]) {
    let old = run(module, &module.functions[name], sizes, Order::Reference);
    for order in [Order::Reference, Order::Seed(7)] {
        assert_eq!(old, run(module, new, sizes, order), "{sizes:?}, {order:?}\n{}", show(new));
    }
}

/// A schedule for all sizes; the function does the same for many.
pub fn all_sizes(m: &Module, name: &str, steps: &str, sizes: &[&str]) -> Function {
    let f = schedule(m, name, steps);
    for n in [0, 1, 2, 5, 8, 13, 31, 64, 67] {
        let values: Vec<(&str, i64)> =
            sizes.iter().enumerate().map(|(k, s)| (*s, n + k as i64 * 3)).collect();
        same(m, name, &f, &values);
    }
    f
}

/// What outputs hold after a run on arbitrary small integers; an unwritten cell is `None`.
fn run(module: &Module, func: &Function, sizes: &[(&str, i64)], order: Order) -> Vec<Vec<Option<i64>>> {
    let known: HashMap<_, _> = func
        .sizes
        .iter()
        .filter_map(|b| sizes.iter().find(|s| s.0 == &*b.name).map(|s| (b.id, s.1)))
        .collect();
    let mut x = 1u64;
    let mut args = Vec::new();
    for p in &func.params {
        let b = p.array().expect("the tests have no scalar parameters");
        let extent = |e| lathe_ir::interp::evaluate(e, &known).expect("an extent over sizes");
        let shape: Vec<usize> = b.extents.iter().map(|e| extent(e) as usize).collect();
        let values: Vec<i64> = (0..shape.iter().product())
            .map(|_| {
                x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (x >> 40) as i64 % 7
            })
            .collect();
        args.push(match p.mode {
            Mode::Out => ArrayValue::undefined(b.elem.clone(), &shape),
            _ => ArrayValue::from_i64(Scalar::I64, &shape, &values),
        });
    }
    let options = Options { order, races: true, ..Options::default() };
    if let Err(why) = lathe_ir::interp::run(module, func, &mut args, &options) {
        panic!("{sizes:?}: {why}\n{}", show(func));
    }
    let cells = |a: &ArrayValue| {
        let values = a.to_i64_vec();
        values.iter().enumerate().map(|(n, v)| a.is_defined(n).then_some(*v)).collect()
    };
    args.iter().zip(&func.params).filter(|(_, p)| p.mode != Mode::In).map(|(a, _)| cells(a)).collect()
}
