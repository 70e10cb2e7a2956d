//! Calls that would take years end when they are to: by a time limit, or because somebody asks for it.

use lathe_diagnostics::{Diagnostic, FileId};
use lathe_ir::Scalar;
use lathe_ir::text::parse_module;
use lathe_runtime::{ArgView, Array, Engine, Kernel, Limits, Options, Pool, compile};
use std::cell::Cell;
use std::time::Duration;

/// Each of its branches takes years for large `n`, and few steps for 1: a loop of unknown length, loops in loops, threads
/// with memory of their own, one thread that waits for another, copies of memory, threads that wait for the first of them.
const KERNEL: &str = "func long(N)(how: in i64, n: in i64, x: inout i64[N], big: inout u8[8192]) {
  if how == 0:i64 { while x[0] < n { 'x'[]: x[0] = select(x[0] < 1:i64, 1:i64, x[0]) } }
  if how == 1:i64 {
    for i in 0..index(n) { for j in 0..index(n) { for k in 0..N { 'x.2'[i, j, k]: x[k] = x[k] * 3:i64 + i64(j) } } }
  }
  for t in 0..16 cpu {
    if how == 2:i64 {
      alloc s: i64[N + 1000] host
      for j in 0..N + 1000 { 's'[t, j]: s[j] = i64(j) }
      for i in 0..index(n) { for j in 0..N { 's.2'[t, i, j]: s[j] = s[j + 7] * 5:i64 + s[j] } }
      if t == 3 { 'x.3'[t]: x[0] = s[0] }
    }
  }
  for t in 0..2 cpu {
    if how == 3:i64 { if t == 1 {
      for i in 0..index(n) { for j in 0..N { 'x.4'[t, i, j]: x[j] = x[j] * 3:i64 + i64(i) } }
    } }
  }
  if how == 4:i64 {
    for i in 0..index(n) { for j in 0..4096 { 'big'[i, j]: big[j] = big[j + 4096] } }
  }
  if how == 5:i64 {
    for t in 0..8 cpu {
      alloc s: i64[] register
      's.3'[t]: s[] = 1:i64
      for i in 0..select(t == 0, index(n), 1) { 's.4'[t, i]: s[] = s[] * s[] + i64(i) }
      atomic 'x.5'[t]: x[1] sum= s[] inorder scope cpu
    }
  }
}";

/// All ways.
const WAYS: [i64; 6] = [0, 1, 2, 3, 4, 5];

fn kernels() -> Vec<Kernel> {
    let m = parse_module(FileId(0), KERNEL).unwrap();
    let f = m.functions.values().next().unwrap();
    Engine::ALL.iter().map(|e| compile(*e, &m, f, &Options::default()).unwrap()).collect()
}

fn call(k: &Kernel, pool: &Pool, how: i64, n: i64, limits: &Limits) -> Result<i64, Diagnostic> {
    let mut big = Array::zeros(Scalar::U8, &[8 << 10]).unwrap();
    let mut x = Array::zeros(Scalar::I64, &[64]).unwrap();
    let (mut how, mut n) = (Array::scalar(how).unwrap(), Array::scalar(n).unwrap());
    let mut args: [ArgView; 4] = [how.view_mut(), n.view_mut(), x.view_mut(), big.view_mut()];
    k.call_within(pool, &mut args, limits)?;
    Ok(x.to_vec::<i64>().unwrap()[0])
}

/// A call that ends by itself, with the same result as on any other thread.
fn works(k: &Kernel, pool: &Pool, limits: &Limits) {
    let all = WAYS.map(|how| call(k, pool, how, 1, limits).unwrap());
    assert_eq!(all, [1, 0, 7 * 5, 0, 0, 0]);
}

/// Far more iterations than any machine has time for.
const YEARS: i64 = 1 << 40;

#[test]
fn calls_end_when_their_time_is_over() {
    for k in kernels() {
        for threads in [1, 2, 3] {
            let pool = Pool::new(threads).unwrap();
            let soon = Limits { time: Some(Duration::from_millis(30)), ..Limits::default() };
            let late = Limits { time: Some(Duration::from_secs(1000)), ..Limits::default() };
            for how in WAYS {
                let d = call(&k, &pool, how, YEARS, &soon).unwrap_err();
                assert_eq!(d.code.0, "E0825", "{d}");
                assert!(d.to_string().contains("0.03"), "{d}");
                works(&k, &pool, &Limits::default());
                works(&k, &pool, &late);
            }
        }
    }
}

#[test]
fn calls_are_interrupted() {
    for (k, other) in kernels().into_iter().zip(kernels()) {
        for threads in [1, 2] {
            let pool = Pool::new(threads).unwrap();
            for how in WAYS {
                let asked = Cell::new(0);
                // Whoever is asked may do what it likes: allocate, call kernels, even interrupt them in turn.
                let ask = || {
                    asked.set(asked.get() + 1);
                    works(&other, &pool, &Limits::default());
                    let inner = Limits { interrupt: Some(&|| true), ..Limits::default() };
                    let d = call(&other, &pool, how, YEARS, &inner).unwrap_err();
                    assert_eq!(d.code.0, "E0824", "{d}");
                    asked.get() == 2
                };
                let limits = Limits { interrupt: Some(&ask), ..Limits::default() };
                let d = call(&k, &pool, how, YEARS, &limits).unwrap_err();
                assert_eq!((d.code.0, asked.get()), ("E0824", 2), "{d}");
                works(&k, &pool, &limits);
            }
        }
    }
}

/// Each thread ends its own calls; others of the same pool go on.
#[test]
fn calls_of_several_threads_end_apart() {
    let k = &kernels()[0];
    let pool = &Pool::new(2).unwrap();
    std::thread::scope(|s| {
        for n in 0..4u64 {
            s.spawn(move || {
                for how in WAYS {
                    let time = Some(Duration::from_millis(10 + 15 * n));
                    let d = call(k, pool, how, YEARS, &Limits { time, ..Limits::default() }).unwrap_err();
                    assert_eq!(d.code.0, "E0825", "{d}");
                    works(k, pool, &Limits::default());
                }
            });
        }
    });
}
