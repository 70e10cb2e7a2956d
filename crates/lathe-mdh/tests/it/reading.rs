//! Computes read as homomorphisms: the table of examples, and what is refused.

use crate::support::{ROWS, homomorphism, module, not_loaded, sizes};
use lathe_ir::Combine;
use lathe_mdh::{Homomorphism, codes};

/// `++`, `+` and the like, as the thesis writes them.
fn operators(h: &Homomorphism) -> String {
    let one = |c: &Combine| match c {
        Combine::Concat => "++".to_string(),
        Combine::Reduce(op) => format!("pw({op})"),
        Combine::Scan(op) => format!("ps({op})"),
    };
    let all: Vec<String> = h.dims.iter().map(|d| format!("{}:{}", d.name, one(&d.combine))).collect();
    all.join(" ")
}

#[test]
fn all_examples_of_the_thesis_are_homomorphisms() {
    for r in &ROWS {
        let h = homomorphism(r.file, r.kernel);
        for s in r.sizes {
            let shaped = h.at(&sizes(s)).unwrap_or_else(|d| panic!("{}: {d}", r.name));
            assert!(shaped.extents.iter().all(|n| *n > 0), "{}", r.name);
        }
    }
    let of = |file: &str, kernel: &str| operators(&homomorphism(file, kernel));
    assert_eq!(of("linear_algebra", "dot"), "k:pw(sum)");
    assert_eq!(of("linear_algebra", "matmul"), "i:++ j:++ k:pw(sum)");
    assert_eq!(of("patterns", "mbbs"), "i:ps(sum) j:pw(sum)");
    assert_eq!(of("patterns", "reduce_both"), "i:pw(both)");
    assert_eq!(of("prl", "prl"), "i:++ j:pw(better)");
    let capsule = homomorphism("convolution", "mcc_capsule");
    assert_eq!(capsule.dims.iter().filter(|d| d.combine == Combine::Concat).count(), 6);
    assert_eq!(capsule.dims.len(), 10);
}

#[test]
fn transposed_products_differ_in_their_views_only() {
    let (a, b) = (homomorphism("linear_algebra", "matmul"), homomorphism("linear_algebra", "matmul_t"));
    let combine = |h: &Homomorphism| {
        let mut all: Vec<_> = h.dims.iter().map(|d| (d.name.clone(), format!("{:?}", d.combine))).collect();
        all.sort();
        all
    };
    assert_eq!(combine(&a), combine(&b));
    assert_ne!(a.inputs[0].accesses, b.inputs[0].accesses);
}

#[test]
fn shapes_follow_from_extents_and_index_functions() {
    let h = homomorphism("stencils", "jacobi1d");
    let s = h.at(&sizes(&[("N", 10)])).unwrap();
    assert_eq!(s.extents, [8]);
    assert_eq!(s.derived_shape(&h.inputs[0]), [10], "8 outputs need 10 inputs");
    assert_eq!(h.inputs[0].accesses.len(), 3);
    let h = homomorphism("convolution", "mcc_stride2");
    let s =
        h.at(&sizes(&[("N", 1), ("H", 230), ("W", 230), ("C", 3), ("K", 64), ("R", 7), ("S", 7)])).unwrap();
    assert_eq!(&s.extents[..4], [1, 112, 112, 64]);
    assert_eq!(s.derived_shape(&h.inputs[0]), [1, 229, 229, 3]);
    let h = homomorphism("linear_algebra", "dot");
    assert_eq!(h.at(&sizes(&[("K", 5)])).unwrap().derived_shape(&h.outputs[0]), Vec::<u64>::new());
}

fn refused(text: &str) -> lathe_diagnostics::Diagnostic {
    let m = module(text);
    let f = m.functions.values().next().expect("a kernel");
    match Homomorphism::of(&m, f, None) {
        Ok(h) => panic!("accepted: {h:?}"),
        Err(d) => d,
    }
}

#[test]
fn what_is_no_homomorphism_is_refused_by_name() {
    let d = refused("kernel g(A: f32[N], at: i32[M]) -> (B: f32[M]) { B[i] = A[min(max(at[i], 0), 3)] }");
    assert_eq!(d.code, codes::SPARSE, "{d}");
    assert!(d.message.contains("`A`") && !d.marks.is_empty(), "{d}");

    let d = refused("kernel t(A: f32[N, N]) -> (s: f32[N]) { s[i] = sum[j in 0..i](A[i, j]) }");
    assert_eq!(d.code, codes::RAGGED, "{d}");

    let d = refused("kernel l(A: f32[N]) -> (B: f32[N]) { for i in 0..N { B[i] = A[i] } }");
    assert!(d.code == codes::RAGGED && d.help.is_some(), "{d}");

    let minus = "op minus(a: i32, b: i32) -> i32 associative = a - b\n\
                 kernel r(A: i32[N]) -> (s: i32) { s = minus[i](A[i]) }";
    let d = not_loaded(minus);
    assert_eq!(d.code, lathe_prove::codes::OPERATOR, "{d}");
    assert!(d.notes.iter().any(|n| n.contains("(a · b) · c")), "the counter-example is shown: {d}");

    let left = "op left(a: i32, b: i32) -> i32 associative commutative = a\n\
                kernel r(A: i32[N]) -> (s: i32) { s = left[i](A[i]) }";
    let d = not_loaded(left);
    assert_eq!(d.code, lathe_prove::codes::OPERATOR, "{d}");
    assert!(d.message.contains("commutative"), "{d}");
}

