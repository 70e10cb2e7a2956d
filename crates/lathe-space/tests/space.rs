//! The points of the specification's checklist that are about spaces, by their numbers.

use lathe_space::space::{Generate, Generator, Order};
use lathe_space::{
    Blocks, Constraint, EvalError, ParamType, Space, SpaceDef, TuningParameter, Value, ValueRange, parse,
};
use num_bigint::BigUint;
use num_traits::ToPrimitive;
use std::sync::Arc;

fn e(text: &str) -> lathe_space::Expr {
    parse(text).unwrap()
}

fn space(def: &SpaceDef) -> Space {
    Space::generate(def, &Generate::default()).unwrap()
}

/// Section 5.4 of the thesis.
fn thesis_example() -> SpaceDef {
    SpaceDef::new()
        .param(TuningParameter::ints("p1", [22, 35]))
        .param(TuningParameter::ints("p2", [2, 5, 7, 11]).such_that(Constraint::divides(e("p1"))))
        .param(TuningParameter::ints("p3", [26, 51]))
        .param(TuningParameter::ints("p4", [1, 3, 13, 17]).such_that(Constraint::divides(e("p3"))))
        .param(TuningParameter::ints("p5", [27, 39, 52, 54, 68]).such_that(Constraint::equal(e("p3 + p4"))))
}

fn saxpy(n: i64) -> SpaceDef {
    SpaceDef::new()
        .constant("N", Value::Int(n))
        .param(TuningParameter::int("WPT", 1, n).such_that(Constraint::divides(e("N"))))
        .param(TuningParameter::int("LS", 1, n).such_that(Constraint::divides(e("N / WPT"))))
}

#[test]
fn item_08_thesis_example() {
    let s = space(&thesis_example());
    assert_eq!(s.size().to_u64(), Some(20));
    assert_eq!(s.unconstrained().to_u64(), Some(320));
    assert!(s.nodes() <= 18, "{}", s.nodes());
    let first: Vec<String> = s.iter().step_by(5).map(|c| c.to_string()).collect();
    assert_eq!(first[0], "p1 = 22, p2 = 2, p3 = 26, p4 = 1, p5 = 27");
    assert_eq!(first[3], "p1 = 35, p2 = 7, p3 = 26, p4 = 1, p5 = 27");
}

#[test]
fn item_07_saxpy() {
    for (n, size, checks) in [(12, 18, 84), (64, 28, 512), (1024, 66, 12_288)] {
        let s = space(&saxpy(n));
        assert_eq!(s.size().to_u64(), Some(size));
        assert!(s.checks() <= checks, "{n}: {}", s.checks());
    }
    assert_eq!(space(&saxpy(1024)).nodes(), 77);
}

#[test]
fn item_14_the_point_of_the_thesis() {
    let s = space(&thesis_example());
    let at = |x: &[f64]| s.configuration(&s.at(x, Blocks::Equal)).unwrap().to_string();
    assert_eq!(at(&[0.25, 0.75, 1.0, 0.34, 0.5]), "p1 = 22, p2 = 11, p3 = 51, p4 = 3, p5 = 54");
    assert_eq!(at(&[0.0, f64::NAN, -1.0]), "p1 = 22, p2 = 2, p3 = 26, p4 = 1, p5 = 27");
    assert_eq!(at(&[7.0, f64::INFINITY, 1.5, 2.0, 9.0]), "p1 = 35, p2 = 7, p3 = 51, p4 = 17, p5 = 68");
}

#[test]
fn item_15_bijections() {
    for def in [thesis_example(), saxpy(64)] {
        for order in [Order::Declared, Order::Auto] {
            let s = Space::generate(&def, &Generate { order, ..Generate::default() }).unwrap();
            let n = s.size().to_u64().unwrap();
            for i in 0..n {
                let i = BigUint::from(i);
                let c = s.configuration(&i).unwrap();
                assert_eq!(s.index_of(&c), Some(i.clone()));
                assert_eq!(s.nearest(&c), Some(i.clone()));
                for blocks in [Blocks::Equal, Blocks::Weighted] {
                    assert_eq!(s.at(&s.coordinates(&i, blocks), blocks), i);
                }
            }
            assert!(s.configuration(&BigUint::from(n)).is_none());
        }
    }
}

