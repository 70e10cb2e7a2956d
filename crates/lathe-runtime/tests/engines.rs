//! Both engines against the interpreter, bit for bit.

use lathe_diagnostics::FileId;
use lathe_ir::interp::{ArrayValue, Order, Program};
use lathe_ir::text::parse_module;
use lathe_ir::{Function, Mode, Module, ParamKind, Scalar, Type};
use lathe_runtime::{ArgView, Array, Engine, Kernel, Options, Pool, compile};

fn parse(text: &str) -> (Module, Function) {
    let m = parse_module(FileId(0), text).unwrap_or_else(|d| panic!("{d:#?}\n{text}"));
    let f = m.functions.values().next().expect("a function").clone();
    (m, f)
}

fn engines() -> Vec<Engine> {
    if cfg!(feature = "llvm") { vec![Engine::C, Engine::Llvm] } else { vec![Engine::C] }
}

/// Values without NaN payloads: every NaN is the same.
fn normal(ty: &Type, bytes: &[u8]) -> Vec<u8> {
    let mut out = bytes.to_vec();
    let nan = |c: &mut [u8], is: bool, quiet: &[u8]| {
        if is {
            c.copy_from_slice(quiet);
        }
    };
    match ty.scalar() {
        Some(Scalar::F32) => out.chunks_exact_mut(4).for_each(|c| {
            let v = f32::from_ne_bytes([c[0], c[1], c[2], c[3]]);
            nan(c, v.is_nan(), &f32::NAN.to_ne_bytes());
        }),
        Some(Scalar::F64) => out.chunks_exact_mut(8).for_each(|c| {
            let v = f64::from_ne_bytes([c[0], c[1], c[2], c[3], c[4], c[5], c[6], c[7]]);
            nan(c, v.is_nan(), &f64::NAN.to_ne_bytes());
        }),
        Some(Scalar::F16) => out.chunks_exact_mut(2).for_each(|c| {
            let v = half_bits(c);
            nan(c, v & 0x7fff > 0x7c00, &0x7e00u16.to_ne_bytes());
        }),
        Some(Scalar::Bf16) => out.chunks_exact_mut(2).for_each(|c| {
            let v = half_bits(c);
            nan(c, v & 0x7fff > 0x7f80, &0x7fc0u16.to_ne_bytes());
        }),
        _ => {}
    }
    out
}

fn half_bits(c: &[u8]) -> u16 {
    u16::from_ne_bytes([c[0], c[1]])
}

/// Runs a kernel on the inputs; with `strided`, on arguments whose innermost strides are not 1.
fn run(kernel: &Kernel, pool: &Pool, f: &Function, inputs: &[ArrayValue], strided: bool) -> Vec<Vec<u8>> {
    let mut arrays = Vec::new();
    for v in inputs {
        let shape: Vec<i64> = v.shape.iter().map(|e| *e as i64).collect();
        let mut strides = lathe_runtime::array::column_major(&shape);
        if strided {
            strides.iter_mut().for_each(|s| *s *= -2);
        }
        let mut a = if strided {
            Array::with_strides(v.ty.clone(), &shape, &strides).unwrap()
        } else {
            Array::zeros(v.ty.clone(), &shape).unwrap()
        };
        let n = v.ty.bytes() as usize;
        for at in 0..v.len() {
            let index: Vec<i64> = v.index_of(at).iter().map(|i| *i as i64).collect();
            a.element_mut(&index).unwrap().copy_from_slice(&v.bytes()[at * n..(at + 1) * n]);
        }
        arrays.push(a);
    }
    let mut views: Vec<ArgView> = arrays.iter_mut().map(Array::view_mut).collect();
    kernel.call(pool, &mut views).unwrap_or_else(|d| panic!("{}: {d}", f.name));
    drop(views);
    let outputs = f.params.iter().zip(&arrays).filter(|(p, _)| p.mode != Mode::In);
    outputs.map(|(_, a)| normal(a.ty(), a.to_row_major().unwrap().bytes())).collect()
}

