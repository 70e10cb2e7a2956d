//! Loops over devices on several of them: the results of the interpreter, whatever the number of devices, and no byte moves
//! that need not.

use super::opencl;
use crate::support::{self, inputs, normal, parse};
use lathe_ir::interp::{ArrayValue, Options as Run, Order, Program};
use lathe_ir::{Mode, ParamKind};
use lathe_runtime::device::{Argument, Buffer, Counters, Devices, Part, devices_of, start_on};
use lathe_runtime::{Kernel, Options, compile};

/// One device in the place of several: each has memory of its own.
fn devices(n: usize) -> Devices {
    let one = devices_of("opencl").expect("PoCL (scripts/setup.sh installs it)");
    Devices::open(vec![one[0].clone(); n]).expect("devices")
}

fn kernel(text: &str) -> Kernel {
    let (m, f) = parse(text);
    compile(opencl(), &m, &f, &Options::default()).unwrap_or_else(|d| panic!("{d}\n{text}"))
}

/// What comes out, and what was moved until all results were on the host.
fn on(devices: &Devices, kernel: &Kernel, given: &[ArrayValue]) -> (Vec<Vec<u8>>, Counters) {
    let params = &kernel.function().params;
    let mut buffers = Vec::new();
    let mut arguments: Vec<Argument> = Vec::new();
    for (p, v) in params.iter().zip(given) {
        let ty = v.ty.scalar().expect("scalars");
        let dtype = lathe_engine::dtype_of(&v.ty);
        match &p.kind {
            ParamKind::Scalar(_) => arguments.push(Argument::scalar(v.bytes(), Some(dtype))),
            ParamKind::Array(_) => {
                let buffer = match p.mode {
                    Mode::Out => Buffer::<u8>::new(devices, v.bytes().len()),
                    _ => Buffer::from_slice(devices, v.bytes()),
                };
                let buffer = buffer.expect("a buffer");
                let shape: Vec<i64> = v.shape.iter().map(|e| *e as i64).collect();
                arguments.push(Part::from(&buffer).typed(dtype, ty.bytes()).shaped(&shape).into());
                buffers.push((p.mode, v.ty.clone(), buffer));
            }
        }
    }
    let before = devices.counters().expect("counters");
    let launches = start_on(kernel, devices, &arguments).unwrap_or_else(|d| panic!("{d:?}"));
    launches.iter().for_each(|l| l.wait().expect("it ran"));
    let results = buffers.iter().filter(|b| b.0 != Mode::In);
    let results = results.map(|(_, ty, b)| normal(ty, &b.to_vec().expect("written"))).collect();
    let after = devices.counters().expect("counters");
    let moved = Counters {
        to_device_bytes: after.to_device_bytes - before.to_device_bytes,
        from_device_bytes: after.from_device_bytes - before.from_device_bytes,
        between_bytes: after.between_bytes - before.between_bytes,
        copies: after.copies - before.copies,
        launches: after.launches - before.launches,
        ..Counters::default()
    };
    (results, moved)
}

fn wanted(text: &str, given: &[ArrayValue]) -> Vec<Vec<u8>> {
    let (m, f) = parse(text);
    let program = Program::new(&m, &f, Order::Seed(3), true).unwrap_or_else(|d| panic!("{d}"));
    let mut want = given.to_vec();
    let run = Run { order: Order::Seed(5), races: true, ..Run::default() };
    program.run(&mut want, &run).unwrap_or_else(|d| panic!("{}: {d:?}", f.name));
    let outputs = f.params.iter().zip(&want).filter(|(p, _)| p.mode != Mode::In);
    outputs.map(|(_, v)| normal(&v.ty, v.bytes())).collect()
}