fn names(s: &Space, level: usize) -> &str {
    &s.params()[s.level_param(level)].name
}

fn error(def: &SpaceDef) -> lathe_diagnostics::Diagnostic {
    Space::generate(def, &Generate::default()).unwrap_err()
}

#[test]
fn item_01_types_and_duplicates() {
    let def = SpaceDef::new()
        .param(TuningParameter::bool("b"))
        .param(TuningParameter::int("i", -2, 2))
        .param(TuningParameter::floats("f", [0.5, 0.25]))
        .param(TuningParameter::strings("s", ["x", "y", "x"]));
    let s = space(&def);
    assert_eq!(s.size().to_u64(), Some(2 * 5 * 2 * 2));
    assert_eq!(s.configuration(&BigUint::ZERO).unwrap().to_string(), "b = false, i = -2, f = 0.5, s = x");
    let d = error(&def.clone().param(TuningParameter::bool("i")));
    assert!(d.code.0 == "E1001" && d.message.contains("`i`"), "{d}");
    assert_eq!(error(&def.clone().constant("i", Value::Int(1))).code.0, "E1001");
    assert_eq!(error(&SpaceDef::new().param(TuningParameter::bool(" "))).code.0, "E1001");
    let mixed = ValueRange::Set(vec![Value::Int(1), Value::Str("x".into())]);
    assert_eq!(
        error(&SpaceDef::new().param(TuningParameter::new("m", ParamType::Int, mixed))).code.0,
        "E1004"
    );
    assert_eq!(space(&SpaceDef::new()).size().to_u64(), Some(1), "no parameters, one configuration");
}

fn interval(
    ty: ParamType,
    lo: Value,
    hi: Value,
    step: Option<Value>,
    generator: Option<Generator>,
) -> TuningParameter {
    let values = ValueRange::Interval { lo: lo.into(), hi: hi.into(), step: step.map(Into::into), generator };
    TuningParameter::new("p", ty, values)
}

fn values(p: TuningParameter) -> Vec<Value> {
    let s = space(&SpaceDef::new().constant("k", Value::Int(3)).param(p));
    (0..s.values_of(0)).map(|i| s.value_of(0, i).unwrap()).collect()
}

#[test]
fn item_02_steps_and_generators() {
    use Value::{Float, Int};
    let int =
        |lo, hi, step: Option<i64>, g| values(interval(ParamType::Int, Int(lo), Int(hi), step.map(Int), g));
    assert_eq!(int(1, 10, Some(4), None), [Int(1), Int(5), Int(9)]);
    assert_eq!(int(5, 1, Some(-2), None), [Int(5), Int(3), Int(1)]);
    let powers = int(1, 10, None, Some(Generator::Pow(2.into())));
    assert_eq!((powers.len(), &powers[0], &powers[9]), (10, &Int(2), &Int(1024)));
    assert_eq!(int(1, 3, None, Some(Generator::MultipleOf(e("k")))), [Int(3), Int(6), Int(9)]);
    let square = Generator::Expr { var: "i".into(), body: e("i * i") };
    assert_eq!(int(-2, 2, None, Some(square)), [Int(4), Int(1), Int(0)]);
    let halves = Generator::Closure(Arc::new(|v| match v {
        Int(i) => Ok(Float(*i as f64 / 2.0)),
        _ => Err(EvalError::Overflow),
    }));
    let made = values(interval(ParamType::Float, Int(1), Int(3), None, Some(halves)));
    assert_eq!(made, [Float(0.5), Float(1.0), Float(1.5)]);
    // Counted once: a tenth adds up to less than one.
    let tenths = values(interval(ParamType::Float, Int(0), Int(1), Some(Float(0.1)), None));
    assert_eq!(tenths.len(), 11);
    let wide = interval(ParamType::Int, Int(i64::MIN), Int(i64::MIN + 1), None, None);
    assert_eq!(values(wide), [Int(i64::MIN), Int(i64::MIN + 1)]);
    let bad = |p: TuningParameter| assert_eq!(error(&SpaceDef::new().param(p)).code.0, "E1004");
    bad(interval(ParamType::Int, Int(2), Int(1), None, None));
    bad(interval(ParamType::Int, Int(1), Int(2), Some(Int(0)), None));
    bad(interval(ParamType::Int, Int(i64::MIN), Int(i64::MAX), None, None));
    bad(interval(ParamType::Float, Float(0.0), Float(f64::NAN), None, None));
    bad(interval(ParamType::Float, Int(0), Float(1e30), None, None));
    bad(interval(ParamType::Int, Int(60), Int(70), None, Some(Generator::Pow(2.into()))));
    bad(TuningParameter::ints("p", []));
    let d = error(&SpaceDef::new().param(TuningParameter::new(
        "p",
        ParamType::Int,
        ValueRange::Interval { lo: 1.into(), hi: e("M"), step: None, generator: None },
    )));
    assert!(d.code.0 == "E1002" && d.message.contains("`M`"), "{d}");
}

