//! Spaces whose size needs more than 64 bits: numbers, values and coordinates go to and fro.

use lathe_space::space::{Blocks, Generate, Space, SpaceDef, TuningParameter};
use lathe_space::{Constraint, parse};
use num_bigint::BigUint;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

#[test]
fn groups_of_all_sizes_are_counted_together() {
    let mut def = SpaceDef::new();
    let mut all = BigUint::from(1u32);
    for i in 0..60 {
        // Now and then a chain of its own with more than 2⁶⁴ combinations.
        if i % 20 == 7 {
            for k in 0..24 {
                let p = TuningParameter::int(format!("c{i}_{k}"), 0, 9);
                let than = Constraint::Expr(parse(&format!("c{i}_{k} + c{i}_{} <= 18", k - 1)).unwrap());
                def = def.param(if k == 0 { p } else { p.such_that(than) });
            }
            all *= BigUint::from(10u32).pow(24);
        }
        def = def.param(TuningParameter::int(format!("p{i}"), 0, i % 7));
        all *= BigUint::from((i % 7) as u32 + 1);
    }
    let s = Space::generate(&def, &Generate::default()).unwrap();
    assert_eq!(*s.size(), all);
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let ends = [BigUint::ZERO, s.size() - 1u32];
    for i in ends.into_iter().chain((0..200).map(|_| s.sample(&mut rng))) {
        let c = s.configuration(&i).unwrap();
        assert_eq!(s.index_of(&c), Some(i.clone()));
        let numbers = s.numbers(&i).unwrap();
        assert_eq!(s.index_at(&numbers), Some(i.clone()));
        for (p, n) in numbers.iter().enumerate() {
            assert_eq!(s.value_of(p, *n).as_ref(), c.values().get(p));
        }
        assert_eq!(s.at(&s.coordinates(&i, Blocks::Equal), Blocks::Equal), i);
    }
    assert!(s.numbers(s.size()).is_none() && s.configuration(s.size()).is_none());
    assert!(s.index_at(&[0]).is_none());
}
