//! Searches for the largest and smallest elements, written as loops, find what the comparisons find one after the other, to the
//! bit: by the loops as written, by `auto`, and by lanes and threads that search apart.

use lathe::{Build, Engine, How, Machine, Pool, Program};
use std::collections::BTreeMap;

const TEXT: &str = "
kernel most(x: f64[N], best: inout f64[1], at: inout i64[1]) {
    for i in 0..N {
        if x[i] > best[0] {
            best[0] = x[i]
            at[0] = i64(i)
        }
    }
}

kernel least(x: f64[N], best: inout f64[1], at: inout i64[1]) {
    for i in 0..N {
        if best[0] > x[i] {
            at[0] = i64(i)
            best[0] = x[i]
        }
    }
}

strategy lanes for most =
    to_reduction(best) ; split(best.best.i, 8) ; factor(best.best, i.i, at: i.o, combine: tree) ; separate(i.o) ; vectorize(i.i, 4)
strategy lanes for least =
    to_reduction(best) ; split(best.best.i, 8) ; factor(best.best, i.i, at: i.o) ; separate(i.o) ; vectorize(i.i, 4)
strategy threads for most =
    to_reduction(best) ; split(best.best.i, 5) ; privatize(best.best, i.o) ; parallel(i.o)
strategy threads for least =
    to_reduction(best) ; split(best.best.i, 5) ; privatize(best.best, i.o) ; parallel(i.o)
";

/// Inputs that tell the order of comparisons, and what NaNs, infinities, equal elements and zeros of both signs do to them.
fn inputs() -> Vec<Vec<f64>> {
    let (nan, inf) = (f64::NAN, f64::INFINITY);
    let mut all = vec![
        vec![],
        vec![1.0],
        vec![nan],
        vec![nan; 9],
        vec![-inf; 9],
        vec![inf; 9],
        vec![nan, 2.0, nan, 3.0, 3.0, nan, -inf],
        vec![-inf, nan, inf, inf, 1.0],
        vec![-0.0, 0.0, -0.0, 0.0],
        vec![0.0, -0.0, 0.0, -0.0, nan, -0.0, 0.0, 0.0, -0.0],
    ];
    for n in [7, 8, 9, 15, 16, 17, 40] {
        let values = [-1.0, 4.0, -0.0, 4.0, nan, 0.0, -3.0, inf, -3.0, -inf];
        all.push((0..n).map(|i| values[i * 7 % (n % 4 + 7)]).collect());
        all.push((0..n).map(|i| if i == n / 2 { -0.0 } else { nan }).collect());
    }
    all
}

#[test]
fn searches_find_what_comparisons_find() {
    let program = Program::from_text("searches.lathe", TEXT).unwrap_or_else(|e| panic!("{e}"));
    let pools = [1, 2].map(|n| Pool::new(n).expect("threads"));
    let mut calls = 0;
    for (name, larger) in [("most", true), ("least", false)] {
        let kernel = program.kernel(Some(name)).unwrap_or_else(|e| panic!("{e}"));
        for strategy in ["naive", "auto", "lanes", "threads"] {
            for sizes in [None, Some(40)] {
                let sizes: BTreeMap<String, i64> = sizes.map(|n| ("N".to_string(), n)).into_iter().collect();
                let how =
                    How { strategy: Some(strategy.to_string()), sizes, threads: Some(2), ..How::default() };
                let schedule = lathe::schedule(&program, kernel, &how, &Machine::host());
                let schedule = schedule.unwrap_or_else(|e| panic!("{name}, {strategy}: {e}"));
                for engine in [Engine::INTERPRETER, Engine::LLVM, Engine::C] {
                    let build = Build { engine, ..Build::default() };
                    let code = lathe::compile(&schedule, &build).unwrap_or_else(|e| panic!("{e}"));
                    for (x, start) in inputs().iter().flat_map(|x| {
                        [f64::NEG_INFINITY, f64::INFINITY, f64::NAN, 0.0, -0.0, 2.0].map(|s| (x, s))
                    }) {
                        // As the program says it.
                        let mut want = (start, -1i64);
                        for (i, v) in x.iter().enumerate() {
                            if if larger { *v > want.0 } else { want.0 > *v } {
                                want = (*v, i as i64);
                            }
                        }
                        for pool in &pools {
                            let array =
                                |v: &[f64]| lathe::Array::from_slice(&[v.len() as i64], v).expect("memory");
                            let at = lathe::Array::from_slice(&[1], &[-1i64]).expect("memory");
                            let mut arrays = vec![array(x), array(&[start]), at];
                            code.call(pool, &mut arrays)
                                .unwrap_or_else(|e| panic!("{name}, {strategy}: {e}"));
                            let best = arrays[1].to_vec::<f64>().expect("floats")[0];
                            let at = arrays[2].to_vec::<i64>().expect("integers")[0];
                            let same = best.to_bits() == want.0.to_bits() && at == want.1;
                            assert!(
                                same,
                                "{name}, {strategy}, {engine:?}, {x:?} from {start}: {best} at {at}, not {want:?}"
                            );
                            calls += 1;
                        }
                    }
                }
            }
        }
    }
    assert!(calls > 1000, "only {calls} calls");
}
