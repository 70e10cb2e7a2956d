//! Devices for programs: buffers that move by themselves, kernels of Lathe and of the user's own.
//!
//! ```no_run
//! use lathe::device::{Buffer, Devices};
//! use lathe::{Build, Engine, How, Machine, Program};
//!
//! let program = Program::open("examples/gemm.lathe")?;
//! let kernel = program.kernel(Some("gemm"))?;
//! let machine = lathe::machine::with_device(Machine::host(), "cuda");
//! let how = How { strategy: Some("naive".into()), ..How::default() };
//! let schedule = lathe::schedule(&program, kernel, &how, &machine)?;
//! let build = Build { engine: Engine::device("cuda")?, ..Build::default() };
//! let gemm = lathe::compile(&schedule, &build)?;
//!
//! let devices = Devices::named("cuda")?;
//! let a = Buffer::from_slice(&devices, &vec![1.0f32; 64 * 32])?;
//! let b = Buffer::from_slice(&devices, &vec![2.0f32; 32 * 48])?;
//! let c = Buffer::<f32>::new(&devices, 64 * 48)?;
//! let arguments = [a.shaped(&[64, 32]).into(), b.shaped(&[32, 48]).into(), c.shaped(&[64, 48]).into()];
//! gemm.launch(&devices.device(0)?, &arguments)?;
//! assert_eq!(c.to_vec()?[0], 64.0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use crate::cache::Cache;
pub use lathe_runtime::device::*;
pub use lathe_runtime::device_codes::{ARGUMENTS, PART};
use std::sync::Arc;

/// Compiled kernels of the user's own are kept in a cache from now on, for this process and others.
pub fn keep_code(devices: &Devices, cache: Arc<Cache>) {
    devices.keep_code(Arc::new(Kept(cache)));
}

struct Kept(Arc<Cache>);

impl Kept {
    fn key(parts: &[&str]) -> String {
        let all: Vec<&str> =
            ["kernel of the user's", env!("LATHE_BUILD")].iter().chain(parts).copied().collect();
        lathe_measure::store::hash_of(&all)
    }
}

impl Keep for Kept {
    fn get(&self, key: &[&str]) -> Option<Vec<u8>> {
        self.0.get(&Kept::key(key))
    }

    fn put(&self, key: &[&str], bytes: &[u8]) {
        self.0.put(&Kept::key(key), bytes);
    }
}
