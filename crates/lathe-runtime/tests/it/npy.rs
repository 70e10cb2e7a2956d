//! `.npy` files: round trips, every kind of damage, and random mutations.

use lathe_ir::{Scalar, StructType, Type};
use lathe_runtime::array::column_major;
use lathe_runtime::fill::Random;
use lathe_runtime::{Array, npy};

/// A file with a header as given, padded like NumPy's.
fn file(version: u8, header: &str, data: &[u8]) -> Vec<u8> {
    let mut out = b"\x93NUMPY".to_vec();
    out.extend([version, 0]);
    let text = format!("{header}\n");
    match version {
        1 => out.extend((text.len() as u16).to_le_bytes()),
        _ => out.extend((text.len() as u32).to_le_bytes()),
    }
    out.extend(text.bytes());
    out.extend(data);
    out
}

fn code(bytes: &[u8]) -> &'static str {
    npy::from_bytes(bytes).expect_err("damaged").code.0
}

#[test]
fn round_trips() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.npy");
    for s in Scalar::ALL {
        for shape in [vec![], vec![0], vec![1], vec![3, 0, 2], vec![7], vec![3, 5], vec![2, 3, 4, 5]] {
            let strides = column_major(&shape);
            for fortran in [false, true] {
                let mut a = if fortran {
                    Array::with_strides(s, &shape, &strides).unwrap()
                } else {
                    Array::zeros(s, &shape).unwrap()
                };
                a.fill_random(5);
                npy::write(&path, &a).unwrap();
                let b = npy::read(&path).unwrap();
                let c = npy::from_bytes(&std::fs::read(&path).unwrap()).unwrap();
                let ty = if s == Scalar::Index { Type::I64 } else { s.into() };
                assert_eq!((b.ty(), b.shape()), (&ty, &shape[..]));
                let want = a.to_row_major().unwrap();
                assert_eq!(b.to_row_major().unwrap().bytes(), want.bytes(), "{s} {shape:?}");
                assert_eq!(c.to_row_major().unwrap().bytes(), want.bytes());
                if fortran && shape.len() > 1 && !a.is_empty() {
                    assert!(b.is_column_major() && !b.is_row_major());
                }
            }
        }
    }
    let mut reversed = Array::with_strides(Scalar::F32, &[2, 3], &[-3, -1]).unwrap();
    reversed.fill_random(1);
    npy::write(&path, &reversed).unwrap();
    assert_eq!(npy::read(&path).unwrap().to_vec::<f32>(), reversed.to_vec::<f32>());
}

#[test]
fn headers_of_numpy() {
    let two: Vec<u8> = [1.0f32, -2.5].iter().flat_map(|v| v.to_be_bytes()).collect();
    let h = "{'descr': '>f4', 'fortran_order': False, 'shape': (2,), }";
    for version in 1..=3 {
        let a = npy::from_bytes(&file(version, h, &two)).unwrap();
        assert_eq!(a.to_vec::<f32>().unwrap(), [1.0, -2.5]);
    }
    let h = "{\"shape\":(2L,), \"descr\":\"|b1\",\"fortran_order\":True}";
    assert_eq!(npy::from_bytes(&file(1, h, &[0, 7])).unwrap().bytes(), [0, 1]);
    let h = "{'descr': '<i2', 'fortran_order': True, 'shape': (2, 2)}";
    let a = npy::from_bytes(&file(1, h, &[1, 0, 2, 0, 3, 0, 4, 0])).unwrap();
    assert_eq!(a.to_vec::<i16>().unwrap(), [1, 3, 2, 4]);
    let h = "{'descr': '<f8', 'fortran_order': False, 'shape': ()}";
    assert_eq!(npy::from_bytes(&file(1, h, &3.0f64.to_le_bytes())).unwrap().get::<f64>(&[]), Some(3.0));
}

#[test]
fn complex_numbers() {
    let parts = [1.0f32, -2.5, 0.0, 3.0];
    let c64 = Type::complex(Scalar::F32).unwrap();
    let h = |descr: &str, n: i64| format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({n},)}}");
    let little: Vec<u8> = parts.iter().flat_map(|v| v.to_le_bytes()).collect();
    let big: Vec<u8> = parts.iter().flat_map(|v| v.to_be_bytes()).collect();
    for (descr, data) in [("<c8", &little), (">c8", &big)] {
        let a = npy::from_bytes(&file(1, &h(descr, 2), data)).unwrap();
        assert_eq!((a.ty(), a.shape()), (&c64, &[2][..]));
        assert_eq!(a.bytes(), little, "{descr}");
        // In a record, too.
        let a = npy::from_bytes(&file(
            1,
            &format!("{{'descr': [('z', '{descr}')], 'fortran_order': False, 'shape': (2,)}}"),
            data,
        ));
        assert_eq!(a.unwrap().bytes(), little);
    }
    let c128 = Type::complex(Scalar::F64).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("z.npy");
    let mut a = Array::zeros(c128.clone(), &[3, 2]).unwrap();
    a.fill_random(3);
    npy::write(&path, &a).unwrap();
    let text = std::fs::read(&path).unwrap();
    assert!(String::from_utf8_lossy(&text[..128]).contains("'descr': '<c16'"));
    let b = npy::read(&path).unwrap();
    assert_eq!((b.ty(), b.bytes()), (&c128, a.bytes()));
}

