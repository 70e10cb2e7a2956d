//! Checks of data in kernels: what they do not hold for is not run.

use super::*;
use lathe_runtime::{Array, Pool, compile};

/// Elements of `T` whose numbers are data, by blocks that wait for one another if `phased`; then what these are divided by.
fn gather(phased: bool) -> String {
    let body = if phased {
        "alloc S: i32[64] shared
      for t in 0..min(64, N - 64 * g) level(block) { 'S'[g, t]: S[t] = 64:i32 // D[T[index(I[64 * g + t])]] }
      for t in 0..min(64, N - 64 * g) level(block) { 'O'[g, t]: O[64 * g + t] = S[min(64, N - 64 * g) - 1 - t] }"
    } else {
        "for t in 0..min(64, N - 64 * g) level(block) { 'O'[g, t]: O[64 * g + t] = i32(T[index(I[64 * g + t])]) }"
    };
    format!(
        "func gather(N, E)(T: in index[E], I: in i32[N], D: in i32[E], O: inout i32[N]) stage scheduled {{
  for i in 0..N {{ check 0 <= index(I[i]) and index(I[i]) < E, \"bounds\", \"`T[I[i]]` is outside of the array\" }}
  for i in 0..E {{ check 0 <= T[i] and T[i] < E, \"bounds\", \"`D[T[i]]` is outside of the array\" }}
  for g in 0..(N + 63) // 64 level(grid) {{
      {body}
  }}
}}"
    )
}

#[test]
fn what_a_check_does_not_hold_for_is_not_run() {
    let (n, e) = (1000usize, 4usize);
    for (phased, after) in [(false, 0), (true, 1)] {
        let (m, f) = parse(&gather(phased));
        compiles(&m, &f);
        for language in [Language::Cuda, Language::OpenCl] {
            let source = emit(&m, &f, language, Limits::default()).expect("kernels");
            let words: Vec<_> = source.kernels.iter().map(|k| k.after).collect();
            assert_eq!(words, [None, Some(0), Some(after)], "{}", source.source);
            assert!(source.source.contains(&format!("if (lathe_status[{after}] != 0) return;")));
        }
        #[cfg(feature = "llvm")]
        if phased {
            // Nobody leaves between the first barrier and the last one.
            let (ptx, _) = ptx_of(&m, &f, "sm_90a");
            let waits: Vec<_> = ptx.match_indices("bar.sync").map(|(at, _)| at).collect();
            assert!(!ptx[waits[0]..waits[waits.len() - 1]].contains("ret;"), "{ptx}");
            assert!(ptx[waits[waits.len() - 1]..].contains("cas"), "{ptx}");
        }
        let kernel = compile(opencl(), &m, &f, &Options::default()).expect("a kernel");
        let pool = Pool::new(1).expect("a pool");
        // One number that is no element, one that no memory has, one divisor of 0.
        for (number, divisor, fails) in
            [(3, 2, false), (4, 2, true), (i32::MAX, 2, true), (i32::MIN, 2, true), (3, 0, phased)]
        {
            let mut all = [
                Array::zeros(Scalar::Index, &[e as i64]).expect("an array"),
                Array::zeros(Scalar::I32, &[n as i64]).expect("an array"),
                Array::zeros(Scalar::I32, &[e as i64]).expect("an array"),
                Array::zeros(Scalar::I32, &[n as i64]).expect("an array"),
            ];
            for at in 0..e as i64 {
                all[0].element_mut(&[at]).expect("an element").copy_from_slice(&at.to_ne_bytes());
                let d = if at == 3 { divisor } else { 1i32 };
                all[2].element_mut(&[at]).expect("an element").copy_from_slice(&d.to_ne_bytes());
            }
            all[1].element_mut(&[777]).expect("an element").copy_from_slice(&number.to_ne_bytes());
            let mut views: Vec<_> = all.iter_mut().map(Array::view_mut).collect();
            let called = kernel.call(&pool, &mut views);
            assert_eq!(called.is_err(), fails, "{phased} {number} {divisor}: {called:?}");
            if number == 4 {
                assert!(called.is_err_and(|d| d.to_string().contains("`T[I[i]]` is outside of the array")));
            }
        }
    }
}