/// A tree was not checked as source is.
#[test]
fn operators_of_trees_are_decided_too() {
    let text = "op minus(a, b): i32 associative = a[] - b[]
func r(N)(A: in i32[N], s: out i32[]) stage plain { compute 's' over i in 0..N reduce(minus) { s[] = A[i] } }";
    let m =
        lathe_ir::text::parse_module(lathe_diagnostics::FileId(0), text).unwrap_or_else(|d| panic!("{d:?}"));
    let d = Homomorphism::of(&m, &m.functions["r"], None).expect_err("not associative");
    assert_eq!(d.code, lathe_prove::codes::OPERATOR, "{d}");
}

#[test]
fn operators_that_are_only_associative_take_one_ordered_dimension() {
    let m = module(
        "op left(a: i32, b: i32) -> i32 associative = a\n\
         kernel r(A: i32[N]) -> (s: i32) { s = left[i](A[i]) }",
    );
    let h = Homomorphism::of(&m, &m.functions["r"], None).unwrap();
    assert!(h.dims[0].ordered);
    let two = "op left(a, b): i32 associative = a[]\n\n\
               func f(N, M)(A: in i32[N, M], s: out i32[]) stage plain {\n\
                 compute 's' over i in 0..N reduce(left), j in 0..M reduce(left) {\n s[] = A[i, j]\n }\n}\n";
    let d = of_tree(two, &[("N", 2), ("M", 2)]).unwrap_err();
    assert_eq!(d.code, codes::MIXED, "{d}");
}

#[test]
fn sizes_are_checked() {
    let h = homomorphism("linear_algebra", "matvec");
    assert_eq!(h.at(&sizes(&[("I", 3)])).unwrap_err().code, codes::SIZE);
    assert_eq!(h.at(&sizes(&[("I", 3), ("K", -1)])).unwrap_err().code, codes::SIZE);
    assert_eq!(h.at(&sizes(&[("I", 3), ("K", i64::MAX)])).unwrap_err().code, codes::SIZE);
    assert_eq!(h.at(&sizes(&[("I", 3), ("K", 0)])).unwrap().extents, [3, 0]);
}

/// Tree texts say what the language's own checks would not let through.
fn of_tree(text: &str, sizes_of: &[(&str, i64)]) -> Result<Vec<u64>, lathe_diagnostics::Diagnostic> {
    let m =
        lathe_ir::text::parse_module(lathe_diagnostics::FileId(0), text).unwrap_or_else(|e| panic!("{e:#?}"));
    let h = Homomorphism::of(&m, m.functions.values().next().unwrap(), None)?;
    h.at(&sizes(sizes_of)).map(|s| s.extents.clone())
}

#[test]
fn outputs_are_injective_and_stay_inside() {
    let copy = |target: &str, extent: &str| {
        format!(
            "func f(N, M)(A: in f32[N, M], B: out f32[{extent}]) stage plain {{\n\
               compute 'B' over i in 0..N, j in 0..M {{\n B[{target}] = A[i, j]\n }}\n}}\n"
        )
    };
    let n = &[("N", 3), ("M", 5)];
    assert_eq!(of_tree(&copy("i * 5 + j", "N * 5"), n).unwrap(), [3, 5]);
    let d = of_tree(&copy("i * 4 + j", "N * 8"), n).unwrap_err();
    assert_eq!(d.code, codes::NOT_INJECTIVE, "{d}");
    let d = of_tree(&copy("i", "N"), n).unwrap_err();
    assert_eq!(d.code, codes::NOT_INJECTIVE, "{d}");
    assert!(d.message.contains("`j`") && d.message.contains("`B`"), "{d}");
    assert_eq!(
        of_tree(&copy("i + j, j", "N + M, M"), n).unwrap(),
        [3, 5],
        "j is told by the second subscript"
    );
    let d = of_tree(&copy("i * 5 + j + 1", "N * 5"), n).unwrap_err();
    assert_eq!(d.code, codes::LEAVES, "{d}");
    let d = of_tree(&copy("i // 2, j", "N, M"), n).unwrap_err();
    assert_eq!(d.code, codes::RAGGED, "{d}");
}

#[test]
fn subscripts_may_name_the_loops_around() {
    let text = |at: &str| {
        format!(
            "func f(N, T)(A: in f32[T, N], B: inout f32[N], last: in i32) stage plain {{\n\
               for t in 0..T {{\n compute 'B' over i in 0..N {{\n B[i] = A[{at}]\n }}\n}}\n}}\n"
        )
    };
    let n = &[("N", 3), ("T", 5)];
    for at in ["t, i", "T - 1 - t, i", "index(last) - t, i"] {
        assert_eq!(of_tree(&text(at), n).unwrap(), [3], "{at}");
    }
    // What does not depend on them stays inside all the same.
    let d = of_tree(&text("t, i + 1"), n).unwrap_err();
    assert_eq!(d.code, codes::LEAVES, "{d}");
}

#[test]
fn operators_that_do_not_interchange_are_refused() {
    let text = "func f(N, M)(A: in f32[N, M], B: out f32[]) stage plain {\n\
                  compute 'B' over i in 0..N reduce(sum), j in 0..M reduce(max) {\n B[] = A[i, j]\n }\n}\n";
    let d = of_tree(text, &[("N", 2), ("M", 2)]).unwrap_err();
    assert_eq!(d.code, codes::MIXED, "{d}");
}