#[test]
fn each_damage_has_one_clear_error() {
    let good = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }";
    let eight = [0u8; 8];
    assert!(npy::from_bytes(&file(1, good, &eight)).is_ok());
    let with = |from: &str, to: &str| file(1, &good.replace(from, to), &eight);
    for (bytes, want) in [
        (vec![], "E0804"),
        (b"\x93NUMP".to_vec(), "E0804"),
        (b"not an array at all".to_vec(), "E0804"),
        (file(4, good, &eight), "E0804"),
        (file(1, good, &eight)[..30].to_vec(), "E0804"),
        (b"\x93NUMPY\x02\x00\xff\xff\xff\xff{}".to_vec(), "E0804"),
        (file(1, good, &eight[..7]), "E0806"),
        (file(1, good, &[0; 9]), "E0806"),
        (with("<f4", "|O"), "E0805"),
        (with("'<f4'", "[('x', '<f4'), ('y', '<f4')]"), "E0806"),
        (with("'<f4'", "[('x', '<f4'), ('x', '<f4')]"), "E0804"),
        (with("'<f4'", "[('x', '<f4', (2,))]"), "E0805"),
        (with("'<f4'", "[(('title', 'x'), '<f4')]"), "E0805"),
        (with("'<f4'", "[('x', '|O')]"), "E0805"),
        (with("'<f4'", "[('x', '|V4')]"), "E0805"),
        (with("'<f4'", "[('', '|V4')]"), "E0805"),
        (with("'<f4'", "[('x', '<f4'), ('', '<f4')]"), "E0804"),
        (with("'<f4'", "[('x', '<f4'), ('', '|V99999999999999999999')]"), "E0804"),
        (with("'<f4'", "[]"), "E0805"),
        (with("'<f4'", "[('x', '<f4'"), "E0804"),
        (with("'<f4'", &format!("{}'<f4'{}", "[('x', ".repeat(99), ")]".repeat(99))), "E0805"),
        (with("<f4", "<c8"), "E0806"),
        (with("<f4", "<c32"), "E0805"),
        (with("<f4", "<c4"), "E0805"),
        (with("<f4", "|S4"), "E0805"),
        (with("<f4", "<U1"), "E0805"),
        (with("<f4", "<M8[s]"), "E0805"),
        (with("<f4", "|V8"), "E0805"),
        (with("<f4", "<f16"), "E0805"),
        (with("<f4", ""), "E0805"),
        (with("<f4", "é"), "E0805"),
        (with("'shape': (2,), ", ""), "E0804"),
        (with("'shape'", "'shap'"), "E0804"),
        (with("False", "false"), "E0804"),
        (with("(2,)", "(2"), "E0804"),
        (with("(2,)", "(-2,)"), "E0804"),
        (with("(2,)", "(2.0,)"), "E0804"),
        (with("(2,)", "2"), "E0804"),
        (with("(2,)", "(99999999999999999999,)"), "E0804"),
        (with("(2,)", "(9000000000000000000, 9000000000000000000)"), "E0801"),
        (with("(2,)", "(4611686018427387904, 4)"), "E0801"),
        (with("(2,)", "(1000000000000,)"), "E0806"),
        (with("}", "} x"), "E0804"),
        (with("'descr'", "'descr': '<f4', 'descr'"), "E0804"),
        (file(1, "", &eight), "E0804"),
        (file(1, "{", &eight), "E0804"),
        (file(1, "{'", &eight), "E0804"),
    ] {
        assert_eq!(code(&bytes), want, "{}", String::from_utf8_lossy(&bytes));
    }
}

