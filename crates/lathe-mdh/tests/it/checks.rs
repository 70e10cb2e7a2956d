//! Every rule about decisions, violated once: the code, the decision and the level are named.

use crate::support::{homomorphism, model, no_facts, sizes};
use lathe_diagnostics::{Code, Diagnostic};
use lathe_mdh::{Decisions, Homomorphism, Model, Shaped, check, codes, require, text};
use lathe_space::Value;

fn plain(h: &Shaped, m: &Model, change: &str) -> Decisions {
    let mut d = text::parse(h.h, m, change).unwrap_or_else(|e| panic!("{change}: {e}"));
    d.complete_from(&Decisions::plain(h, m));
    d
}

fn one(kernel: (&str, &str), n: &[(&str, i64)], on: &str, change: &str, want: Code) -> Diagnostic {
    let h = homomorphism(kernel.0, kernel.1);
    let (s, m) = (h.at(&sizes(n)).unwrap(), model(on));
    let mut found = check(&s, &m, &plain(&s, &m, change), &no_facts);
    assert_eq!(
        found.iter().map(|d| d.code).collect::<Vec<_>>(),
        vec![want; found.len()],
        "{change}: {found:?}"
    );
    assert!(!found.is_empty(), "accepted: {change}");
    found.remove(0)
}

const MATVEC: (&str, &str) = ("linear_algebra", "matvec");
const DOT: (&str, &str) = ("linear_algebra", "dot");

#[test]
fn the_computation_as_written_is_valid_on_every_model() {
    let h = homomorphism("linear_algebra", "matmul");
    let s = h.at(&sizes(&[("I", 4), ("J", 6), ("K", 0)])).unwrap();
    for name in Model::shipped() {
        let m = model(name);
        let d = Decisions::plain(&s, &m);
        assert!(check(&s, &m, &d, &no_facts).is_empty(), "{name}");
        assert!(require(&s, &m, &d, &no_facts).is_ok());
        assert!(d.fused());
        let free = Decisions::free(&h, &m);
        assert!(check(&s, &m, &free, &no_facts).is_empty(), "{name}: what is free violates nothing");
        assert_eq!(require(&s, &m, &free, &no_facts).unwrap_err().code, codes::FREE);
    }
}

#[test]
fn algorithmic_rules() {
    let n = &[("I", 8), ("K", 16)];
    let d = one(MATVEC, n, "openmp", "parts [8 4] [1 2] [1 1] [1 1]", codes::PARTS);
    assert!(d.message.starts_with("0 (#PRT)") && d.message.contains("`k`") && d.message.contains('8'), "{d}");
    let d = one(MATVEC, n, "openmp", "parts [0 16] [1 1] [1 1] [1 1]", codes::PARTS);
    assert!(d.message.contains("(1,1)"), "{d}");
    one(MATVEC, n, "openmp", "parts [8 16] [1 4294967296] [1 4294967296] [1 1]", codes::PARTS);
    let d = one(MATVEC, n, "openmp", "R1 [1 2] [3 4] [5 6] [7 7]", codes::ORDER);
    let named = |d: &Diagnostic, names: &[&str]| names.iter().all(|n| d.message.contains(*n));
    assert!(d.message.starts_with("R1: ") && named(&d, &["(4,1)", "(4,2)", "7"]), "{d}");
    one(MATVEC, n, "openmp", "S1 [1 2] [3 4] [5 6] [7 9]", codes::ORDER);
    let d =
        one(MATVEC, n, "openmp", "D2 [COR.x COR.y] [MM.x MM.y] [L2.x L2.y] [L1.x L2.y]", codes::ASSIGNMENT);
    assert!(d.message.starts_with("D2: ") && named(&d, &["(3,2)", "(4,2)", "`L2.2`"]), "{d}");
    one(MATVEC, n, "openmp", "S2 [COR.x COR.z] [MM.x MM.y] [L2.x L2.y] [L1.x L1.y]", codes::ASSIGNMENT);
    let d = one(MATVEC, n, "openmp", "R4 w [<1> <1>] [<2> <1>] [<1> <1>] [<1> <1>]", codes::LAYOUT);
    assert!(d.message.starts_with("R4: ") && named(&d, &["`<2>`", "`w`", "(2,1)"]), "{d}");
    let d = one(MATVEC, n, "openmp", "S4 M <1,1>", codes::LAYOUT);
    assert!(d.message.starts_with("S4: ") && named(&d, &["`<1,1>`", "`M`"]), "{d}");
}

