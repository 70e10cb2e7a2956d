//! Rules put to the test: random terms for the metavariables, random data, both sides evaluated.
//!
//! Data are special values of every type, values of all magnitudes, and the numbers that the rule itself mentions with
//! their neighbours; sides must agree bit for bit. Of a rule that is declared to hold up to rounding, numbers are small
//! and whole, and sides agree closely. Operators of reductions are associative and commutative (but for rounding), with
//! their neutral elements. (The method of QuickCheck: Claessen and Hughes, ICFP 2000.)

use super::equation::{Equation, Failed};
use crate::ast::{Ast, AstKind};
use crate::codes;
use crate::drops::keeps_failures;
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
use lathe_prove::sample;
use lathe_strategy::{StepArg, Why};
use std::collections::BTreeMap;

/// Elements and iterations of one side of an instance.
const BUDGET: u64 = 20_000;
/// How many instances are tried at most for each one that is evaluated.
const ATTEMPTS: usize = 10;

impl Choose for Random {
    fn ty(&mut self, class: Class) -> Type {
        // The usual types more often than the others.
        let scalar = match self.below(2) {
            0 => [Scalar::F64, Scalar::I64, Scalar::I32, Scalar::F32][self.below(4)],
            _ => Scalar::ALL[self.below(Scalar::ALL.len())],
        };
        let float = [Scalar::F64, Scalar::F32, Scalar::F16, Scalar::Bf16][self.below(4)];
        let ty = Type::scalar(scalar);
        match (class, self.below(8)) {
            (Class::Float, _) => Type::scalar(float),
            _ if !class.admits(scalar) => Type::scalar([Scalar::I64, Scalar::I32][self.below(2)]),
            (Class::Any | Class::Data, 0) => Type::pair(ty, Type::scalar(Scalar::F64)),
            (Class::Any | Class::Data, 1 | 2) => Type::array(self.size(), ty),
            (Class::Single, 0) => Type::index(Nat::constant(1 + self.below(6) as i64)),
            _ => ty,
        }
    }

    fn size(&mut self) -> Nat {
        // Few elements, of which there may be less than something else; some with several divisors.
        if self.below(2) == 0 {
            return Nat::constant(1 + self.below(3) as i64);
        }
        Nat::constant([0, 1, 2, 3, 4, 5, 6, 4, 6, 8][self.below(10)])
    }

    fn which(&mut self, n: usize) -> usize {
        self.below(n)
    }
}

/// Tests a rule on so many instances; how many held.
///
/// # Errors
/// `E1117` with an instance whose sides differ, `E1115` if they never have one type, `E1118` if there is no
/// instance.
pub fn try_rule(rule: &Equation, span: Span, instances: usize) -> Result<usize, Diagnostic> {
    // Every rule is tested alike, in every run, whatever its name.
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let constants = rule.constants();
    let (mut held, mut wrong_type, mut refused, mut untyped) = (Held::default(), None, None, None);
    let mut fitting = Vec::new();
    for _ in 0..ATTEMPTS * instances {
        if held.telling >= instances {
            break;
        }
        let instance = match Instance::random(rule, &mut random) {
            Ok(Some(i)) => i,
            Ok(None) => continue,
            Err(d) if d.code == codes::UNKNOWN => return Err(d),
            Err(d) => {
                untyped.get_or_insert(d);
                continue;
            }
        };
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
        let fits = Fitting { strict: keeps_failures(&instance.left, &after, &state.facts), instance, after };
        for _ in 0..2 {
            held.add(fits.holds(rule, span, &constants, &mut random)?);
        }
        if fitting.len() < KEPT {
            fitting.push(fits);
        }
    }
    // Where few instances fit, they are tried on more data.
    for fits in fitting.iter().cycle().take(ATTEMPTS * instances) {
        if held.telling >= instances {
            break;
        }
        held.add(fits.holds(rule, span, &constants, &mut random)?);
    }
    match (held.telling.max(held.empty), wrong_type, refused) {
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
                format!("no instance of the rule `{}` was found among {}", rule.name, ATTEMPTS * instances),
            );
            let d = match why {
                Some(Why::Shape(_)) => d.note("its left side does not match its own instances"),
                Some(why) => d.note(format!("the last reason: {why}")),
                None => match untyped {
                    Some(why) => d.note(format!("no types match its left side: {}", why.message)),
                    None => d.note("no types match its left side"),
                },
            };
            Err(d.at(span, "this rule"))
        }
        (held, ..) => Ok(held),
    }
}