#[test]
fn item_03_aliases_closures_and_mixtures() {
    let count = |c: Constraint| {
        let def = SpaceDef::new()
            .param(TuningParameter::ints("q", [12]))
            .param(TuningParameter::int("p", 0, 24).such_that(c));
        Space::generate(&def, &Generate::default()).map(|s| s.size().to_u64().unwrap()).map_err(|d| d.code.0)
    };
    let q = || e("q");
    let positive = || Constraint::greater_than(e("0"));
    assert_eq!(count(Constraint::divides(q())), Err("E1006"), "0 divides nothing");
    assert_eq!(count(positive().and(Constraint::divides(q()))), Ok(6));
    assert_eq!(count(Constraint::divides(q()).and(positive())), Ok(6), "excluded by the other part");
    assert_eq!(count(Constraint::multiple_of(q())), Ok(3));
    assert_eq!(count(Constraint::less_than(q())), Ok(12));
    assert_eq!(count(Constraint::greater_than(q())), Ok(12));
    assert_eq!(count(Constraint::equal(q())), Ok(1));
    assert_eq!(count(Constraint::unequal(q())), Ok(24));
    assert_eq!(count(Constraint::at_most(q())), Ok(13));
    assert_eq!(count(Constraint::at_least(q())), Ok(13));
    assert_eq!(count(Constraint::equal(e("0")).or(Constraint::divides(q()))), Ok(7));
    assert_eq!(count(Constraint::divides(q()).or(Constraint::equal(e("0")))), Err("E1006"));
    let odd = Constraint::closure(["p", "q"], |v| match v {
        [Value::Int(p), Value::Int(q)] => Ok((p + q) % 2 == 1),
        _ => Err(EvalError::Overflow),
    });
    assert_eq!(count(odd.clone()), Ok(12));
    assert_eq!(count(odd.and(Constraint::less_than(q())).or(Constraint::equal(q()))), Ok(7));
    let fails = Constraint::closure(["p"], |_| Err(EvalError::DivisionByZero));
    assert_eq!(count(fails.clone()), Err("E1006"));
    assert_eq!(count(fails.and(Constraint::Expr(e("p < 0")))), Err("E1005"));
    assert_eq!(count(Constraint::Expr(e("p + 1"))), Err("E1006"), "not true or false");
    assert_eq!(count(Constraint::Expr(e("p * 9223372036854775807 > 0"))), Err("E1006"));
}

#[test]
fn item_04_lazy_expressions_and_wrong_names() {
    // A constraint may mention parameters that come later; sorting them is the space's business.
    let forward = SpaceDef::new()
        .constant("N", Value::Int(64))
        .param(TuningParameter::int("LS", 1, 64).such_that(Constraint::divides(e("N / WPT"))))
        .param(TuningParameter::int("WPT", 1, 64).such_that(Constraint::divides(e("N"))));
    assert_eq!(space(&forward).size().to_u64(), Some(28));
    let named = |c: &str| {
        SpaceDef::new()
            .param(TuningParameter::bool("a"))
            .param(TuningParameter::int("b", 1, 2).such_that(Constraint::Expr(e(c))))
    };
    let d = error(&named("b < c"));
    assert!(d.code.0 == "E1002" && d.message.contains("`c`") && d.message.contains("`b`"), "{d}");
    let d = error(&named("frob(b) < 1"));
    assert!(d.code.0 == "E1002" && d.message.contains("function `frob`"), "{d}");
    assert_eq!(
        space(&named("b < vector(f32)").constant("vector(f32)", Value::Int(2))).size().to_u64(),
        Some(2)
    );
    let least =
        |n: &str, other: &str| TuningParameter::int(n, 1, 3).such_that(Constraint::at_least(e(other)));
    let circle = SpaceDef::new()
        .param(TuningParameter::bool("x"))
        .param(least("a", "c"))
        .param(least("b", "a"))
        .param(least("c", "b"));
    let d = error(&circle);
    assert!(d.code.0 == "E1003" && d.message.contains("`a` needs `c` needs `b` needs `a`"), "{d}");
    let own = SpaceDef::new().param(least("a", "a"));
    assert_eq!(space(&own).size().to_u64(), Some(3), "a parameter may mention itself");
}

