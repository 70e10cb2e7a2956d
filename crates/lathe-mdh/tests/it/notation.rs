//! The thesis's notation yields the computes of index notation.

use crate::support::{example, sizes};
use lathe_diagnostics::{Code, FileId};
use lathe_ir::{Module, Scalar, StmtKind, visit};
use lathe_mdh::{Homomorphism, codes, notation};
use std::collections::BTreeMap;

const TABLE: &str = include_str!("table.mdh");

fn read(text: &str) -> Module {
    notation::parse(FileId(0), text, &BTreeMap::new()).unwrap_or_else(|d| panic!("{d} {:?}\n{text}", d.marks))
}

#[test]
fn the_table_of_examples_is_read() {
    let m = read(TABLE);
    assert_eq!(m.functions.len(), 18);
    for (name, f) in &m.functions {
        let errors = lathe_ir::verify::verify_function(&m, f);
        assert!(errors.is_empty(), "{name}: {errors:?}");
        let h = Homomorphism::of(&m, f, None).unwrap_or_else(|d| panic!("{name}: {d}"));
        let all: BTreeMap<String, i64> = h.sizes.iter().map(|s| (s.name.to_string(), 3)).collect();
        let shaped = h.at(&all).unwrap_or_else(|d| panic!("{name}: {d}"));
        for o in h.operands() {
            let declared: Vec<u64> = o
                .buffer
                .extents
                .iter()
                .map(|e| lathe_ir::interp::evaluate(e, &shaped.sizes).unwrap() as u64)
                .collect();
            assert_eq!(shaped.derived_shape(o), declared, "{name}: {}", o.name());
        }
    }
}

/// The compute of a function as text, without identities.
fn compute(m: &Module, name: &str) -> String {
    let mut found = None;
    visit::walk(&m.functions[name].body, &mut |s, _| {
        if matches!(s.kind(), StmtKind::Compute(_)) {
            found = Some(s.clone());
        }
        true
    });
    let text = lathe_ir::text::print_function(&m.functions[name]);
    assert!(found.is_some(), "{name}");
    let start = text.find("compute").expect("a compute");
    text[start..].to_string()
}

#[test]
fn both_notations_give_one_tree() {
    let m = read(TABLE);
    for (name, file, kernel) in [
        ("Dot", "linear_algebra", "dot"),
        ("MatVec", "linear_algebra", "matvec"),
        ("MatMul", "linear_algebra", "matmul"),
        ("bMatMul", "linear_algebra", "batched_matmul"),
        ("Reduce", "patterns", "reduce"),
        ("Scan", "patterns", "scan"),
        ("MBBS", "patterns", "mbbs"),
        ("I1", "ccsdt", "abcdef_gdab_efgc"),
    ] {
        let (lathe, _) = example(file, kernel);
        let mdh = compute(&m, name);
        let want = compute(&lathe, kernel);
        // Extents have the names that each notation gives them.
        let normal = |t: &str| -> String {
            let mut out = String::new();
            let mut rest = t;
            while let Some((before, after)) = rest.split_once(" in 0..") {
                out += before;
                let end = after.find([',', ' ']).unwrap_or(after.len());
                rest = &after[end..];
            }
            // Identities, which the text names where several things share a name.
            let mut plain = (out + rest).replace("X[", "B[");
            while let Some(at) = plain.find(['%', '@']) {
                let digits = plain[at + 1..].chars().take_while(char::is_ascii_digit).count();
                plain.replace_range(at..=at + digits, "");
            }
            plain
        };
        assert_eq!(normal(&mdh), normal(&want), "{name}");
    }
}

#[test]
fn shapes_are_derived() {
    let m = read(TABLE);
    let shape = |name: &str, buffer: &str| {
        let f = &m.functions[name];
        let h = Homomorphism::of(&m, f, None).unwrap();
        let all: BTreeMap<String, i64> = h.sizes.iter().map(|s| (s.name.to_string(), 5)).collect();
        let s = h.at(&all).unwrap();
        s.derived_shape(h.operands().find(|o| o.name() == buffer).unwrap())
    };
    assert_eq!(shape("MatVec", "M"), [5, 5]);
    assert_eq!(shape("Jacobi1D", "I"), [7]);
    assert_eq!(shape("Conv2D", "I"), [9, 9]);
    assert_eq!(shape("Strided", "I"), [9 + 4]);
    assert_eq!(shape("Dot", "C"), Vec::<u64>::new());
}