/// Rows with halos over several steps.
const HEAT: &str = "func heat(N, M)(A: inout f32[N + 2, M], B: inout f32[N + 2, M]) stage scheduled {
  for t in 0..3 {
    for d in 0..4 device {
      for i in 0..min((N + 3) // 4, N - (N + 3) // 4 * d) level(grid) {
        for j in 0..M level(block) {
          'B'[t, d, i, j]: B[(N + 3) // 4 * d + i + 1, j] = A[(N + 3) // 4 * d + i, j] + A[(N + 3) // 4 * d + i + 1, j] * A[(N + 3) // 4 * d + i + 2, j]
        }
      }
    }
    for d in 0..4 device {
      for i in 0..min((N + 3) // 4, N - (N + 3) // 4 * d) level(grid) {
        for j in 0..M level(block) {
          'A'[t, d, i, j]: A[(N + 3) // 4 * d + i + 1, j] = B[(N + 3) // 4 * d + i, j] - B[(N + 3) // 4 * d + i + 2, j]
        }
      }
    }
  }
}";

/// Elements in blocks of 8 that are cut at the end of each device's part.
const SCALE: &str = "func scale(N)(a: in f32, X: in f32[N], Y: out f32[N]) stage scheduled {
  for d in 0..3 device {
    for b in 0..(min((N + 2) // 3, N - (N + 2) // 3 * d) + 7) // 8 level(grid) {
      for t in 0..min(8, min((N + 2) // 3, N - (N + 2) // 3 * d) - 8 * b) level(block) {
        'Y'[d, b, t]: Y[(N + 2) // 3 * d + 8 * b + t] = a * X[(N + 2) // 3 * d + 8 * b + t]
      }
    }
  }
}";

/// The same for every device: a sum of each, then the sum of these on one.
const SUM: &str = "func total(N)(X: in f64[N], s: out f64[]) stage scheduled {
  alloc part: f64[5] global
  for d in 0..5 device {
    for g in 0..1 level(grid) {
      'part'[d]: part[d] = 0.0:f64
      for i in 0..min((N + 4) // 5, N - (N + 4) // 5 * d) {
        'part.r'[d, i]: part[d] = part[d] + X[(N + 4) // 5 * d + i]
      }
    }
  }
  's'[]: s[] = 0.0:f64
  for d in 0..5 {
    's.r'[d]: s[] = s[] + part[d]
  }
}";

/// Columns, from the last to the first, of rows that are found by an index; some under a condition.
const COLUMNS: &str =
    "func columns(N, M)(I: in i32[N], X: in i32[N, M], Y: inout i32[N, M]) stage scheduled {
  for d in 0..2 device {
    for i in 0..N level(grid) {
      for j in 0..min((M + 1) // 2, M - (M + 1) // 2 * d) level(block) {
        if i + j < 9 {
          'Y'[d, i, j]: Y[i, M - 1 - (M + 1) // 2 * d - j] = X[index(I[i]), (M + 1) // 2 * d + j] + 1:i32
        }
      }
    }
  }
}";

/// What a device writes first is an array of its own; the second loop goes the other way.
const TWICE: &str = "func twice(N)(X: in i64[N], Y: out i64[N]) stage scheduled {
  alloc T: i64[N] global
  for d in 0..3 device {
    for b in 0..min((N + 2) // 3, N - (N + 2) // 3 * d) level(grid) {
      'T'[d, b]: T[(N + 2) // 3 * d + b] = X[(N + 2) // 3 * d + b] * 3:i64
    }
  }
  for d in 0..3 device {
    for b in 0..min((N + 2) // 3, N - (N + 2) // 3 * d) level(grid) {
      'Y'[d, b]: Y[(N + 2) // 3 * d + b] = T[N - 1 - (N + 2) // 3 * d - b]
    }
  }
}";

#[test]
fn any_sizes_on_any_number_of_devices() {
    let teams: Vec<Devices> = (1..=4).map(devices).collect();
    for text in [HEAT, SCALE, SUM, COLUMNS, TWICE] {
        let (_, f) = parse(text);
        let kernel = kernel(text);
        let rounds =
            std::env::var("LATHE_CASES").ok().and_then(|n| n.parse().ok()).map_or(12, |n: u64| n / 20);
        for round in 0..rounds.max(12) {
            let size = |k: u64| match round {
                0..3 => round as i64,
                _ => 1 + (round.wrapping_mul(7919).wrapping_add(k * 104_729) % 59) as i64,
            };
            let sizes: Vec<i64> = (0..f.sizes.len() as u64).map(size).collect();
            let given = inputs(&f, &sizes, round);
            let want = wanted(text, &given);
            for team in &teams {
                assert_eq!(on(team, &kernel, &given).0, want, "{} {sizes:?} on {}", f.name, team.len());
            }
        }
    }
}

/// Every input goes to the device that reads it, every result comes back once, halos go from neighbour to neighbour.
#[test]
fn nothing_moves_that_need_not() {
    let team = devices(4);
    let moved = |text: &str, sizes: &[i64]| {
        let (_, f) = parse(text);
        let m = on(&team, &kernel(text), &inputs(&f, sizes, 3)).1;
        [m.to_device_bytes, m.from_device_bytes, m.between_bytes, m.copies, m.launches]
    };
    // Parts of 14, 14 and 13 elements.
    assert_eq!(moved(SCALE, &[41]), [4 * 41, 4 * 41, 0, 6, 3]);
    // Four devices of 4 rows of 5. Of `A` they read 4 + 2 rows each; the rows of `B` that nobody writes are read by the first
    // and the last, and what is written on a device need not be there before only if it is known to be written in full: `B`
    // may keep what it had, so its rows go there, too.
    let row = 4 * 5;
    let [up, down, between, _, launches] = moved(HEAT, &[16, 5]);
    assert_eq!((up, down, launches), ((4 * 6 + 16 + 2) * row, 2 * 16 * row, 24));
    // Three boundaries, two halos at each, in all but the first of six half steps.
    assert_eq!(between, 5 * 3 * 2 * row);
    // Partial results of four other parts come to the first device, one of them is there already by its number.
    let [up, down, between, _, launches] = moved(SUM, &[23]);
    assert_eq!((up, down, between, launches), (8 * 23, 8, 8 * 3, 6));
    assert_eq!(moved(SUM, &[0])[..3], [0, 8, 8 * 3]);
    // Nothing but the rows that turn around.
    let [up, down, between, ..] = moved(TWICE, &[12]);
    assert_eq!((up, down, between), (8 * 12, 8 * 12, 8 * 8));
}

/// Single devices, and engines for CPUs, run such loops one iteration after the other.
#[test]
fn one_device_runs_all_iterations() {
    for (text, sizes) in [(HEAT, [6, 3]), (COLUMNS, [5, 7])] {
        super::agree(text, &[&sizes, &[0, 0], &[1, 1]]);
        let engines: Vec<_> = lathe_runtime::Engine::ALL.to_vec();
        support::agree_with(&engines, &[false], 2, text, &[&sizes, &[1, 2]]);
    }
}

/// Devices that the code was not made for, and arrays of other devices.
#[test]
fn what_is_wrong_is_refused() {
    let (team, other) = (devices(2), devices(2));
    let kernel = kernel(SCALE);
    let x = Buffer::from_slice(&team, &[1f32; 8]).expect("a buffer");
    // The first buffer of the others has the number of `x`.
    let y = Buffer::<f32>::new(&other, 8).expect("a buffer");
    let d = start_on(&kernel, &team, &[2.0f32.into(), (&x).into_part(), (&y).into_part()]).err();
    assert_eq!(d.expect("other devices").code, lathe_runtime::device_codes::ARGUMENTS);
    let z = Buffer::<f32>::new(&team, 7).expect("a buffer");
    let d = start_on(&kernel, &team, &[2.0f32.into(), (&x).into_part(), (&z).into_part()]).err();
    assert_eq!(d.expect("other sizes").code.0, "E0811");
    let u = Buffer::<f32>::new(&team, 8).expect("a buffer");
    let d = start_on(&kernel, &team, &[2.0f32.into(), (&u).into_part(), (&x).into_part()]).err();
    assert_eq!(d.expect("uninitialized").code, lathe_host::codes::UNDEFINED);
    assert_eq!(x.to_vec().expect("whole"), [1.0; 8]);
}

trait IntoPart {
    fn into_part(self) -> Argument;
}

impl IntoPart for &Buffer<f32> {
    fn into_part(self) -> Argument {
        Part::from(self).into()
    }
}