#[test]
fn decisions_made_by_hand_are_checked_for_their_shape() {
    let h = homomorphism("linear_algebra", "matvec");
    let (s, m) = (h.at(&sizes(&[("I", 8), ("K", 16)])).unwrap(), model("openmp"));
    let good = Decisions::plain(&s, &m);
    let mut bad = good.clone();
    bad.parts.pop();
    assert_eq!(check(&s, &m, &bad, &no_facts)[0].code, codes::DECISIONS_SHAPE);
    let mut bad = good.clone();
    bad.down.order[0].push(None);
    assert_eq!(check(&s, &m, &bad, &no_facts)[0].code, codes::DECISIONS_SHAPE);
    let mut bad = good.clone();
    bad.writes.clear();
    assert_eq!(check(&s, &m, &bad, &no_facts)[0].code, codes::DECISIONS_SHAPE);
    let mut bad = good.clone();
    bad.operands.swap(0, 1);
    assert_eq!(check(&s, &m, &bad, &no_facts)[0].code, codes::DECISIONS_SHAPE);
    let mut bad = good;
    bad.results[0].region = Some(9);
    let found = check(&s, &m, &bad, &no_facts);
    assert_eq!(found[0].code, codes::REGION);
    assert!(found[0].message.starts_with("S5: `w`"), "{}", found[0]);
}

#[test]
fn layers_of_a_scan_keep_their_order() {
    let n = &[("N", 12), ("M", 8)];
    let swapped = "parts [3 8] [4 1] [1 1] [1 1]\nR1 [3 2] [1 4] [5 6] [7 8]";
    let d = one(("patterns", "mbbs"), n, "openmp", swapped, codes::SCAN_ORDER);
    assert!(d.message.starts_with("R1: ") && d.message.contains("(2,1)") && d.message.contains("`i`"), "{d}");
    // The same order is fine where it is not the scan's, or where one of the levels has one part.
    let h = homomorphism("patterns", "mbbs");
    let (s, m) = (h.at(&sizes(n)).unwrap(), model("openmp"));
    for fine in [
        "parts [12 2] [1 4] [1 1] [1 1]\nR1 [1 4] [3 2] [5 6] [7 8]",
        "parts [12 8] [1 1] [1 1] [1 1]\nR1 [3 2] [1 4] [5 6] [7 8]",
        "parts [3 8] [4 1] [1 1] [1 1]\nD1 [3 2] [1 4] [5 6] [7 8]",
    ] {
        let d = plain(&s, &m, fine);
        assert!(check(&s, &m, &d, &no_facts).is_empty(), "{fine}");
    }
}

#[test]
fn rules_of_cuda() {
    let n = &[("I", 64), ("K", 64)];
    let threads = "parts [1 1] [1 1] [1 1] [1 1] [64 64]";
    let d = one(MATVEC, n, "cuda", threads, codes::CORES);
    assert!(
        d.message.starts_with("D2: CC ") && d.message.contains("4096") && d.message.contains("1024"),
        "{d}"
    );
    let blocks = "parts [1] [1] [1] [64] [1]\nR3 C [SM] [SM] [SM] [SM] [SM]";
    let d = one(DOT, &[("K", 64)], "cuda", blocks, codes::COMBINE_REGION);
    assert!(d.message.contains("(4,1)") && d.message.contains("SMX"), "{d}");
    let threads = "parts [1] [1] [1] [1] [64]\nR3 C [DM] [DM] [DM] [DM] [RM]";
    one(DOT, &[("K", 64)], "cuda", threads, codes::COMBINE_REGION);
    // Concatenated parts, or one part, may lie anywhere.
    let accepted = |kernel: (&str, &str), n: &[(&str, i64)], on: &str, change: &str| {
        let h = homomorphism(kernel.0, kernel.1);
        let (s, m) = (h.at(&sizes(n)).unwrap(), model(on));
        let found = check(&s, &m, &plain(&s, &m, change), &no_facts);
        assert!(found.is_empty(), "{change}: {}", found[0]);
    };
    accepted(DOT, &[("K", 64)], "cuda", "parts [64] [1] [1] [1] [1]\nR3 C [DM] [DM] [DM] [RM] [RM]");
    accepted(DOT, &[("K", 64)], "cuda", "parts [1] [1] [1] [1] [64]\nR3 C [DM] [DM] [DM] [DM] [SM]");
    accepted(
        ("patterns", "map"),
        &[("N", 64)],
        "cuda",
        "parts [1] [1] [1] [1] [64]\nR3 O [DM] [DM] [DM] [DM] [RM]",
    );
    // With warps, lanes combine in registers; warps do not.
    let lanes = "parts [1] [1] [1] [1] [1] [32]\nR3 C [DM] [DM] [DM] [DM] [DM] [RM]";
    accepted(DOT, &[("K", 32)], "cuda_wrp", lanes);
    let warps = "parts [1] [1] [1] [1] [32] [1]\nR3 C [DM] [DM] [DM] [DM] [RM] [RM]";
    let d = one(DOT, &[("K", 32)], "cuda_wrp", warps, codes::COMBINE_REGION);
    assert!(d.message.contains("WRP"), "{d}");
    one(DOT, &[("K", 2048)], "cuda_wrp", "parts [1] [1] [1] [1] [64] [32]", codes::CORES);
}