#[test]
fn types_are_chosen_and_indices_are_visible() {
    let text = "Ramp<T in TYPE | N in IN> := out_view<T>( O:(i)->(i) ) o md_hom<N>( (x,i) -> x + i32(i) * 2, (++) ) o inp_view<T>( I:(i)->(i) )";
    let types = BTreeMap::from([("T".to_string(), Scalar::I32)]);
    let m = notation::parse(FileId(0), text, &types).unwrap();
    let f = &m.functions["Ramp"];
    assert_eq!(f.params[0].array().unwrap().elem.scalar(), Some(Scalar::I32));
    let mut args = vec![lathe_ir::interp::ArrayValue::from_i64(Scalar::I32, &[3], &[5, 6, 7])];
    let known = f.sizes.iter().map(|s| (s.id, 3)).collect();
    args.extend(lathe_ir::interp::outputs(f, &known).unwrap());
    lathe_ir::interp::run(&m, f, &mut args, &Default::default()).unwrap();
    assert_eq!(args[1].to_i64_vec(), [5, 8, 11]);
}

fn refused(text: &str) -> Code {
    match notation::parse(FileId(0), text, &BTreeMap::new()) {
        Ok(m) => {
            let f = m.functions.values().next().expect("a function");
            let h = match Homomorphism::of(&m, f, None) {
                Ok(h) => h,
                Err(d) => return d.code,
            };
            let all = sizes(&[("I", 3), ("K", 4), ("N", 5)]);
            match h.at(&all) {
                Ok(_) => panic!("accepted: {text}"),
                Err(d) => d.code,
            }
        }
        Err(d) => {
            assert!(d.code != codes::NOTATION || !d.marks.is_empty(), "{d}");
            d.code
        }
    }
}

#[test]
fn wrong_definitions_are_refused_where_they_are_wrong() {
    let with = |out: &str, hom: &str, inp: &str| {
        format!("X<I,K in IN> := out_view<f32>( {out} ) o md_hom<I,K>( {hom} ) o inp_view<f32>( {inp} )")
    };
    let (out, hom, inp) = ("w:(i,k)->(i)", "id, (++,+)", "M:(i,k)->(i,k)");
    read(&with(out, hom, inp));
    for text in [
        with(out, "id, (++)", inp),
        with("w:(i)->(i)", hom, inp),
        with(out, "*, (++,?)", inp),
        with(out, "frob, (++,+)", inp),
        with(out, "(a,b) -> a, (++,+)", inp),
        with(out, "(a) -> a + q, (++,+)", inp),
        with(out, "(a) -> a < 1, (++,+)", inp),
        with(out, "(a) -> (a, a), (++,+)", inp),
        with(out, hom, "M:(i,k)->(i,k*i)"),
        with(out, hom, "M:(i,k)->(i,z)"),
        with(out, hom, "M:(i,k)->(i,k), M:(i,k)->(i,k)"),
        with(out, hom, "w:(i,k)->(i,k)"),
        with(out, hom, "M:(i,k)->(i,k"),
        format!("{} {}", with(out, hom, inp), with(out, hom, inp)),
        "X := 3".to_string(),
        "X<I in ON> := ".to_string(),
        with(out, hom, inp).replace("inp_view<f32>", "inp_view<f33>"),
        with(out, hom, inp).replace("inp_view<f32>", "inp_view<f32,f32>"),
    ] {
        assert_eq!(refused(&text), codes::NOTATION, "{text}");
    }
    assert_eq!(refused(&with(out, hom, "M:(i,k)->(i,k-1)")), codes::LEAVES);
    assert_eq!(refused(&with("w:(i,k)->(i+k)", hom, inp)), codes::NOT_INJECTIVE);
    assert_eq!(refused(&with(out, "id, (++,++)", inp)), codes::NOT_INJECTIVE);
    for view in ["w:(i,k)->(i+k)", "w:(i,k)->(I-1-i+k)", "w:(i,k)->(2*i+2*k)", "w:(i,k)->(i+k,k+i)"] {
        let text = with(view, "id, (++,++)", inp);
        let read = notation::parse(FileId(0), &text, &BTreeMap::new());
        assert_eq!(read.err().map(|d| d.code), Some(codes::NOT_INJECTIVE), "before sizes are known: {view}");
    }
    for view in ["w:(i,k)->(4*i+k)", "w:(i,k)->(i+k,i-k+K)", "w:(i,k)->(k,i+k)"] {
        read(&with(view, "id, (++,++)", inp));
    }
    assert_eq!(refused(&with("w:(i,k)->()", "id, (+,*)", inp)), codes::MIXED);
}

#[test]
fn no_text_panics() {
    let mut seed = 7u64;
    let mut next = |n: usize| {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (seed >> 33) as usize % n.max(1)
    };
    let chars: Vec<char> = TABLE.chars().collect();
    for _ in 0..3000 {
        let (from, len) = (next(chars.len()), next(400));
        let mut text: Vec<char> = chars[from..(from + len).min(chars.len())].to_vec();
        for _ in 0..next(4) {
            let at = next(text.len() + 1);
            text.insert(at, ['(', ')', '<', 'ö', '-', '9', ',', '\n'][next(8)]);
        }
        let text: String = text.into_iter().collect();
        let _ = notation::parse(FileId(0), &format!("A<I in IN> := {text}"), &BTreeMap::new());
        let _ = notation::parse(FileId(0), &text, &BTreeMap::new());
    }
}
