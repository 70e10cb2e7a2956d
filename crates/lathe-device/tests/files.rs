//! Phased trees in files, and the kernels that they become (`tests/files`; see `lathe_filetest`): the same results in
//! every order of the threads, and no races.
//!
//! | case | gives |
//! |---|---|
//! | `#: steps spmd` | the kernels |
//! | `#: plan` | what the host does, and which copies may be asynchronous |
//! | `#: barriers` | how many of the barriers are needed |
//! | `#: reach N=9 d=1` | which elements a launch reads and writes, for sizes and loops of the host |
//!
//! Each kernel is proved to be free of races for all sizes, and with a barrier left out it is not where runs race.
//!
//! Behind them may stand what a device allows: `threads=64 cluster=8`.

use lathe_analysis::prove_concurrent;
use lathe_device::{Argument, Item, KernelPlan, Limits, Plan, copies, plan, reach, to_spmd};
use lathe_diagnostics::Diagnostic;
use lathe_filetest::{Checked, Found, Front, Given, Inputs};
use lathe_ir::text::{Ids, Scope, print_expr, print_function};
use lathe_ir::visit::walk;
use lathe_ir::{Binder, Buffer, Expr, Function, Module, StmtKind};
use lathe_poly::simplify::simplify_function;

struct Kernels;

impl Front for Kernels {
    fn apply(&self, module: &Module, func: &Function, steps: &str) -> Result<Function, Diagnostic> {
        let limits = steps.strip_prefix("spmd").and_then(limits);
        let limits = limits.unwrap_or_else(|| panic!("`{steps}` is not `spmd threads=64 cluster=8`"));
        let made = simplify_function(&to_spmd(&simplify_function(func), limits)?);
        let errors = lathe_ir::verify::verify_function(module, &made);
        assert!(errors.is_empty(), "{}\n{}", errors[0], print_function(&made));
        let races = prove_concurrent(module, &made);
        // Atomics that order other accesses are not followed.
        let ordering = ["acquire", "release", "acq_rel", "seq_cst"];
        let text = print_function(&made);
        assert!(races.is_empty() || ordering.iter().any(|word| text.contains(word)), "{}\n{text}", races[0]);
        Ok(made)
    }

    fn ids(&self) -> Ids {
        Ids::Hidden
    }

    fn words(&self) -> &'static [&'static str] {
        &["plan", "barriers", "reach"]
    }

    fn case(&self, word: &str, rest: &str, given: &Given) -> Result<Result<Found, Diagnostic>, String> {
        let (module, func) = given.function()?;
        if word == "barriers" {
            let made = self.apply(module, func, &format!("spmd {rest}"));
            return Ok(made.map(|f| Found { text: barriers(module, func, &f, given), wrong: None }));
        }
        if word == "reach" {
            let known = Inputs::parse(rest)?;
            let planned = to_spmd(&simplify_function(func), Limits::default())
                .and_then(|f| plan(&simplify_function(&f)));
            return Ok(planned.map(|p| Found { text: reached(&p, &known), wrong: None }));
        }
        let limits = limits(rest).ok_or("limits are `threads=64 cluster=8`")?;
        let planned = to_spmd(&simplify_function(func), limits).and_then(|f| {
            let f = simplify_function(&f);
            let plan = plan(&f)?;
            Ok((f, plan))
        });
        let (f, plan) = match planned {
            Ok(planned) => planned,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let mut shown = Shown { scope: Scope::of_function(&f), out: String::new() };
        for (n, k) in plan.kernels.iter().enumerate() {
            shown.kernel(n, k, &f);
        }
        shown.items(&plan.items, 0);
        Ok(Ok(Found { text: shown.out, wrong: None }))
    }
}

fn limits(text: &str) -> Option<Limits> {
    let given = Inputs::parse(text).ok()?;
    let mut limits = Limits::default();
    for (name, value) in given.named() {
        match name {
            "threads" => limits.threads = value,
            "cluster" => limits.cluster = value,
            _ => return None,
        }
    }
    Some(limits)
}

/// Elements of each array, by kernels.
fn reached(plan: &Plan, known: &Inputs) -> String {
    let mut out = String::new();
    for (n, k) in plan.kernels.iter().enumerate() {
        let value = |name: &str| known.named().find(|v| v.0 == name).map(|v| v.1);
        let scalar = |a: &Argument| match a {
            Argument::Scalar(b) => value(&b.name).map(|v| (b.id, v)),
            Argument::Array(_) => None,
        };
        let values = k.arguments.iter().filter_map(scalar).collect();
        let name = |id| {
            k.arguments.iter().find_map(|a| match a {
                Argument::Array(b) if b.id == id => Some(b.name.to_string()),
                _ => None,
            })
        };
        for r in reach::reach(k, &values) {
            let name = name(r.buffer).unwrap_or_default();
            out += &format!("kernel {n} reads {:?}, writes {:?} of {name}\n", r.reads, r.writes);
        }
    }
    out
}

/// A plan as text.
struct Shown {
    scope: Scope,
    out: String,
}

impl Shown {
    fn line(&mut self, depth: usize, text: &str) {
        self.out += &format!("{}{text}\n", "  ".repeat(depth));
    }

    fn expr(&self, e: &Expr) -> String {
        print_expr(e, &self.scope)
    }

    fn buffer(&self, b: &Buffer) -> String {
        let extents: Vec<String> = b.extents.iter().map(|e| self.expr(e)).collect();
        format!("{}: {}[{}]", b.name, b.elem, extents.join(", "))
    }

    fn bind(&mut self, b: &Binder) {
        if self.scope.var(b.id).is_none() {
            self.scope.bind_var(b);
        }
    }

