//! The points of the specification's checklist that are about spaces, by their numbers.

use lathe_space::space::{Generate, Order};
use lathe_space::{Blocks, Constraint, Space, SpaceDef, TuningParameter, Value, parse};
use num_bigint::BigUint;
use num_traits::ToPrimitive;

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