/// Instances that are kept for more data.
const KEPT: usize = 60;

/// What came of one trial.
enum Outcome {
    /// Values agree.
    Telling,
    /// Results without elements agree.
    Empty,
    /// The sides have no value.
    Nothing,
}

/// On how many trials a rule held.
#[derive(Default)]
struct Held {
    telling: usize,
    empty: usize,
}

impl Held {
    fn add(&mut self, one: Outcome) {
        match one {
            Outcome::Telling => self.telling += 1,
            Outcome::Empty => self.empty += 1,
            Outcome::Nothing => {}
        }
    }
}

/// An instance whose sides have one type.
struct Fitting {
    instance: Instance,
    after: Term,
    /// Where the left side has no value, the right side must have none.
    strict: bool,
}

impl Fitting {
    /// Tries it on one set of data.
    fn holds(
        &self,
        rule: &Equation,
        span: Span,
        constants: &[f64],
        random: &mut Random,
    ) -> Result<Outcome, Diagnostic> {
        // Of nothing but zeros, no number on the way is larger than those of the rule.
        let zeros = rule.rounds && random.below(8) == 0;
        let least = if zeros { constants.iter().fold(0.0, |m, c| f64::max(m, c.abs())) } else { ON_THE_WAY };
        let draw = if zeros { Some(Draw::Zeros) } else { None };
        let Some(data) = self.instance.data(draw, rule.rounds, constants, random) else {
            return Ok(Outcome::Nothing);
        };
        let before = self.instance.evaluate(&self.instance.left, &data);
        if before.is_err() && !self.strict {
            return Ok(Outcome::Nothing);
        }
        let now = self.instance.evaluate(&self.after, &data);
        let agree = match (&before, &now) {
            (Ok(a), Ok(b)) => a == b || rule.rounds && close(b, a, least),
            (Err(_), Err(_)) => return Ok(Outcome::Nothing),
            _ => false,
        };
        if !agree {
            let shown = |v: &Result<Value, Diagnostic>| match v {
                Ok(v) => format!("{v:?}"),
                Err(d) => d.message.clone(),
            };
            return Err(self.instance.counterexample(rule, span, &data, &shown(&before), &shown(&now)));
        }
        Ok(if before.is_ok_and(|v| is_empty(&v)) { Outcome::Empty } else { Outcome::Telling })
    }
}