    fn kernel(&mut self, n: usize, k: &KernelPlan, f: &Function) {
        let arguments = k.arguments.iter().map(|a| match a {
            Argument::Array(b) => b.name.to_string(),
            Argument::Scalar(b) => b.name.to_string(),
        });
        let arguments: Vec<String> = arguments.collect();
        // What the host binds is bound around the launch.
        k.arguments.iter().for_each(|a| match a {
            Argument::Scalar(b) => self.bind(b),
            Argument::Array(_) => {}
        });
        let counts: Vec<String> = k.counts.iter().map(|e| self.expr(e)).collect();
        let cluster = k.cluster.as_ref().map(|c| {
            let shared: Vec<String> = c.shared.iter().map(|b| self.buffer(b)).collect();
            format!(", clusters of {} blocks share [{}]", c.blocks, shared.join(", "))
        });
        let shared: Vec<String> = k.shared.iter().map(|b| self.buffer(b)).collect();
        self.line(0, &format!("kernel {n}({})", arguments.join(", ")));
        self.line(
            1,
            &format!(
                "grid [{}], {} threads{}, shared [{}]",
                counts.join(", "),
                k.threads,
                cluster.unwrap_or_default(),
                shared.join(", ")
            ),
        );
        let copied = copies::overlapping(f, k);
        let mut labels: Vec<String> = copied.labels().map(|l| l.to_string()).collect();
        labels.sort();
        if !labels.is_empty() {
            self.line(1, &format!("asynchronous: {}", labels.join(", ")));
            let mut waits = Vec::new();
            walk(&k.body, &mut |s, _| {
                if matches!(s.kind(), StmtKind::Barrier { .. }) {
                    waits.push(copied.waits(s).map_or("nothing".into(), |n| match n {
                        0 => "all".to_string(),
                        n => format!("all but {n}"),
                    }));
                }
                true
            });
            self.line(1, &format!("barriers wait for: {}", waits.join(", ")));
        }
    }

    fn items(&mut self, items: &[Item], depth: usize) {
        for i in items {
            match i {
                Item::Alloc { buffer, body } => {
                    let text = format!("alloc {}", self.buffer(buffer));
                    self.line(depth, &text);
                    self.items(body, depth);
                }
                Item::Let { binder, value, body } => {
                    let text = format!("let {} = {}", binder.name, self.expr(value));
                    self.line(depth, &text);
                    self.bind(binder);
                    self.items(body, depth);
                }
                Item::Loop { binder, lo, hi, step, devices, body } => {
                    let (lo, hi) = (self.expr(lo), self.expr(hi));
                    let on = if *devices { ", each on a device" } else { "" };
                    self.line(depth, &format!("for {} in {lo}..{hi} step {step}{on}", binder.name));
                    self.bind(binder);
                    self.items(body, depth + 1);
                }
                Item::If { cond, then, other } => {
                    let text = format!("if {}", self.expr(cond));
                    self.line(depth, &text);
                    self.items(then, depth + 1);
                    if !other.is_empty() {
                        self.line(depth, "else");
                        self.items(other, depth + 1);
                    }
                }
                Item::Check { cond, code, .. } => {
                    let text = format!("check {} {code}", self.expr(cond));
                    self.line(depth, &text);
                }
                Item::Launch(n) => self.line(depth, &format!("launch {n}")),
            }
        }
    }
}

#[test]
fn files_do_as_they_say() {
    let checked = lathe_filetest::check(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/files"), &Kernels);
    let refused: usize = checked.iter().map(|c: &Checked| c.refused).sum();
    assert!(refused > 0, "nothing is refused");
}

/// Which barriers of kernels are needed: with one left out, runs of the interpreter race or differ. The others are what
/// `to_spmd` could not prove to be for nothing.
fn barriers(module: &Module, before: &Function, after: &Function, given: &Given) -> String {
    let all = count(&after.body);
    let idle = (0..all).filter(|n| {
        let body = without(&after.body, &mut { *n });
        let after = Function { body, ..after.clone() };
        let agree = |i: &Inputs| lathe_filetest::agree(module, before, &after, i, given.within);
        let failed: Vec<String> = given.inputs.iter().filter_map(|i| agree(i).err()).collect();
        let races = prove_concurrent(module, &after);
        // What is proved free of races has none in runs. (Atomics that do not commute are no race.)
        let raced = failed.iter().find(|why| why.contains("race"));
        assert!(
            raced.is_none() || !races.is_empty(),
            "{raced:?} without barrier {n}: {}",
            print_function(&after)
        );
        failed.is_empty()
    });
    let idle: Vec<String> = idle.map(|n| (n + 1).to_string()).collect();
    let which = if idle.is_empty() { String::new() } else { format!(", not {}", idle.join(", ")) };
    format!("{} of {all} are needed{which}\n", all - idle.len())
}

fn is_barrier(s: &lathe_ir::Stmt) -> bool {
    matches!(s.kind(), lathe_ir::StmtKind::Barrier { .. })
}

fn count(s: &lathe_ir::Stmt) -> usize {
    usize::from(is_barrier(s)) + s.children().map(count).sum::<usize>()
}

/// The statement without its `n`-th barrier.
fn without(s: &lathe_ir::Stmt, n: &mut usize) -> lathe_ir::Stmt {
    if is_barrier(s) {
        *n = n.wrapping_sub(1);
        return if *n == usize::MAX { lathe_ir::Stmt::empty() } else { s.clone() };
    }
    if s.children().len() == 0 {
        return s.clone();
    }
    let children: Vec<lathe_ir::Stmt> = s.children().map(|c| without(c, n)).collect();
    s.with_children(children)
}