#[test]
fn limits_of_opencl_are_facts_about_the_device() {
    let h = homomorphism("linear_algebra", "dot");
    let (s, m) = (h.at(&sizes(&[("K", 512)])).unwrap(), model("opencl"));
    let d = plain(&s, &m, "parts [1] [1] [1] [1] [512]");
    assert!(check(&s, &m, &d, &no_facts).is_empty());
    let small = |n: &str| (n == "work_items").then_some(Value::Int(256));
    assert_eq!(check(&s, &m, &d, &small)[0].code, codes::CORES);
    let private = plain(&s, &m, "parts [1] [1] [1] [1] [512]\nR3 C [GM] [GM] [GM] [GM] [PM]");
    assert_eq!(check(&s, &m, &private, &no_facts)[0].code, codes::COMBINE_REGION);
}

#[test]
fn reductions_over_threads_go_to_memory_that_they_share() {
    let d = one(
        DOT,
        &[("K", 64)],
        "openmp",
        "parts [1] [1] [1] [64]\nR3 C [MM] [MM] [MM] [L1]",
        codes::COMBINE_REGION,
    );
    assert!(d.message.contains("L1") && d.message.contains("COR"), "{d}");
}

#[test]
fn regions_overflow() {
    let all_in_shared = "D3 v [SM SM] [SM SM] [SM SM] [SM SM] [SM SM]\nS3 v SM";
    let fits = homomorphism("linear_algebra", "matvec");
    let (s, m) = (fits.at(&sizes(&[("I", 2), ("K", 12288)])).unwrap(), model("cuda"));
    assert!(check(&s, &m, &plain(&s, &m, all_in_shared), &no_facts).is_empty(), "48 KiB fit exactly");
    let d = one(MATVEC, &[("I", 2), ("K", 12289)], "cuda", all_in_shared, codes::CAPACITY);
    assert!(d.message.contains("49156") && d.message.contains("SM"), "{d}");
    assert!(d.notes[0].contains("`v`") && d.notes[0].contains("(1,1)"), "{d}");
    // Halos count: a tile of 64 outputs needs 66 inputs.
    let registers = "parts [4] [1] [64] [1] [1]\nD3 I [DM] [RM] [RM] [RM] [RM]\nS3 I RM";
    let h = homomorphism("stencils", "jacobi1d");
    let s = h.at(&sizes(&[("N", 258)])).unwrap();
    let d = plain(&s, &m, registers);
    let found = lathe_mdh::footprint::allocations(&s, &m, &d).unwrap();
    assert_eq!((found[0].tile.clone(), found[0].bytes), (vec![64], 66 * 4));
    // Caches cannot be overflown: they are not written by hand.
    let (s, m) = (fits.at(&sizes(&[("I", 2), ("K", 1 << 30)])).unwrap(), model("openmp"));
    let cached = "D3 v [L1 L1] [L1 L1] [L1 L1] [L1 L1]\nS3 v L1";
    let tiny = |_: &str| Some(Value::Int(1));
    assert!(check(&s, &m, &plain(&s, &m, cached), &tiny).is_empty());
}

#[test]
fn parts_that_are_free_may_still_divide() {
    let h: Homomorphism = homomorphism("linear_algebra", "dot");
    let (s, m) = (h.at(&sizes(&[("K", 24)])).unwrap(), model("openmp"));
    let codes_of = |t: &str| {
        let d = text::parse(&h, &m, t).unwrap();
        check(&s, &m, &d, &no_facts).into_iter().map(|d| d.code).collect::<Vec<_>>()
    };
    assert!(codes_of("parts [_] [4] [_] [3]").is_empty());
    assert_eq!(codes_of("parts [_] [4] [_] [4]"), [codes::PARTS]);
    assert!(codes_of("partial tiles\nparts [_] [4] [_] [4]").is_empty());
}