/// Whether a value has no scalar in it.
fn is_empty(v: &Value) -> bool {
    match v {
        Value::Array(all) => all.iter().all(is_empty),
        Value::Tuple(all) => all.iter().all(is_empty),
        _ => false,
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
    /// NaN may occur in the data.
    special: bool,
}

impl Instance {
    /// `None` where no terms could be chosen; what does not type is an error.
    fn random(rule: &Equation, r: &mut Random) -> Result<Option<Instance>, Diagnostic> {
        let (left, metas) = rule.left();
        let mut size = || [5, 5, 9][r.below(3)];
        let most: Vec<usize> = rule.sizes().iter().map(|_| size()).collect();
        let nats = rule.sizes().into_iter().zip(most).map(|(n, m)| (n, Nat::constant(r.below(m) as i64)));
        let env = Env { nats: nats.collect(), ..Env::default() };
        let typed = infer_instance(&env, left, &metas, r)?;
        // What only a check could establish is not so.
        if !typed.obligations.is_empty() || typed.term.any(&mut |t| t.ty().sizes().iter().any(is_negative)) {
            return Ok(None);
        }
        Ok(Instance::chosen(rule, typed.term, r))
    }

    /// With terms for the metavariables of a typed left side.
    fn chosen(rule: &Equation, left: Term, r: &mut Random) -> Option<Instance> {
        let (pattern, metas) = rule.left();
        let operators = operators(pattern);
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
            left.any(&mut |t| {
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
        let left = left.replace_free(&|n| Some(chosen.iter().find(|c| *c.0 == *n)?.1.clone()));
        let args = rule.arguments.iter().map(|_| StepArg {
            name: None,
            value: lathe_space::Expr::Value(lathe_space::Value::Int(1 + r.below(3) as i64)),
            span: None,
        });
        let args = args.collect();
        // A function that is written out is not an operator whose laws are relied on.
        let special = operators.iter().all(|(op, _)| op.is_empty());
        Some(Instance { left, chosen, data, args, special })
    }

    /// Values for the metavariables that stand for data.
    fn data(
        &self,
        draw: Option<Draw>,
        rounds: bool,
        constants: &[f64],
        r: &mut Random,
    ) -> Option<Vec<Value>> {
        let kind = draw.unwrap_or_else(|| match r.below(8) {
            0 | 1 => Draw::Small,
            2 if self.special => Draw::NoNumbers,
            3 | 4 if rounds => Draw::Fine,
            _ if rounds => Draw::Small,
            3 if self.special => Draw::Special,
            // NaN does not matter of operators and what is neutral to them.
            _ if self.special => Draw::Any,
            _ => Draw::Numbers,
        });
        self.data.iter().map(|(_, t)| value(t, kind, constants, r)).collect()
    }

    fn evaluate(&self, t: &Term, data: &[Value]) -> Result<Value, Diagnostic> {
        let count = self.data.len() as u32;
        let bound = |n: &str| {
            let at = self.data.iter().position(|d| *d.0 == *n)?;
            Some(Term::bound(count - 1 - at as u32, self.data[at].1.clone()))
        };
        let open = t.replace_free(&bound);
        let closed = self.data.iter().rev().fold(open, |b, (n, t)| Term::lam(n, t.clone(), b));
        evaluate_applied(&closed, &Sizes::new(), data, BUDGET)
    }

    fn counterexample(
        &self,
        rule: &Equation,
        span: Span,
        data: &[Value],
        before: &str,
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
        d.note(format!("the left side gives {before}")).note(format!("the right side gives {after}"))
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
            let n = s.name();
            match (op, s.is_float()) {
                ("add", _) => format!("{n}(0)"),
                ("mul", _) => format!("{n}(1)"),
                ("max", true) => format!("(neg({n}(1)) / {n}(0))"),
                (_, true) => format!("({n}(1) / {n}(0))"),
                ("max", false) if !s.is_signed() => format!("{n}(0)"),
                (_, false) if !s.is_signed() => format!("({n}(0) - {n}(1))"),
                (op, false) => {
                    let most = i64::MAX >> (64 - s.bits());
                    if op == "max" {
                        format!("({n}(0) - {n}({most}) - {n}(1))")
                    } else {
                        format!("{n}({most})")
                    }
                }
            }
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

/// What numbers are drawn.
#[derive(Clone, Copy, PartialEq)]
enum Draw {
    Zeros,
    /// Small and whole.
    Small,
    /// Small, with all digits of their type.
    Fine,
    /// Small and whole, or none.
    NoNumbers,
    /// Zeros of both signs, infinities, the ends of each type.
    Special,
    Any,
    /// Any but NaN.
    Numbers,
}

/// Random data of a type whose sizes are constants.
fn value(t: &Type, kind: Draw, constants: &[f64], r: &mut Random) -> Option<Value> {
    Some(match t.kind() {
        TypeKind::Scalar(s) => Value::Scalar(scalar(*s, kind, constants, r)),
        TypeKind::Index(n) => match usize::try_from(n.as_constant()?).ok()? {
            0 => return None,
            n => Value::index(r.below(n) as i64),
        },
        TypeKind::Array(n, e) | TypeKind::Vector(n, e) => {
            let n = n.as_constant()?;
            Value::array((0..n).map(|_| value(e, kind, constants, r)).collect::<Option<_>>()?)
        }
        TypeKind::Tuple(ts) => {
            Value::tuple(ts.iter().map(|t| value(t, kind, constants, r)).collect::<Option<_>>()?)
        }
        _ => return None,
    })
}

fn scalar(s: Scalar, kind: Draw, constants: &[f64], r: &mut Random) -> ScalarValue {
    let small = r.below(17) as i64 - 8;
    let typed = |bits: u64| ScalarValue { ty: s, bits };
    match kind {
        _ if s == Scalar::Bool => ScalarValue::boolean(r.below(2) == 1),
        Draw::Zeros => ScalarValue { ty: s, bits: 0 },
        Draw::NoNumbers if s.is_float() && r.below(3) == 0 => ScalarValue::float(s, f64::NAN),
        Draw::Fine if s.is_float() => {
            let digits = r.below(1 << 53) as f64 / (1u64 << 53) as f64;
            ScalarValue::float(s, small as f64 + digits)
        }
        Draw::Small | Draw::NoNumbers if s.is_float() => ScalarValue::float(s, small as f64),
        Draw::Small | Draw::Fine | Draw::NoNumbers => ScalarValue::int(s, small),
        Draw::Special => {
            let all = sample::special(s);
            typed(all[r.below(all.len())])
        }
        Draw::Any | Draw::Numbers => {
            let v = match (constants.is_empty(), r.below(4)) {
                // What the rule mentions, or a neighbour.
                (false, 0 | 1) => {
                    let c = constants[r.below(constants.len())];
                    let v =
                        if s.is_float() { ScalarValue::float(s, c) } else { ScalarValue::int(s, c as i64) };
                    typed(sample::at_place(s, sample::place(s, v.bits) + r.below(3) as i128 - 1))
                }
                _ => typed(sample::any(s, ((r.below(1 << 31) as u64) << 31) ^ r.below(1 << 31) as u64)),
            };
            if kind == Draw::Numbers && v.to_f64().is_nan() { ScalarValue::float(s, 1.5) } else { v }
        }
    }
}

/// Numbers that sums and products of a few small ones may reach before others are taken away.
const ON_THE_WAY: f64 = 1024.0;

/// Equal but for rounding, where numbers on the way are at most `least`, or as large as the results.
fn close(a: &Value, b: &Value, least: f64) -> bool {
    match (a, b) {
        (Value::Scalar(x), Value::Scalar(y)) if x.ty == y.ty && x.ty.is_float() => {
            // Some roundings, each of half of the distance to the next number; of half precision they show earlier.
            let (far, least) = match x.ty {
                Scalar::F16 | Scalar::Bf16 => (0.1, least.min(64.0)),
                Scalar::F32 => (16.0 * f64::from(f32::EPSILON), least),
                _ => (16.0 * f64::EPSILON, least),
            };
            let (x, y) = (x.to_f64(), y.to_f64());
            x == y || (x.is_nan() && y.is_nan()) || (x - y).abs() <= far * x.abs().max(y.abs()).max(least)
        }
        (Value::Tuple(x), Value::Tuple(y)) | (Value::Array(x), Value::Array(y)) => {
            x.len() == y.len() && x.iter().zip(y.iter()).all(|(x, y)| close(x, y, least))
        }
        (a, b) => a == b,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::{EQUATIONS, parse_equations};
    use lathe_diagnostics::FileId;

    fn tried(text: &str) -> Result<usize, Diagnostic> {
        let rule = parse_equations(text).unwrap_or_else(|d| panic!("{text}: {d}")).remove(0);
        try_rule(&rule, Span::new(FileId(0), 0, 1), 60)
    }

    #[test]
    fn rules_that_hold_are_accepted() {
        for e in parse_equations(EQUATIONS).unwrap() {
            let n =
                try_rule(&e, Span::new(FileId(0), 0, 1), 60).unwrap_or_else(|d| panic!("{}: {d}", e.name));
            assert!(n >= 10, "{}: {n}", e.name);
        }
        for text in [
            "rule mapFuse(f, g): map(g) >> map(f) => map(g >> f)",
            "rule fission(f, N): map(f) => split(N) >> map(map(f)) >> join",
            "rule commute(x, y): x * y => y * x",
            "rule twice(x): neg(neg(x)) => x",
            "rule halves(o, z, N) rounds: reduce(o, z) => split(N) >> map(reduce(o, z)) >> reduce(o, z)",
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
            ("rule near(xs) rounds: reduceSeq(add, 0, xs) => reduceSeq(add, 0.000001, xs)", "E1117"),
            ("rule tiny(xs) rounds: reduceSeq(add, 0, xs) => reduceSeq(add, 0, xs) + 1e-8", "E1117"),
            ("rule grown(xs) rounds: map(|x| x * 2, xs) => map(|x| x * 2.00000001, xs)", "E1117"),
            ("rule unknown(x): foo(x) => x", "E1102"),
            ("rule logical(x): (x and 1.5) => x", "E1118"),
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
