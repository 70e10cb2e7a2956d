//! Checks of subscripts that come from data, row by row on threads and in lanes: a call fails where the interpreter does, with
//! the message of the check, whichever of its subscripts is outside, and however many are.

use lathe::ir::interp::{self, Options};
use lathe::{Array, Build, Engine, How, Machine, Pool, Program, convert, runtime_codes};

const GATHER: &str = "kernel gather(X: f32[N], I: i32[A, B]) -> (Z: f32[A, B]) { Z[i, j] = X[I[i, j]] }
strategy rows for gather = parallel(i)
strategy plain for gather = id";

#[test]
fn subscripts_outside_are_found_by_threads_and_lanes() {
    let program = Program::from_text("gather.lathe", GATHER).expect("a program");
    let func = program.kernel(None).expect("a kernel");
    let pool = Pool::new(4).expect("threads");
    const N: i32 = 50;
    let shapes = [(1, 1), (1, 200), (200, 1), (7, 31), (3, 32), (5, 33), (64, 70)];
    let mut failed = 0;
    for strategy in ["rows", "plain", "auto"] {
        let how = How { strategy: Some(strategy.to_string()), threads: Some(4), ..How::default() };
        let s = lathe::schedule(&program, func, &how, &Machine::host()).expect("a schedule");
        for engine in [Engine::LLVM, Engine::C] {
            let built = lathe::compile(&s, &Build { engine, ..Build::default() }).expect("code");
            for (a, b) in shapes {
                let all = a * b;
                let right: Vec<i32> = (0..all).map(|n| (n * 37 % i64::from(N)) as i32).collect();
                let mut cases = vec![right.clone()];
                for at in [0, all / 2, all - 1] {
                    for value in [-1, N, i32::MIN, i32::MAX, -N] {
                        let mut wrong = right.clone();
                        wrong[at as usize] = value;
                        cases.push(wrong);
                    }
                }
                // Several, of different kinds, and nothing else.
                let some = |n: usize, r: &i32| [-1, *r, N, *r, i32::MIN, *r, *r][n % 7];
                cases.push(right.iter().enumerate().map(|(n, r)| some(n, r)).collect());
                cases.push(vec![i32::MAX; right.len()]);
                for subscripts in cases {
                    let x: Vec<f32> = (0..N).map(|n| n as f32).collect();
                    let mut arrays = vec![
                        Array::from_slice(&[i64::from(N)], &x).expect("memory"),
                        Array::from_slice(&[a, b], &subscripts).expect("memory"),
                        Array::zeros(lathe::Scalar::F32, &[a, b]).expect("memory"),
                    ];
                    let mut values = convert::to_values(&arrays).expect("values");
                    let want = interp::run(&s.module, &s.plain, &mut values, &Options::default());
                    let got = built.call(&pool, &mut arrays);
                    let what = format!("{strategy}, {engine}, {a} × {b}: {subscripts:?}");
                    assert_eq!(want.is_ok(), got.is_ok(), "{what}");
                    match got {
                        Ok(()) => {
                            let want: Vec<f32> = subscripts.iter().map(|n| *n as f32).collect();
                            assert_eq!(arrays[2].to_vec::<f32>(), Some(want), "{what}");
                        }
                        Err(d) => {
                            failed += 1;
                            assert_eq!(d.code, runtime_codes::CHECK_FAILED, "{what}: {d}");
                        }
                    }
                }
            }
        }
    }
    assert!(failed > 500, "{failed}");
}

/// Where two checks say different things of one row, the first one in order says it: such rows stay on one thread.
#[test]
fn the_first_of_different_checks_speaks() {
    let text = "kernel two(X: f32[N], Y: f32[N], I: i32[A, B], J: i32[A, B]) -> (Z: f32[A, B]) {
        Z[i, j] = X[I[i, j]] + Y[J[i, j]]
    }";
    let program = Program::from_text("two.lathe", text).expect("a program");
    let func = program.kernel(None).expect("a kernel");
    let how = How { strategy: Some("auto".to_string()), threads: Some(4), ..How::default() };
    let s = lathe::schedule(&program, func, &how, &Machine::host()).expect("a schedule");
    let built = lathe::compile(&s, &Build::default()).expect("code");
    let pool = Pool::new(4).expect("threads");
    let (a, b) = (80, 50);
    let place = |bad: usize| -> Vec<i32> {
        (0..a * b).map(|n| if n as usize == bad { 9 } else { n as i32 % 9 }).collect()
    };
    for (i, j) in [(3, 1000), (1000, 3), (3999, 0), (0, 3999), (77, 77)] {
        let one = Array::from_slice(&[9], &[1.0f32; 9]).expect("memory");
        let mut arrays = vec![
            one,
            Array::from_slice(&[9], &[2.0f32; 9]).expect("memory"),
            Array::from_slice(&[a, b], &place(i)).expect("memory"),
            Array::from_slice(&[a, b], &place(j)).expect("memory"),
            Array::zeros(lathe::Scalar::F32, &[a, b]).expect("memory"),
        ];
        let mut values = convert::to_values(&arrays).expect("values");
        let want = interp::run(&s.module, &s.plain, &mut values, &Options::default()).expect_err("outside");
        for _ in 0..5 {
            let got = built.call(&pool, &mut arrays).expect_err("outside");
            let said = |text: &str| (text.contains("`X["), text.contains("`Y["));
            assert_eq!(said(&got.message), said(&want.diagnostic.message), "{i}, {j}: {got}");
        }
    }
}
