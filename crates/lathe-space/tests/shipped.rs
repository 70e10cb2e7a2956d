//! The spaces that come with the crate: against the table that they are rebuilt from, and against trying all.

use lathe_diagnostics::FileId;
use lathe_space::formats::json;
use lathe_space::space::{Generate, Order};
use lathe_space::{Space, SpaceDef, Value};
use num_bigint::BigUint;
use num_traits::ToPrimitive;
use std::collections::BTreeSet;

fn def(name: &str) -> SpaceDef {
    let text = match name {
        "conv" => include_str!("../spaces/conv.json"),
        "gemm" => include_str!("../spaces/gemm.json"),
        "ccsdt" => include_str!("../spaces/ccsdt.json"),
        "prl" => include_str!("../spaces/prl.json"),
        "ccsdt-4096" => include_str!("../spaces/ccsdt-4096.json"),
        _ => include_str!("../spaces/product.json"),
    };
    json::parse(text, FileId(0)).unwrap().space
}

fn space(def: &SpaceDef) -> Space {
    Space::generate(def, &Generate::default()).unwrap()
}

/// Tile, part, groups and items of one dimension, by four loops.
fn per_dimension(n: u64) -> u64 {
    let divisors = |n: u64| (1..=n).filter(move |d| n.is_multiple_of(*d));
    divisors(n)
        .map(|t| {
            divisors(n / t).count() as u64 * divisors(t).map(|p| divisors(t / p).count() as u64).sum::<u64>()
        })
        .sum()
}

struct Row {
    name: &'static str,
    sizes: &'static [u64],
    groups: &'static [usize],
    /// Least, largest, average number of values, as printed.
    ranges: (u32, u32, f64),
    fraction: f64,
}

const TABLE: &[Row] = &[
    Row {
        name: "conv",
        sizes: &[4092, 4092],
        groups: &[1, 1, 2, 2, 4, 4],
        ranges: (2, 4092, 2339.29),
        fraction: 1.49e-23,
    },
    Row {
        name: "gemm",
        sizes: &[10, 500, 64],
        groups: &[1, 1, 2, 3, 4, 4, 4],
        ranges: (2, 500, 121.84),
        fraction: 2.47e-17,
    },
    Row {
        name: "ccsdt",
        sizes: &[24, 16, 16, 24, 16, 16, 24],
        groups: &[1, 1, 2, 4, 4, 4, 4, 4, 4, 4, 7],
        ranges: (2, 24, 15.46),
        fraction: 1.47e-25,
    },
    Row {
        name: "prl",
        sizes: &[1024, 1024],
        groups: &[1, 1, 2, 2, 4, 4],
        ranges: (2, 1024, 586.14),
        fraction: 1.33e-19,
    },
];

#[test]
fn item_17_the_spaces_of_the_table() {
    for row in TABLE {
        let d = def(row.name);
        let s = space(&d);
        let mut groups: Vec<usize> = s.groups().iter().map(|g| g.params.len()).collect();
        groups.sort_unstable();
        assert_eq!(groups, row.groups, "{}", row.name);
        let ranges: Vec<u32> = (0..d.params.len()).map(|p| s.values_of(p)).collect();
        let average = ranges.iter().map(|r| f64::from(*r)).sum::<f64>() / ranges.len() as f64;
        assert_eq!(ranges.iter().min(), Some(&row.ranges.0));
        assert_eq!(ranges.iter().max(), Some(&row.ranges.1));
        assert!((average - row.ranges.2).abs() < 0.005, "{}: {average}", row.name);
        let axes: u64 = (1..=row.sizes.len() as u64).product();
        let dimensions: BigUint = row.sizes.iter().map(|n| BigUint::from(per_dimension(*n))).product();
        assert_eq!(*s.size(), dimensions * (2 * 2 * 6 * axes), "{}", row.name);
        let fraction = s.size().to_f64().unwrap() / s.unconstrained().to_f64().unwrap();
        let off = fraction / row.fraction;
        assert!((0.1..10.0).contains(&off), "{}: {off}", row.name);
    }
    assert_eq!(space(&def("conv")).size().to_u64(), Some(168_750_000));
}

#[test]
fn item_12_and_13_large_spaces_take_kilobytes() {
    for (name, params) in [("ccsdt", 39u64), ("ccsdt-4096", 39)] {
        let s = space(&def(name));
        assert_eq!(s.params().len() as u64, params);
        assert!(*s.size() > BigUint::from(u64::MAX >> 1), "{}", s.size());
        let flat = s.size() * params;
        assert!(s.bytes() < 1 << 20, "{} bytes", s.bytes());
        // Memory follows the nodes, not the configurations.
        assert!(s.bytes() < 64 * s.nodes() && flat > BigUint::from(1u64 << 60));
        let last = s.size() - 1u32;
        assert_eq!(s.index_of(&s.configuration(&last).unwrap()), Some(last));
    }
}