#[test]
fn item_05_groups() {
    let s = space(&thesis_example());
    let groups: Vec<&[usize]> = s.groups().iter().map(|g| g.params.as_slice()).collect();
    assert_eq!(groups, [&[0, 1][..], &[2, 3, 4]]);
    assert_eq!(s.groups()[1].size.to_u64(), Some(5));
    assert_eq!(s.groups()[1].levels, 2..5);
    let free = SpaceDef::new()
        .param(TuningParameter::int("a", 1, 1_000_000_000))
        .param(TuningParameter::int("b", 1, 1_000_000_000).such_that(Constraint::Expr(e("true"))))
        .param(TuningParameter::bool("c"));
    let s = space(&free);
    assert_eq!(s.groups().len(), 3);
    assert!(s.nodes() == 3 && s.bytes() < 2000, "{} {}", s.nodes(), s.bytes());
    assert_eq!(s.size().to_u64(), Some(2_000_000_000_000_000_000));
    // Conditions that do not mention their own parameter still make a group.
    let odd = SpaceDef::new()
        .param(TuningParameter::bool("a"))
        .param(TuningParameter::bool("b"))
        .param(TuningParameter::bool("c").such_that(Constraint::Expr(e("a or b"))));
    let s = space(&odd);
    assert_eq!((s.groups().len(), s.size().to_u64()), (1, Some(6)));
}

#[test]
fn refined_groups_share_subtrees() {
    // Section 9.1 of the thesis: given LT, WG and (PT, WI) do not depend on each other.
    let def = |n: i64| {
        SpaceDef::new()
            .constant("N", Value::Int(n))
            .param(TuningParameter::int("LT", 1, n).such_that(Constraint::divides(e("N"))))
            .param(TuningParameter::int("WG", 1, n).such_that(Constraint::divides(e("N / LT"))))
            .param(TuningParameter::int("PT", 1, n).such_that(Constraint::divides(e("LT"))))
            .param(TuningParameter::int("WI", 1, n).such_that(Constraint::divides(e("LT / PT"))))
    };
    let s = Space::generate(&def(1024), &Generate { order: Order::Declared, ..Generate::default() }).unwrap();
    assert_eq!(s.size().to_u64(), Some(1001));
    let order: Vec<&str> = (0..4).map(|l| names(&s, l)).collect();
    assert_eq!(order, ["LT", "WG", "PT", "WI"]);
    // 11 values of LT, 66 of WG below them, 66 of PT, and 66 of WI that all of them share.
    assert_eq!(s.nodes(), 11 + 66 + 66 + 66);
    let mut seen = std::collections::BTreeSet::new();
    for c in s.iter() {
        let v = |n: &str| if let Some(Value::Int(v)) = c.get(n) { *v } else { 0 };
        assert!(1024 % v("LT") == 0 && (1024 / v("LT")) % v("WG") == 0);
        assert!(v("LT") % v("PT") == 0 && (v("LT") / v("PT")) % v("WI") == 0);
        seen.insert(c.to_string());
    }
    assert_eq!(seen.len(), 1001);
}

