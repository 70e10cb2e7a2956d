//! Engines against the interpreter, bit for bit.

use lathe_diagnostics::FileId;
use lathe_ir::interp::{ArrayValue, Order, Program};
use lathe_ir::text::parse_module;
use lathe_ir::{Function, Mode, Module, ParamKind, Scalar, Type};
use lathe_runtime::{ArgView, Array, Engine, Kernel, Options, Pool, compile};

pub fn parse(text: &str) -> (Module, Function) {
    let m = parse_module(FileId(0), text).unwrap_or_else(|d| panic!("{d:#?}\n{text}"));
    let f = m.functions.values().next().expect("a function").clone();
    (m, f)
}

/// Values without NaN payloads: every NaN is the same. Of aggregates, their scalars: nobody says what is between them.
pub fn normal(ty: &Type, bytes: &[u8]) -> Vec<u8> {
    let mut out = bytes.to_vec();
    if ty.scalar().is_none() {
        let n = bytes.len() / ty.bytes() as usize;
        let all = ArrayValue::from_bytes(ty.clone(), &[n], out).expect("whole elements");
        let places = (0..n).flat_map(|at| (0..ty.leaves().len()).map(move |leaf| (at, leaf)));
        let leaves = places.filter_map(|(at, leaf)| all.leaf(at, leaf));
        return leaves
            .flat_map(|v| normal(&v.ty.into(), &v.bits.to_le_bytes()[..v.ty.bytes() as usize]))
            .collect();
    }
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
pub fn run(kernel: &Kernel, pool: &Pool, f: &Function, inputs: &[ArrayValue], strided: bool) -> Vec<Vec<u8>> {
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
pub fn inputs(f: &Function, sizes: &[i64], seed: u64) -> Vec<ArrayValue> {
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

pub fn agree_with(engines: &[Engine], strided: &[bool], opt_level: u8, text: &str, sizes: &[&[i64]]) {
    let (m, f) = parse(text);
    let program = Program::new(&m, &f, Order::Reference, false).unwrap_or_else(|d| panic!("{d}"));
    let pools = [Pool::new(1).unwrap(), Pool::new(2).unwrap()];
    let options = Options { opt_level, ..Options::default() };
    let kernel = |e: &Engine| (*e, compile(*e, &m, &f, &options).unwrap_or_else(|d| panic!("{e}: {d}")));
    let kernels: Vec<(Engine, Kernel)> = engines.iter().map(kernel).collect();
    for sizes in sizes {
        let given = inputs(&f, sizes, 3);
        let mut want = given.clone();
        let limits = lathe_ir::interp::Options::default();
        program.run(&mut want, &limits).unwrap_or_else(|d| panic!("{}: {d:?}", f.name));
        let outputs = f.params.iter().zip(&want).filter(|(p, _)| p.mode != Mode::In);
        let want: Vec<Vec<u8>> = outputs.map(|(_, v)| normal(&v.ty, v.bytes())).collect();
        for (engine, k) in &kernels {
            for pool in &pools {
                for strided in strided {
                    let got = run(k, pool, &f, &given, *strided);
                    assert_eq!(got, want, "{} {engine} {sizes:?} {pool:?} strided {strided}", f.name);
                }
            }
        }
    }
}
