//! A kernel called from Rust on the program's own memory: compile once, call with any sizes.

use lathe::{ArgView, Build, Failure, How, Machine, Pool, Program, compile, schedule};
use std::path::Path;

fn main() {
    if let Err(f) = run() {
        eprintln!("{f}");
        std::process::exit(1);
    }
}

fn run() -> Result<(), Failure> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/gemm.lathe");
    let program = Program::open(file)?;
    let fail = |d| Failure::one(&program.sources, d);
    let kernel = program.kernel(Some("gemm"))?;
    let scheduled = schedule(&program, kernel, &How::default(), &Machine::host())?;
    let gemm = compile(&scheduled, &Build::default()).map_err(fail)?;
    let pool = Pool::new(2).map_err(fail)?;

    for (m, n, k) in [(37, 45, 29), (1, 1, 1), (5, 0, 3), (64, 64, 0)] {
        // Small integers: every product and sum is exact, so the result must be, too.
        let a: Vec<f32> = (0..m * k).map(|i| (i * 7 % 11) as f32 - 5.0).collect();
        let b: Vec<f32> = (0..k * n).map(|i| (i * 5 % 13) as f32 - 6.0).collect();
        let mut c = vec![f32::NAN; m * n];
        let shape = |rows: usize, columns: usize| [rows as i64, columns as i64];
        let (shape_a, shape_b, shape_c) = (shape(m, k), shape(k, n), shape(m, n));
        // Dense and row-major: the first element lies at 0, and a row is as long as it has columns.
        let (strides_a, strides_b, strides_c) = ([shape_a[1], 1], [shape_b[1], 1], [shape_c[1], 1]);
        let mut arguments = [
            ArgView::from_slice(&a, 0, &shape_a, &strides_a).map_err(fail)?,
            ArgView::from_slice(&b, 0, &shape_b, &strides_b).map_err(fail)?,
            ArgView::from_slice_mut(&mut c, 0, &shape_c, &strides_c).map_err(fail)?,
        ];
        gemm.call_views(&pool, &mut arguments).map_err(fail)?;
        for i in 0..m {
            for j in 0..n {
                let want: f32 = (0..k).map(|l| a[i * k + l] * b[l * n + j]).sum();
                assert_eq!(c[i * n + j], want, "C[{i}, {j}]");
            }
        }
        println!("gemm: {m} x {n} x {k} as expected");
    }
    Ok(())
}