#[test]
fn item_11_dead_ends_and_empty_spaces() {
    // Most values of `a` have no `b`.
    let def = SpaceDef::new()
        .param(TuningParameter::int("a", 1, 100))
        .param(TuningParameter::ints("b", [97, 50]).such_that(Constraint::multiple_of(e("a"))))
        .param(TuningParameter::ints("c", [7]).such_that(Constraint::less_than(e("a"))));
    let s = space(&def);
    // 10, 25, 50 divide 50; 97 divides 97.
    assert_eq!(s.size().to_u64(), Some(4));
    assert_eq!(s.nodes(), 4 + 2 + 1);
    let none = SpaceDef::new()
        .param(TuningParameter::int("a", 1, 9))
        .param(TuningParameter::int("b", 1, 9).such_that(Constraint::greater_than(e("a + 8"))));
    let d = error(&none);
    assert!(d.code.0 == "E1005" && d.message.contains("`a`, `b`"), "{d}");
    assert!(d.notes[0].contains("greater_than(a + 8)"), "{d}");
    let never = SpaceDef::new().param(TuningParameter::bool("a").such_that(Constraint::Expr(e("1 > 2"))));
    assert_eq!(error(&never).code.0, "E1005");
    let fails =
        SpaceDef::new().param(TuningParameter::bool("a").such_that(Constraint::Expr(e("1 // 0 == 1"))));
    assert_eq!(error(&fails).code.0, "E1006");
}

#[test]
fn failures_name_the_constraint_and_the_values() {
    let def = SpaceDef::new()
        .constant("N", Value::Int(7))
        .param(TuningParameter::int("a", 0, 3))
        .param(TuningParameter::int("b", 1, 3).such_that(Constraint::at_most(e("N // a"))));
    let d = error(&def);
    assert_eq!(
        d.message,
        "the constraint `at_most(N // a)` of parameter `b` fails for a = 0, b = 1, N = 7: division by zero"
    );
    // Where every point fails nothing is excluded, and the limit on nodes is met first.
    let mut all = SpaceDef::new().param(TuningParameter::int("z", 0, 0));
    for i in 0..9 {
        let c = Constraint::Expr(e(&format!("p{i} // z + p{} > 0", (i + 8) % 9)));
        all = all.param(if i == 0 {
            TuningParameter::int("p0", 1, 30)
        } else {
            TuningParameter::int(format!("p{i}"), 1, 30).such_that(c)
        });
    }
    let limited = Generate { max_nodes: 300, ..Generate::default() };
    assert_eq!(Space::generate(&all, &limited).unwrap_err().code.0, "E1006");
}

#[test]
fn too_many_nodes_are_an_error() {
    let mut def = SpaceDef::new();
    for i in 0..6 {
        def = def.param(TuningParameter::int(format!("p{i}"), 1, 20));
    }
    def.params[5].constraint = Some(Constraint::Expr(e("p0 + p1 + p2 + p3 + p4 + p5 == 30")));
    for order in [Order::Declared, Order::Narrow, Order::Auto] {
        let d =
            Space::generate(&def, &Generate { max_nodes: 1000, order, ..Generate::default() }).unwrap_err();
        assert!(d.code.0 == "E1007" && d.message.contains("1000"), "{d}");
    }
    assert_eq!(space(&saxpy(64)).size().to_u64(), Some(28));
}

#[test]
fn levels_with_many_values_list_candidates() {
    let n = 1_000_000_007 * 2 * 3;
    let def = SpaceDef::new()
        .constant("N", Value::Int(n))
        .param(
            TuningParameter::int("a", 0, 4_000_000_000)
                .such_that(Constraint::greater_than(e("0")).and(Constraint::divides(e("N")))),
        )
        .param(
            TuningParameter::int("b", 1, 4_000_000_000)
                .such_that(Constraint::at_most(e("a")).and(Constraint::multiple_of(e("1000000007")))),
        )
        .param(TuningParameter::int("c", -50_000, 50_000).such_that(Constraint::equal(e("a - b"))));
    let s = space(&def);
    // a, b: p, p (c = 0); 2p, p and 2p, 2p; 3p, p to 3p; of these c = 0 is in range.
    let all: Vec<String> = s.iter().map(|c| c.to_string()).collect();
    assert_eq!(all.len(), 3, "{all:?}");
    assert!(all.iter().all(|c| c.ends_with("c = 0")), "{all:?}");
}
