//! Rust crates that compete with Lathe, behind a C interface, for `bench.py`.

fn parallelism(threads: i64) -> gemm::Parallelism {
    if threads == 1 { gemm::Parallelism::None } else { gemm::Parallelism::Rayon(threads as usize) }
}

macro_rules! rivals {
    ($gemm:ident, $faer:ident, $t:ty) => {
        /// The crate `gemm` on dense row-major matrices.
        ///
        /// # Safety
        /// The pointers lead to `m*k`, `k*n` and `m*n` elements.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $gemm(m: i64, n: i64, k: i64, a: *const $t, b: *const $t, c: *mut $t, threads: i64, times: i64) {
            let (m, n, k) = (m as usize, n as usize, k as usize);
            for _ in 0..times {
                // SAFETY: by the caller.
                unsafe {
                    gemm::gemm(
                        m, n, k, c, 1, n as isize, false, a, 1, k as isize, b, 1, n as isize, 0.0, 1.0, false, false, false,
                        parallelism(threads),
                    );
                }
            }
        }

        /// The crate `faer` on dense row-major matrices.
        ///
        /// # Safety
        /// As for the other.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $faer(m: i64, n: i64, k: i64, a: *const $t, b: *const $t, c: *mut $t, threads: i64, times: i64) {
            let (m, n, k) = (m as usize, n as usize, k as usize);
            let par = if threads == 1 { faer::Par::Seq } else { faer::Par::rayon(threads as usize) };
            for _ in 0..times {
                // SAFETY: by the caller.
                let (a, b, c) = unsafe {
                    (
                        faer::MatRef::from_raw_parts(a, m, k, k as isize, 1),
                        faer::MatRef::from_raw_parts(b, k, n, n as isize, 1),
                        faer::MatMut::from_raw_parts_mut(c, m, n, n as isize, 1),
                    )
                };
                faer::linalg::matmul::matmul(c, faer::Accum::Replace, a, b, 1.0, par);
            }
        }
    };
}
rivals!(rival_gemm_f32, rival_faer_f32, f32);
rivals!(rival_gemm_f64, rival_faer_f64, f64);