/// Structs, tuples and structs in them: as NumPy writes them packed, aligned, and in the other byte order.
#[test]
fn records() {
    let fields = |all: &[(&str, Type)]| {
        let fields = all.iter().map(|(n, t)| ((*n).into(), t.clone())).collect();
        Type::Struct(std::sync::Arc::new(StructType { name: "P".into(), fields }))
    };
    let inner = fields(&[("b", Scalar::Bool.into()), ("w", Type::F64)]);
    let p = fields(&[("v", Type::F32), ("i", Type::INDEX), ("in", inner)]);
    let packed = "[('v', '>f4'), ('i', '>i8'), ('in', [('b', '|b1'), ('w', '>f8')])]";
    let h = format!("{{'descr': {packed}, 'fortran_order': False, 'shape': (2,), }}");
    let mut data = Vec::new();
    for k in [1i64, 2] {
        data.extend((k as f32).to_be_bytes());
        data.extend((10 * k).to_be_bytes());
        data.push(k as u8);
        data.extend((0.5 * k as f64).to_be_bytes());
    }
    let a = npy::from_bytes(&file(1, &h, &data)).unwrap().retyped(&p);
    assert_eq!((a.ty(), a.shape()), (&p, &[2i64][..]));
    let leaves = [(Scalar::F32, 0), (Scalar::Index, 8), (Scalar::Bool, 16), (Scalar::F64, 24)];
    assert_eq!(lathe_ir::interp::leaf_offsets(&p), leaves);
    assert_eq!(a.bytes()[32..36], 2f32.to_le_bytes());
    assert_eq!(a.bytes()[40..48], 20i64.to_le_bytes());
    assert_eq!((a.bytes()[16], a.bytes()[48]), (1, 1));
    assert_eq!(a.bytes()[56..64], 1f64.to_le_bytes());
    // Written with the holes of the C layout, which are fields without a name.
    let mut out = Vec::new();
    npy::write_to(&a, &mut out).unwrap();
    let text = "[('v', '<f4'), ('', '|V4'), ('i', '<i8'), ('in', [('b', '|b1'), ('', '|V7'), ('w', '<f8')])]";
    assert!(String::from_utf8_lossy(&out).contains(text), "{}", String::from_utf8_lossy(&out));
    let b = npy::from_bytes(&out).unwrap().retyped(&p);
    assert_eq!((b.bytes(), b.ty()), (a.bytes(), &p));
    let t = Type::Tuple(vec![Type::F32, Scalar::I8.into()].into());
    let mut a = Array::zeros(t.clone(), &[3]).unwrap();
    a.fill_random(3);
    let mut out = Vec::new();
    npy::write_to(&a, &mut out).unwrap();
    assert!(String::from_utf8_lossy(&out).contains("[('f0', '<f4'), ('f1', '|i1'), ('', '|V3')]"));
    let b = npy::from_bytes(&out).unwrap();
    let other = fields(&[("f0", Type::F32), ("f2", Scalar::I8.into())]);
    assert!(lathe_runtime::array::alike(b.ty(), &t) && !lathe_runtime::array::alike(b.ty(), &other));
    let leaf = |a: &Array| (0..3).map(|k| a.bytes()[8 * k..8 * k + 5].to_vec()).collect::<Vec<_>>();
    assert_eq!(leaf(&b), leaf(&a));
}

#[test]
fn random_mutations_never_panic() {
    let good = ["'<f4'", "[('v', '<i2'), ('', '|V1'), ('w', [('u', '|b1')])]"].map(|dtype| {
        file(1, &format!("{{'descr': {dtype}, 'fortran_order': False, 'shape': (2, 3), }}"), &[1; 24])
    });
    let mut r = Random::new(1);
    for n in 0..20_000 {
        let mut bytes = good[n % 2].clone();
        for _ in 0..=r.below(4) {
            if bytes.is_empty() {
                break;
            }
            let at = r.below(bytes.len() as u64) as usize;
            match r.below(4) {
                0 => bytes[at] = r.next_u64() as u8,
                1 => bytes[at] = b"(){}',:0129<>fFT"[r.below(16) as usize],
                2 => {
                    bytes.remove(at);
                }
                _ => bytes.truncate(at.max(1)),
            }
        }
        match npy::from_bytes(&bytes) {
            Ok(a) => assert!(a.bytes().len() <= 8 * bytes.len()),
            Err(d) => assert!(d.code.0.starts_with("E08") && d.message.len() < 200, "{d}"),
        }
    }
}

#[test]
fn files_fail_cleanly() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.npy");
    let d = npy::read(&path).unwrap_err();
    assert!(d.code.0 == "E0803" && d.message.contains("x.npy"));
    assert_eq!(npy::read(dir.path()).unwrap_err().code.0, "E0803");
    for bytes in [&b""[..], b"\x93NUMPY\x01", b"\x93NUMPY\x01\x00\x05\x00{", b"\x93NUMPY\x01\x00\x00\x00"] {
        std::fs::write(&path, bytes).unwrap();
        let d = npy::read(&path).unwrap_err();
        assert!(d.code.0 == "E0804" && d.message.contains("x.npy"), "{d}");
    }
    std::fs::write(&path, file(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", &[0; 7]))
        .unwrap();
    assert_eq!(npy::read(&path).unwrap_err().code.0, "E0806");
    // A folder of that name, and a folder that is not there.
    let a = Array::zeros(Scalar::F32, &[2]).unwrap();
    assert_eq!(npy::write(dir.path(), &a).unwrap_err().code.0, "E0807");
    assert_eq!(npy::write(&dir.path().join("no/c.npy"), &a).unwrap_err().code.0, "E0807");
    // What was there before stays whole when the array cannot be written.
    std::fs::write(&path, b"old").unwrap();
    let t = Array::zeros(Type::Vector(Scalar::F32, 4), &[2]).unwrap();
    assert_eq!(npy::write(&path, &t).unwrap_err().code.0, "E0805");
    assert_eq!(std::fs::read(&path).unwrap(), b"old");
    npy::write(&path, &a).unwrap();
    assert_eq!(npy::read(&path).unwrap().to_vec::<f32>().unwrap(), [0.0, 0.0]);
    let names: Vec<_> = std::fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names, ["x.npy"]);
}
