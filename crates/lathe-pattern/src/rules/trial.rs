//! Rules put to the test: random terms for the metavariables, random data, both sides evaluated.
//!
//! Numbers are small and whole, so that sums and products are exact in any order, or NaN: a rule may reassociate,
//! but not lose, repeat or reorder what it is given. Operators of reductions are associative and commutative, with
//! their neutral elements, as the patterns demand. (The method of QuickCheck: Claessen and Hughes, ICFP 2000.)

use super::equation::{Equation, Failed};
use crate::ast::{Ast, AstKind};
use crate::codes;
use crate::eval::{Sizes, evaluate_applied};
use crate::infer::{Choose, Env, infer, infer_instance};
use crate::language::TermState;
use crate::nat::Nat;
use crate::parse::parse_term;
use crate::random::Random;
use crate::solve::Class;
use crate::term::{Term, TermKind};
use crate::types::{Type, TypeKind};
use crate::value::Value;
use lathe_diagnostics::{Diagnostic, Span};
use lathe_ir::scalar::ScalarValue;
use lathe_ir::{Name, Scalar};
use lathe_strategy::{StepArg, Why};
use std::collections::BTreeMap;

/// Instances that are evaluated, and how many are tried at most to have them.
const INSTANCES: usize = 40;
const ATTEMPTS: usize = 600;

impl Choose for Random {
    fn ty(&mut self, class: Class) -> Type {
        let scalars = [Scalar::F64, Scalar::I64, Scalar::I32];
        let scalar = Type::scalar(scalars[self.below(3)]);
        match (class, self.below(8)) {
            (Class::Float, _) => Type::scalar(Scalar::F64),
            (Class::Any | Class::Data, 0) => Type::pair(scalar, Type::scalar(Scalar::F64)),
            (Class::Any | Class::Data, 1 | 2) => Type::array(Nat::constant(self.size()), scalar),
            _ => scalar,
        }
    }

    fn size(&mut self) -> i64 {
        1 + self.below(6) as i64
    }

    fn which(&mut self, n: usize) -> usize {
        self.below(n)
    }
}