/// Inputs of the shapes that sizes give, in the order of parameters.
fn inputs(f: &Function, sizes: &[i64], seed: u64) -> Vec<ArrayValue> {
    let values = f.sizes.iter().zip(sizes).map(|(b, v)| (b.id, lathe_ir::build::index(*v))).collect();
    let each = f.params.iter().enumerate().map(|(i, p)| {
        let (ty, shape): (Type, Vec<i64>) = match &p.kind {
            ParamKind::Scalar(b) => (b.ty.into(), vec![]),
            ParamKind::Array(b) => {
                let extent = |e| lathe_ir::visit::substitute(e, &values).as_int().unwrap().max(0);
                (b.elem.clone(), b.extents.iter().map(extent).collect())
            }
        };
        let mut a = Array::zeros(ty.clone(), &shape).unwrap();
        if p.name().starts_with("I") {
            a.fill_below(seed, sizes[0] as u64)
        } else {
            a.fill_random(seed + i as u64)
        }
        if p.name().starts_with("S") {
            special(&mut a);
        }
        let shape: Vec<usize> = shape.iter().map(|e| *e as usize).collect();
        ArrayValue::from_bytes(ty, &shape, a.bytes().to_vec()).unwrap()
    });
    each.collect()
}

/// Values at the edges of the type.
fn special(a: &mut Array) {
    let floats = [
        0.0,
        -0.0,
        f64::NAN,
        f64::INFINITY,
        -f64::INFINITY,
        1.5,
        -2.5,
        0.5,
        3e9,
        -3e9,
        1e19,
        -1e19,
        300.7,
        1e-40,
        65520.0,
        2.5e-8,
    ];
    let ints = [0, 1, -1, i64::MIN, i64::MAX, 7, -7, 127, -128, 255, 1 << 31, -(1 << 31), 65535, 3, -3, 63];
    let s = a.ty().scalar().unwrap();
    let n = s.bytes() as usize;
    for (i, c) in a.bytes_mut().chunks_exact_mut(n).enumerate() {
        let k = (i * 7 + i / 16) % 16;
        let bits = if s.is_float() {
            lathe_ir::scalar::of_f64(s, floats[k])
        } else if s == Scalar::Bool {
            (k & 1) as u64
        } else {
            ints[k] as u64
        };
        c.copy_from_slice(&bits.to_le_bytes()[..n]);
    }
}

/// Every engine, one and two threads, dense and strided, against the interpreter.
fn agree(text: &str, sizes: &[&[i64]]) {
    let (m, f) = parse(text);
    let program = Program::new(&m, &f, Order::Reference, false).unwrap_or_else(|d| panic!("{d}"));
    let pools = [Pool::new(1).unwrap(), Pool::new(2).unwrap()];
    let kernels: Vec<(Engine, Kernel)> = engines()
        .into_iter()
        .map(|e| (e, compile(e, &m, &f, &Options::default()).unwrap_or_else(|d| panic!("{e}: {d}"))))
        .collect();
    for sizes in sizes {
        let given = inputs(&f, sizes, 3);
        let mut want = given.clone();
        program
            .run(&mut want, &lathe_ir::interp::Options::default())
            .unwrap_or_else(|d| panic!("{}: {d:?}", f.name));
        let want: Vec<Vec<u8>> = f
            .params
            .iter()
            .zip(&want)
            .filter(|(p, _)| p.mode != Mode::In)
            .map(|(_, v)| normal(&v.ty, v.bytes()))
            .collect();
        for (engine, k) in &kernels {
            for pool in &pools {
                for strided in [false, true] {
                    let got = run(k, pool, &f, &given, strided);
                    assert_eq!(got, want, "{} {engine} {sizes:?} {pool:?} strided {strided}", f.name);
                }
            }
        }
    }
}

#[test]
fn naive_gemm() {
    agree(
        "func gemm(M, N, K)(A: in f32[M, K], B: in f32[K, N], C: out f32[M, N]) stage scheduled {
  for i in 0..M cpu {
    for j in 0..N {
      'C.init'[i, j]: C[i, j] = 0.0:f32
      for k in 0..K {
        'C'[i, j, k]: C[i, j] sum= A[i, k] * B[k, j] licensed contract
      }
    }
  }
}",
        &[&[3, 5, 7], &[1, 1, 1], &[0, 4, 4], &[4, 0, 3], &[4, 3, 0], &[17, 19, 23]],
    );
}
