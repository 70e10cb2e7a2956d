//! What is left free is searched: every configuration is a valid set of decisions.

use crate::meaning::{inputs, reference};
use crate::support::{example, homomorphism, model, no_facts, sizes};
use lathe_mdh::semantics::evaluate;
use lathe_mdh::space::{bind, space};
use lathe_mdh::{Decisions, Homomorphism, check, codes, text};
use lathe_space::space::{Generate, Space};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

#[test]
fn every_configuration_of_a_cpu_is_valid_and_means_the_computation() {
    let (module, func) = example("linear_algebra", "matmul");
    let h = Homomorphism::of(&module, &func, None).unwrap();
    let shaped = h.at(&sizes(&[("I", 4), ("J", 6), ("K", 5)])).unwrap();
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let given = inputs(&shaped, &mut rng);
    let want = reference(&module, &func, &shaped, &given);
    for (on, partial) in [("openmp", false), ("openmp_l3_simd", false), ("openmp", true), ("toy", false)] {
        let m = model(on);
        let mut free = Decisions::free(&h, &m);
        free.partial_tiles = partial;
        let def = space(&shaped, &m, &free).unwrap();
        let all = Space::generate(&def, &Generate::default()).unwrap();
        let size: u64 = all.size().try_into().unwrap();
        for n in 0..200 {
            let c = all.configuration(&(n * (size / 200).max(1) % size).into()).unwrap();
            let d = bind(&shaped, &m, &free, &c.to_values()).unwrap();
            assert_eq!(d.open(), 0);
            assert!(d.fused());
            let found = check(&shaped, &m, &d, &no_facts);
            // On the toy model, results of cores may only be combined in the main memory.
            if on != "toy" {
                assert!(found.is_empty(), "{c}: {}", found[0]);
            }
            let got = evaluate(&module, &shaped, &m, &d, &given, n).unwrap();
            assert_eq!(got[0].bytes(), want[0].bytes(), "{c}\n{}", text::print(&h, &m, &d));
        }
    }
}

/// Four layers: ordered factorizations of 4, 6 and 8 into four, orders of three dimensions, two assignments, and two
/// packings from three layers or none.
#[test]
fn the_space_has_the_size_of_the_formula() {
    let h = homomorphism("linear_algebra", "matmul");
    let shaped = h.at(&sizes(&[("I", 4), ("J", 6), ("K", 8)])).unwrap();
    let m = model("openmp");
    let all = Space::generate(&space(&shaped, &m, &Decisions::free(&h, &m)).unwrap(), &Generate::default())
        .unwrap();
    assert_eq!(all.size().to_string(), (10u64 * 16 * 20 * 6 * 2 * 4 * 4).to_string());
}

#[test]
fn what_is_fixed_is_no_parameter() {
    let h = homomorphism("linear_algebra", "matvec");
    let shaped = h.at(&sizes(&[("I", 8), ("K", 16)])).unwrap();
    let m = model("openmp");
    let written = "parts [4 _] [_ 4] [1 _] [_ 1]\nD1 S1 R1 [1 2] [3 4] [5 6] [7 8]\nD4 M [<1,2> <1,2>] [<1,2> <1,2>] [<1,2> <1,2>] [<1,2> <1,2>]";
    let d = text::parse(&h, &m, written).unwrap();
    let def = space(&shaped, &m, &d).unwrap();
    let names: Vec<&str> = def.params.iter().map(|p| &*p.name).collect();
    assert_eq!(names, ["parts_i_2", "parts_k_1", "cores"]);
    let all = Space::generate(&def, &Generate::default()).unwrap();
    assert_eq!(all.size().to_string(), "12");
    for n in 0..12u32 {
        let c = all.configuration(&n.into()).unwrap();
        let bound = bind(&shaped, &m, &d, &c.to_values()).unwrap();
        assert_eq!((bound.parts[0][0], bound.parts[1][1]), (Some(4), Some(4)));
        assert!(check(&shaped, &m, &bound, &no_facts).is_empty());
    }
    let half = text::parse(&h, &m, "D1 [1 2] [3 4] [5 6] [7 _]").unwrap();
    assert_eq!(space(&shaped, &m, &half).unwrap_err().code, codes::UNSUPPORTED);
    assert_eq!(bind(&shaped, &m, &d, &Default::default()).unwrap_err().code, codes::DECISIONS_SHAPE);
}

/// Without cuts: every order, assignment, region and layout, in every phase. What breaks no rule means the computation.
#[test]
fn without_cuts_the_space_is_that_of_the_formula() {
    use lathe_mdh::uncut;
    let (module, func) = example("linear_algebra", "matvec");
    let h = Homomorphism::of(&module, &func, None).unwrap();
    let shaped = h.at(&sizes(&[("I", 4), ("K", 6)])).unwrap();
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let given = inputs(&shaped, &mut rng);
    let want = reference(&module, &func, &shaped, &given);
    let m = model("toy");
    let free = Decisions::free(&h, &m);
    let all = Space::generate(&uncut::uncut(&shaped, &m, &free).unwrap(), &Generate::default()).unwrap();
    // Three layers, two dimensions, two regions: factorizations of 4 and 6 into three, six permutations of six levels,
    // regions and layouts of a matrix and two vectors at six levels and for the scalar function.
    let permutations = 720f64.powi(6);
    let placed = (2f64 * 2.0).powi(7) * 2f64.powi(7) * 2f64.powi(7);
    let formula = 6.0 * 9.0 * permutations * placed;
    let size: f64 = all.size().to_string().parse().unwrap();
    assert!((size / formula - 1.0).abs() < 1e-9, "{size} {formula}");
    let (mut valid, mut nests) = (0, 0);
    for n in 0..400u64 {
        let mut at = all.size().clone();
        at *= n * 2654435761 % 4_000_000_007;
        at /= 4_000_000_007u64;
        let d = uncut::bind(&shaped, &m, &free, &all.configuration(&at).unwrap().to_values()).unwrap();
        assert_eq!(d.open(), 0);
        if check(&shaped, &m, &d, &no_facts).is_empty() {
            valid += 1;
            nests += usize::from(!d.fused());
            let got = evaluate(&module, &shaped, &m, &d, &given, n).unwrap();
            assert_eq!(got[0].bytes(), want[0].bytes(), "{}", text::print(&h, &m, &d));
        }
    }
    assert!(valid > 100 && nests > 100, "{valid} {nests}");
}