/// Tests a rule; how many instances held.
///
/// # Errors
/// `E1117` with an instance whose sides differ, `E1115` if they never have one type, `E1118` if there is no
/// instance.
pub fn try_rule(rule: &Equation, span: Span) -> Result<usize, Diagnostic> {
    // The same rule is tested alike in every run.
    let seed = rule
        .name
        .bytes()
        .fold(0x9e37_79b9_7f4a_7c15u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
    let mut random = Random(seed | 1);
    let (mut held, mut wrong_type, mut refused) = (0, None, None);
    for _ in 0..ATTEMPTS {
        if held == INSTANCES {
            break;
        }
        let Some(instance) = Instance::random(rule, &mut random) else { continue };
        let mut state = TermState::new(&crate::facts::Facts::default());
        let after = match rule.rewrite(&instance.left, &mut state, &instance.args) {
            Ok(t) => t,
            Err(Failed::Type(d)) => {
                wrong_type.get_or_insert(d);
                continue;
            }
            Err(Failed::Why(why)) => {
                refused.get_or_insert(why);
                continue;
            }
        };
        if after.ty() != instance.left.ty() {
            let text =
                format!("`{}` has the type `{}`, then `{}`", rule.name, instance.left.ty(), after.ty());
            return Err(Diagnostic::error(codes::TYPE_CHANGED, text).at(span, "this rule"));
        }
        for _ in 0..2 {
            let data = instance.data(&mut random);
            // What the left side itself has no value for, says nothing.
            let Some(Ok(before)) = data.as_ref().map(|d| instance.evaluate(&instance.left, d)) else {
                continue;
            };
            let now = data.as_ref().map(|d| instance.evaluate(&after, d));
            if !matches!(&now, Some(Ok(v)) if *v == before) {
                let now = match now {
                    Some(Ok(v)) => format!("{v:?}"),
                    Some(Err(d)) => d.message,
                    None => continue,
                };
                return Err(instance.counterexample(rule, span, &data.unwrap_or_default(), &before, &now));
            }
            held += 1;
        }
    }
    match (held, wrong_type, refused) {
        (0, Some(d), _) => {
            let text =
                format!("the right side of `{}` has another type than the left: {}", rule.name, d.message);
            let mut out = Diagnostic::error(codes::TYPE_CHANGED, text);
            out.marks = d.marks;
            out.notes = d.notes;
            Err(out.at(span, "this rule"))
        }
        (0, None, why) => {
            let d = Diagnostic::error(
                codes::UNTESTED,
                format!("no instance of the rule `{}` was found among {ATTEMPTS}", rule.name),
            );
            let d = match why {
                Some(Why::Shape(_)) => d.note("its left side does not match even its own instances"),
                Some(why) => d.note(format!("the last reason: {why}")),
                None => d.note("no types fit its left side"),
            };
            Err(d.at(span, "this rule"))
        }
        _ => Ok(held),
    }
}

/// The left side with terms for its metavariables.
struct Instance {
    left: Term,
    /// Metavariables for functions and neutral elements, and what they stand for.
    chosen: Vec<(Name, Term)>,
    /// Metavariables for data, free in the term.
    data: Vec<(Name, Type)>,
    args: Vec<StepArg>,
    /// What is no number may stand in the data.
    special: bool,
}

impl Instance {
    fn random(rule: &Equation, r: &mut Random) -> Option<Instance> {
        let (left, metas) = rule.left();
        let nats = rule.sizes().into_iter().map(|n| (n, Nat::constant(1 + r.below(4) as i64)));
        let env = Env { nats: nats.collect(), ..Env::default() };
        let typed = infer_instance(&env, left, &metas, r).ok()?;
        // What only a check could establish is not so.
        if !typed.obligations.is_empty() || typed.term.any(&mut |t| t.ty().sizes().iter().any(is_negative)) {
            return None;
        }
        let operators = operators(left);
        let (mut chosen, mut data) = (Vec::new(), Vec::new());
        let mut taken: BTreeMap<Name, &str> = BTreeMap::new();
        for (op, start) in &operators {
            // One operator for all uses of one metavariable or neutral element.
            let known = ["add", "mul", "min", "max"].into_iter().find(|o| *o == &**op);
            let by_start = match &**start {
                "0" | "0.0" => Some("add"),
                "1" | "1.0" => Some("mul"),
                _ => None,
            };
            let name = known
                .or(taken.get(op).copied())
                .or(taken.get(start).copied())
                .or(by_start)
                .unwrap_or(["add", "mul", "max", "min"][r.below(4)]);
            taken.insert(op.clone(), name);
            taken.insert(start.clone(), name);
        }
        for m in &metas {
            let mut ty = None;
            typed.term.any(&mut |t| {
                if matches!(t.kind(), TermKind::Free(n) if n == m) {
                    ty = Some(t.ty().clone());
                }
                ty.is_some()
            });
            let ty = ty?;
            let value = match (taken.get(m), ty.is_data()) {
                (Some(op), true) => closed(&neutral(op, &ty)?, &ty)?,
                (Some(op), false) => closed(&operator(op, &ty)?, &ty)?,
                (None, false) => closed(&function(&ty, r)?, &ty)?,
                (None, true) => {
                    data.push((m.clone(), ty));
                    continue;
                }
            };
            chosen.push((m.clone(), value));
        }
        let left = typed.term.replace_free(&|n| Some(chosen.iter().find(|c| *c.0 == *n)?.1.clone()));
        let args = rule.arguments.iter().map(|_| StepArg {
            name: None,
            value: lathe_space::Expr::Value(lathe_space::Value::Int(1 + r.below(3) as i64)),
            span: None,
        });
        let args = args.collect();
        Some(Instance { left, chosen, data, args, special: operators.is_empty() })
    }

    /// Values for the metavariables that stand for data.
    fn data(&self, r: &mut Random) -> Option<Vec<Value>> {
        let special = self.special && r.below(4) == 0;
        self.data.iter().map(|(_, t)| value(t, special, r)).collect()
    }

    fn evaluate(&self, t: &Term, data: &[Value]) -> Result<Value, Diagnostic> {
        let count = self.data.len() as u32;
        let bound = |n: &str| {
            let at = self.data.iter().position(|d| *d.0 == *n)?;
            Some(Term::bound(count - 1 - at as u32, self.data[at].1.clone()))
        };
        let open = t.replace_free(&bound);
        let closed = self.data.iter().rev().fold(open, |b, (n, t)| Term::lam(n, t.clone(), b));
        evaluate_applied(&closed, &Sizes::new(), data)
    }

    fn counterexample(
        &self,
        rule: &Equation,
        span: Span,
        data: &[Value],
        before: &Value,
        after: &str,
    ) -> Diagnostic {
        let mut d = Diagnostic::error(codes::WRONG_RULE, format!("the rule `{}` does not hold", rule.name))
            .at(span, "its sides differ");
        for (n, f) in &self.chosen {
            d = d.note(format!("{} = {f}", shown(n)));
        }
        for ((n, t), v) in self.data.iter().zip(data) {
            d = d.note(format!("{}: {t} = {v:?}", shown(n)));
        }
        d.note(format!("the left side gives {before:?}")).note(format!("the right side gives {after}"))
    }
}

/// The argument that sides lack has no name.
fn shown(n: &str) -> &str {
    if n.contains(' ') { "of" } else { n }
}

fn is_negative(n: &Nat) -> bool {
    n.as_constant().is_none_or(|v| v < 0)
}

/// The operators of reductions and scans in a pattern, with what they start from, as text.
fn operators(p: &Ast) -> Vec<(Name, Name)> {
    fn text(e: Option<&Ast>) -> Name {
        match e.map(|e| &*e.kind) {
            Some(AstKind::Name(n)) => n.clone(),
            Some(AstKind::Int(v)) => Name::from(v.to_string().as_str()),
            Some(AstKind::Float(v)) => Name::from(format!("{v:?}").as_str()),
            _ => Name::from(""),
        }
    }
    let mut out = Vec::new();
    p.walk(&mut |e| {
        if let AstKind::Call(f, args) = &*e.kind
            && matches!(&*f.kind, AstKind::Name(n) if matches!(&**n, "reduce" | "scan"))
        {
            out.push((text(args.first()), text(args.get(1))));
        }
    });
    out
}

/// A term without free variables, from its text.
fn closed(text: &str, ty: &Type) -> Option<Term> {
    let ast = parse_term(text).ok()?;
    let span = ast.span;
    infer(&Env::default(), &ast, Some((ty, span))).ok().map(|t| t.term)
}

/// `|a, b| a + b` and the like, part by part.
fn operator(op: &str, ty: &Type) -> Option<String> {
    fn both(op: &str, ty: &Type, a: &str, b: &str, depth: usize) -> Option<String> {
        Some(match ty.kind() {
            TypeKind::Scalar(s) if *s != Scalar::Bool => format!("{op}({a}, {b})"),
            TypeKind::Array(_, e) => {
                let inner = both(op, e, &format!("e{depth}.0"), &format!("e{depth}.1"), depth + 1)?;
                format!("(zip({a}, {b}) |> map(|e{depth}| {inner}))")
            }
            TypeKind::Tuple(ts) => {
                let part =
                    |(n, t): (usize, &Type)| both(op, t, &format!("{a}.{n}"), &format!("{b}.{n}"), depth);
                let parts: Option<Vec<String>> = ts.iter().enumerate().map(part).collect();
                format!("({})", parts?.join(", "))
            }
            _ => return None,
        })
    }
    let (a, _) = ty.as_fun()?;
    Some(format!("|a: {a}, b: {a}| {}", both(op, a, "a", "b", 0)?))
}

/// What an operator leaves as it is.
fn neutral(op: &str, ty: &Type) -> Option<String> {
    Some(match ty.kind() {
        TypeKind::Scalar(s) if *s != Scalar::Bool => {
            // Beyond all numbers that are drawn.
            let v = match op {
                "add" => "0",
                "mul" => "1",
                "max" => "(0 - 1000000000)",
                _ => "1000000000",
            };
            format!("{}({v})", s.name())
        }
        TypeKind::Array(n, e) => format!("generate({n}, |_| {})", neutral(op, e)?),
        TypeKind::Tuple(ts) => {
            let parts: Option<Vec<String>> = ts.iter().map(|t| neutral(op, t)).collect();
            format!("({})", parts?.join(", "))
        }
        _ => return None,
    })
}

/// A function that depends on every part of what it is given, and on where the part stands.
fn function(ty: &Type, r: &mut Random) -> Option<String> {
    let (mut params, mut seeds, mut to) = (Vec::new(), Vec::new(), ty.clone());
    while let Some((from, rest)) = to.as_fun().map(|f| (f.0.clone(), f.1.clone())) {
        if !from.is_data() {
            return None;
        }
        let name = format!("x{}", params.len());
        seeds.push(format!("{} * {}", 1 + r.below(3), digest(&name, &from, r, 0)?));
        params.push(format!("{name}: {from}"));
        to = rest;
    }
    let seed = seeds.join(" + ");
    Some(format!("|{}| {}", params.join(", "), built(&to, &seed, r, 0)?))
}

/// One number of type `i64` out of a value: sums weighted by position.
fn digest(x: &str, ty: &Type, r: &mut Random, depth: usize) -> Option<String> {
    Some(match ty.kind() {
        TypeKind::Scalar(Scalar::Bool) => format!("select({x}, i64(3), i64(0))"),
        TypeKind::Scalar(_) => format!("i64({x})"),
        TypeKind::Index(_) => format!("i64(index({x}))"),
        TypeKind::Array(n, e) => {
            let inner = digest(&format!("e{depth}.1"), e, r, depth + 1)?;
            let weight = 1 + r.below(3);
            format!(
                "(zip(generate({n}, |i| i64(index(i))), {x}) |> map(|e{depth}| (e{depth}.0 + {weight}) * {inner}) |> reduce(add, 0))"
            )
        }
        TypeKind::Tuple(ts) => {
            let part = |(n, t): (usize, &Type)| {
                Some(format!("{} * {}", 1 + r.below(4), digest(&format!("{x}.{n}"), t, r, depth)?))
            };
            let parts: Option<Vec<String>> = ts.iter().enumerate().map(part).collect();
            format!("({})", parts?.join(" + "))
        }
        _ => return None,
    })
}

/// A value of a type out of a number.
fn built(ty: &Type, seed: &str, r: &mut Random, depth: usize) -> Option<String> {
    Some(match ty.kind() {
        TypeKind::Scalar(Scalar::Bool) => format!("({seed}) % 2 == 0"),
        TypeKind::Scalar(s) => format!("{}({seed} + {})", s.name(), r.below(5)),
        TypeKind::Array(n, e) => {
            let inner = format!("({seed} + {} * i64(index(i{depth})))", 1 + r.below(3));
            format!("generate({n}, |i{depth}| {})", built(e, &inner, r, depth + 1)?)
        }
        TypeKind::Tuple(ts) => {
            let parts: Option<Vec<String>> = ts.iter().map(|t| built(t, seed, r, depth)).collect();
            format!("({})", parts?.join(", "))
        }
        _ => return None,
    })
}

/// Random data of a type whose sizes are constants.
fn value(t: &Type, special: bool, r: &mut Random) -> Option<Value> {
    Some(match t.kind() {
        TypeKind::Scalar(Scalar::Bool) => Value::Scalar(ScalarValue::boolean(r.below(2) == 1)),
        TypeKind::Scalar(s) if s.is_float() => {
            let v = if special && r.below(3) == 0 { f64::NAN } else { r.below(17) as f64 - 8.0 };
            Value::Scalar(ScalarValue::float(*s, v))
        }
        TypeKind::Scalar(s) => Value::Scalar(ScalarValue::int(*s, r.below(17) as i64 - 8)),
        TypeKind::Index(n) => Value::index(r.below(usize::try_from(n.as_constant()?).ok()?) as i64),
        TypeKind::Array(n, e) | TypeKind::Vector(n, e) => {
            let n = n.as_constant()?;
            Value::array((0..n).map(|_| value(e, special, r)).collect::<Option<_>>()?)
        }
        TypeKind::Tuple(ts) => Value::tuple(ts.iter().map(|t| value(t, special, r)).collect::<Option<_>>()?),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::{EQUATIONS, parse_equations};
    use lathe_diagnostics::FileId;

    fn tried(text: &str) -> Result<usize, Diagnostic> {
        let rule = parse_equations(text).unwrap_or_else(|d| panic!("{text}: {d}")).remove(0);
        try_rule(&rule, Span::new(FileId(0), 0, 1))
    }

    #[test]
    fn rules_that_hold_are_accepted() {
        for e in parse_equations(EQUATIONS).unwrap() {
            let n = try_rule(&e, Span::new(FileId(0), 0, 1)).unwrap_or_else(|d| panic!("{}: {d}", e.name));
            assert!(n >= 10, "{}: {n}", e.name);
        }
        for text in [
            "rule mapFuse(f, g): map(g) >> map(f) => map(g >> f)",
            "rule fission(f, N): map(f) => split(N) >> map(map(f)) >> join",
            "rule commute(x, y): x * y => y * x",
            "rule twice(x): neg(neg(x)) => x",
            "rule halves(o, z, N): reduce(o, z) => split(N) >> map(reduce(o, z)) >> reduce(o, z)",
            "rule slideAfterMap(f, A, B): map(f) >> slide(A, B) => slide(A, B) >> map(map(f))",
            "rule parts(p): (p.0, p.1) => (fst(p), snd(p))",
            "rule window(w): w[0] + w[1] => w[1] + w[0]",
            "rule square(y): map(|x| x * x + y) => map(|x| x * x) >> map(|x| y + x)",
        ] {
            assert!(tried(text).unwrap_or_else(|d| panic!("{text}: {d}")) >= 10, "{text}");
        }
    }

    #[test]
    fn rules_that_do_not_hold_are_refused_with_an_instance() {
        for (text, code) in [
            ("rule backwards(f): map(f) => map(f) >> gather(|i| i) >> drop(1) >> concat", "E1115"),
            ("rule swap(x, y): x - y => y - x", "E1117"),
            ("rule lose(f, g): map(f) >> map(g) => map(g)", "E1117"),
            ("rule forget(f): map(f) >> map(f) => map(f)", "E1117"),
            ("rule zero(x): x * 0 => 0", "E1117"),
            ("rule turn(x): transpose(x) => x", "E1117"),
            ("rule wrong(x): zip(x, x) => x", "E1115"),
            ("rule never(x): x |> split(2) |> join => x where 2 <= 1", "E1118"),
            ("rule start(o, z): reduce(o, z) => reduce(o, 3)", "E1117"),
        ] {
            match tried(text) {
                Err(d) => assert_eq!(d.code.0, code, "{text}: {d}"),
                Ok(n) => panic!("{text} held {n} times"),
            }
        }
        let d = tried("rule swap(x, y): x - y => y - x").unwrap_err();
        assert!(d.notes.iter().any(|n| n.starts_with("x: ")), "{d}");
    }
}
