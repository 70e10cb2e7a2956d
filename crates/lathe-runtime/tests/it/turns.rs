//! Updates in the order of a loop on threads: results with the interpreter's bits, on more threads than processors, too; and
//! no call that waits forever.

use crate::support::{inputs, normal, parse};
use lathe_ir::interp::{ArrayValue, Order, Program};
use lathe_runtime::{ArgView, Array, Engine, Limits, Options, Pool, compile};
use std::time::Duration;

/// Two scans at once, in blocks of so many elements, of a type, by an operator; each iteration notes what it started from.
fn scans(ty: &str, op: &str, block: i64) -> String {
    format!(
        "op last(a, b): i32 associative identity(0:i32) = select(b[] == 0:i32, a[], b[])
op maps(a, b): u64 associative identity(4294967296:u64) =
  a[] // 4294967296:u64 * (b[] // 4294967296:u64) * 4294967296:u64
  + (a[] % 4294967296:u64 * (b[] // 4294967296:u64) + b[] % 4294967296:u64) % 4294967296:u64

func scans(N)(x: in {ty}[N], y: in i64[N], s: out {ty}[N], t: inout i64[2]) stage scheduled {{
  alloc acc: {ty}[] register {{
    'acc'[]: acc[] = {ty}(3:i32)
    for b in 0..(N + {last}) // {block} cpu {{
      alloc total: {ty}[] register
      alloc sum: i64[] register
      'total'[b]: total[] = x[b * {block}]
      for i in b * {block} + 1..min(b * {block} + {block}, N) {{ 'total.2'[b, i]: total[] {op}= x[i] }}
      'sum'[b]: sum[] = 0:i64
      for i in b * {block}..min(b * {block} + {block}, N) {{ 'sum.2'[b, i]: sum[] sum= y[i] }}
      atomic 't'[b]: t[1] sum= sum[] inorder scope cpu
      atomic 'turn'[b]: acc[] {op}= total[] inorder scope cpu as before: {ty} {{
        alloc run: {ty}[] register
        'run'[b]: run[] = before
        for i in b * {block}..min(b * {block} + {block}, N) {{
          'run.2'[b, i]: run[] {op}= x[i]
          's'[b, i]: s[i] = run[]
        }}
      }}
    }}
    't.2'[]: t[0] = i64(bitcast<{bits}>(acc[]))
  }}
}}",
        last = block - 1,
        bits = match ty {
            "f32" => "i32",
            "f64" => "i64",
            other => other,
        }
    )
}

/// Long enough for any machine; a call that would wait forever fails instead.
fn limits() -> Limits<'static> {
    Limits { time: Some(Duration::from_secs(120)), ..Limits::default() }
}

#[test]
fn threads_take_turns() {
    let pools: Vec<Pool> = [1, 2, 8].into_iter().map(|n| Pool::new(n).unwrap()).collect();
    for (ty, op) in
        [("i32", "sum"), ("f32", "sum"), ("f64", "max"), ("i64", "prod"), ("i32", "last"), ("u64", "maps")]
    {
        for block in [1, 4, 64] {
            let (m, f) = parse(&scans(ty, op, block));
            let program = Program::new(&m, &f, Order::Reference, false).unwrap_or_else(|d| panic!("{d}"));
            for engine in [Engine::LLVM, Engine::C] {
                let kernel = compile(engine, &m, &f, &Options::default()).unwrap_or_else(|d| panic!("{d}"));
                for n in [0, 1, 2, block - 1, block, block + 1, 7 * block, 7 * block + 3, 1000] {
                    let given = inputs(&f, &[n], (n + block) as u64);
                    let mut expected = given.clone();
                    program.run(&mut expected, &lathe_ir::interp::Options::default()).unwrap();
                    for (pool, times) in pools.iter().zip([1, 3, 3]) {
                        for _ in 0..times {
                            let what = format!("{ty} {op} {block} {n} {} {pool:?}", engine.name());
                            assert_eq!(called(&kernel, pool, &given), results(&expected), "{what}");
                        }
                    }
                }
            }
        }
    }
}

fn results(all: &[ArrayValue]) -> Vec<Vec<u8>> {
    all[2..].iter().map(|a| normal(&a.ty, a.bytes())).collect()
}

fn called(kernel: &lathe_runtime::Kernel, pool: &Pool, given: &[ArrayValue]) -> Vec<Vec<u8>> {
    let mut arrays: Vec<Array> = given
        .iter()
        .map(|v| {
            let shape: Vec<i64> = v.shape.iter().map(|n| *n as i64).collect();
            let mut a = Array::zeros(v.ty.clone(), &shape).unwrap();
            a.bytes_mut().copy_from_slice(v.bytes());
            a
        })
        .collect();
    let mut views: Vec<ArgView> = arrays.iter_mut().map(Array::view_mut).collect();
    kernel.call_within(pool, &mut views, &limits()).unwrap_or_else(|d| panic!("{d}"));
    drop(views);
    arrays[2..].iter().map(|a| normal(a.ty(), a.bytes())).collect()
}

/// Many short blocks, so that most of them wait; several callers at once, whose workers are the same.
#[test]
fn nobody_waits_in_vain() {
    let (m, f) = parse(&scans("i64", "sum", 16));
    let kernel = compile(Engine::LLVM, &m, &f, &Options::default()).unwrap_or_else(|d| panic!("{d}"));
    let n = 40_000;
    let given = inputs(&f, &[n], 5);
    let x = |at: usize| i64::from_le_bytes(given[0].bytes()[8 * at..8 * at + 8].try_into().unwrap());
    let sums = (0..n as usize).scan(3i64, |s, at| {
        *s = s.wrapping_add(x(at));
        Some(*s)
    });
    let expected: Vec<u8> = sums.flat_map(i64::to_le_bytes).collect();
    for threads in [2, 8] {
        let pool = Pool::new(threads).unwrap();
        std::thread::scope(|s| {
            for _ in 0..2 {
                s.spawn(|| {
                    for _ in 0..20 {
                        assert!(called(&kernel, &pool, &given)[0] == expected, "{threads} threads");
                    }
                });
            }
        });
    }
}