#[test]
fn item_10_any_number_of_threads_makes_them() {
    for name in ["conv", "gemm", "ccsdt", "prl", "product"] {
        let make =
            |threads, order| Space::generate(&def(name), &Generate { threads, order, ..Generate::default() });
        for order in [Order::Auto, Order::Narrow] {
            let one = make(1, order).unwrap();
            let four = make(4, order).unwrap();
            assert!(one.same_trees(&four), "{name}");
        }
    }
}

/// Valid configurations by trying all, and by the space.
fn compare(d: &SpaceDef) {
    let mut free = d.clone();
    free.params.iter_mut().for_each(|p| p.constraint = None);
    let all: BTreeSet<String> = space(&free)
        .iter()
        .filter(|c| {
            let env = |n: &str| c.get(n).cloned().or_else(|| d.constants.get(n).cloned());
            // An axis that divides by nothing cannot occur: all constraints have an answer.
            d.params
                .iter()
                .all(|p| p.constraint.as_ref().is_none_or(|c| c.holds(&p.name, &env).unwrap_or(false)))
        })
        .map(|c| c.to_string())
        .collect();
    let made: BTreeSet<String> = space(d).iter().map(|c| c.to_string()).collect();
    assert!(!made.is_empty());
    assert_eq!(made, all);
}

#[test]
fn small_ones_against_trying_all() {
    let with = |name: &str, sizes: &[(&str, i64)]| {
        let mut d = def(name);
        for (n, v) in sizes {
            assert!(d.constants.insert(n.to_string(), Value::Int(*v)).is_some(), "{n}");
        }
        d
    };
    compare(&with("conv", &[("N_y", 2), ("N_x", 2)]));
    compare(&with("prl", &[("N_i", 4), ("N_j", 1)]));
    compare(&with("gemm", &[("N_i", 2), ("N_j", 1), ("N_k", 1)]));
    // Of coupled cluster two dimensions at a time: all seven have too many combinations.
    let mut d = with("ccsdt", &[("N_a", 2), ("N_b", 2)]);
    d.params.retain(|p| p.name.ends_with("_a") || p.name.ends_with("_b"));
    compare(&d);
    let mut d = def("ccsdt");
    d.params.retain(|p| p.name.starts_with("axis") && p.name.as_str() < "axis_f");
    compare(&d);
}

#[test]
fn the_product_of_a_billion() {
    let d = def("product");
    let s = space(&d);
    assert_eq!(s.unconstrained().to_u64(), Some(1_000_000_000));
    assert_eq!(s.params().len(), 8);
    for p in &d.params {
        let c = p.constraint.iter().cloned().flat_map(|c| match c {
            lathe_space::Constraint::And(all) => all,
            c => vec![c],
        });
        for c in c {
            // `a && b` in text is one expression; its sides are what mentions three at most.
            let e = c.expr(&p.name).unwrap();
            let sides = match &e {
                lathe_space::Expr::Binary(lathe_space::BinOp::And, a, b) => {
                    vec![(**a).clone(), (**b).clone()]
                }
                e => vec![e.clone()],
            };
            for side in sides {
                assert!(lathe_space::names(&side).len() <= 3, "{side}");
            }
        }
    }
    // With fewer values against trying all.
    let mut small = d.clone();
    for (p, n) in small.params.iter_mut().zip([3usize, 5, 3, 3, 4, 4, 3, 4]) {
        let lo = if p.name == "block_x" { 16 } else { 0 };
        let step = if p.name == "block_x" { 112 } else { 3 };
        let first = if p.name == "pad" { 0 } else { lo.max(1) };
        let values = (0..n as i64).map(|i| Value::Int(first + step * i)).collect();
        p.values = lathe_space::ValueRange::Set(values);
    }
    compare(&small);
    // As six nested loops count them.
    let orders = [Order::Declared, Order::Narrow];
    let sizes: Vec<BigUint> = orders
        .iter()
        .map(|o| Space::generate(&d, &Generate { order: *o, ..Generate::default() }).unwrap().size().clone())
        .collect();
    assert_eq!(sizes[0], sizes[1]);
    assert_eq!(sizes[0].to_u64(), Some(10_864_347));
}

#[test]
fn item_10_threads_share_slow_constraints() {
    // Closures that note which thread asks them.
    let seen = std::sync::Arc::new(std::sync::Mutex::new(BTreeSet::new()));
    let notes = seen.clone();
    let d = SpaceDef::new().param(lathe_space::TuningParameter::int("a", 1, 60)).param(
        lathe_space::TuningParameter::int("b", 1, 60).such_that(lathe_space::Constraint::closure(
            ["a", "b"],
            move |v| {
                std::thread::sleep(std::time::Duration::from_micros(50));
                notes.lock().unwrap().insert(format!("{:?}", std::thread::current().id()));
                Ok(v[0] != v[1])
            },
        )),
    );
    let s = Space::generate(&d, &Generate { threads: 4, ..Generate::default() }).unwrap();
    assert_eq!(s.size().to_u64(), Some(60 * 59));
    assert!(seen.lock().unwrap().len() > 1);
}
