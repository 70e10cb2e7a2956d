//! Combine operators: right ones are accepted, wrong ones (one value, one special value, one type of a right one
//! changed) are refuted, and built-in ones are what they are known to be.

use lathe_diagnostics::FileId;
use lathe_ir::{Module, Name, ReduceOp, Scalar, Type};
use lathe_prove::operator::{Broken, Law, Which, law};

fn module(text: &str) -> Module {
    lathe_ir::text::parse_module(FileId(0), text).unwrap_or_else(|d| panic!("{text}\n{d:?}"))
}

/// The laws of the one operator of a text that it declares.
fn laws(text: &str) -> Vec<Result<Law, Broken>> {
    let m = module(text);
    let (name, op) = m.ops.iter().next().expect("an operator");
    let user = ReduceOp::User(Name::from(&**name));
    let ask = |which| law(&m, &user, std::slice::from_ref(&op.ty), which, &[]);
    [Which::Associative, Which::Commutative, Which::Identity]
        .into_iter()
        .map(ask)
        .filter(|l| !matches!(l, Err(Broken::Undeclared { .. })))
        .collect()
}

const LSE: &str = "op lse(a, b): T associative commutative identity(-inf:T)
  = select(max(a[], b[]) == -inf:T, -inf:T, max(a[], b[]) + log(exp(a[] - max(a[], b[])) + exp(b[] - max(a[], b[]))))";

const WELFORD: &str = "struct W { n: T, mean: T, m2: T }
op merge(a, b): W associative commutative = select(a[].n == 0.0:T, b[], select(b[].n == 0.0:T, a[],
  W(a[].n + b[].n,
    (a[].n * a[].mean + b[].n * b[].mean) / (a[].n + b[].n),
    a[].m2 + b[].m2 + (b[].mean - a[].mean) * (b[].mean - a[].mean) * a[].n * b[].n / (a[].n + b[].n))))";

#[test]
fn right_operators_are_accepted_and_integers_proved() {
    for ty in ["i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"] {
        for (body, e) in [
            ("a[] + b[]", "0"),
            ("a[] * b[]", "1"),
            ("(a[] and b[])", "-1"),
            ("(a[] or b[])", "0"),
            ("xor(a[], b[])", "0"),
            ("a[] + b[] + a[] * b[]", "0"),
            ("a[] + b[] - 5:T", "5"),
        ] {
            let text = format!("op o(a, b): T associative commutative identity({e}:T) = {body}");
            let ones = match ty {
                "u8" => "255",
                "u16" => "65535",
                "u32" => "4294967295",
                "u64" => "18446744073709551615",
                _ => "-1",
            };
            let text = text.replace("-1:T", &format!("{ones}:T")).replace('T', ty);
            for l in laws(&text) {
                assert!(matches!(l, Ok(Law { proof: Some(_), rounds: false, .. })), "{text}: {l:?}");
            }
        }
        let least = if ty.starts_with('u') { "0".to_string() } else { i_min(ty) };
        let text = format!("op o(a, b): {ty} associative commutative identity({least}:{ty}) = max(a[], b[])");
        for l in laws(&text) {
            assert!(matches!(l, Ok(Law { proof: Some(_), .. })), "{text}: {l:?}");
        }
        // The one that came last; the first that is not zero.
        for text in [
            "op o(a, b): T associative = b[]",
            "op o(a, b): T associative identity(0:T) = select(a[] == 0:T, b[], a[])",
        ] {
            let text = text.replace('T', ty);
            for l in laws(&text) {
                assert!(matches!(l, Ok(Law { proof: Some(_), .. })), "{text}: {l:?}");
            }
        }
    }
    for ty in ["f16", "bf16", "f32", "f64"] {
        for (text, rounds) in [
            ("op o(a, b): T associative commutative identity(0.0:T) = a[] + b[]", true),
            ("op o(a, b): T associative commutative identity(1.0:T) = a[] * b[]", true),
            ("op o(a, b): T associative commutative identity(-inf:T) = max(a[], b[])", false),
            ("op o(a, b): T associative commutative identity(0.0:T) = max(abs(a[]), abs(b[]))", false),
            ("op o(a, b): T associative commutative identity(0.0:T) = sqrt(a[] * a[] + b[] * b[])", true),
            (LSE, true),
            (
                "struct P { v: T, i: i64 }
              op o(a, b): P associative commutative identity(P(-inf:T, 9223372036854775807:i64)) =
                select((a[].v > b[].v or (a[].v == b[].v and a[].i <= b[].i)), a[], b[])",
                false,
            ),
            (
                "struct P { lo: T, hi: T }
              op o(a, b): P associative commutative identity(P(inf:T, -inf:T)) =
                P(min(a[].lo, b[].lo), max(a[].hi, b[].hi))",
                false,
            ),
            // An affine map after another: no order but their own.
            (
                "struct P { m: T, c: T }
              op o(a, b): P associative identity(P(1.0:T, 0.0:T)) =
                P(a[].m * b[].m, a[].c * b[].m + b[].c)",
                true,
            ),
        ] {
            let text = text.replace(": T", &format!(": {ty}")).replace(":T", &format!(":{ty}"));
            // The identity of a norm is neutral for norms alone, which no operator says of itself.
            let norm = text.contains("abs") || text.contains("sqrt");
            for (n, l) in laws(&text).into_iter().enumerate() {
                match l {
                    Ok(l) => assert!(rounds || !l.rounds, "{text}: {l}"),
                    Err(_) if norm && n == 2 => {}
                    Err(e) => panic!("{text}: {e:?}"),
                }
            }
        }
    }
    for text in [
        "op o(a, b): bool associative commutative identity(false) = a[] != b[]",
        "op o(a, b): bool associative commutative identity(true) = (a[] and b[])",
        "struct P { s: i32, any: bool }
         op o(a, b): P associative identity(P(0:i32, false)) = P(select(b[].any, b[].s, a[].s + b[].s), (a[].any or b[].any))",
    ] {
        for l in laws(text) {
            assert!(matches!(l, Ok(Law { proof: Some(_), .. })), "{text}: {l:?}");
        }
    }
}

fn i_min(ty: &str) -> String {
    let bits: u32 = ty[1..].parse().expect("a width");
    (-(1i128 << (bits - 1))).to_string()
}

/// What is wrong with each, and only that.
fn wrong() -> Vec<String> {
    let mut out = Vec::new();
    let mut add = |types: &[&str], text: &str| {
        for t in types {
            out.push(text.replace(": T", &format!(": {t}")).replace(":T", &format!(":{t}")));
        }
    };
    let floats = ["f16", "f32", "f64"];
    let ints = ["i8", "i32", "u8", "u64"];
    // A bound that small values never reach, or that large ones do not.
    add(&["i8", "i16", "i32", "i64"], "op o(a, b): T associative commutative = min(a[] + b[], 100:T)");
    add(&["f32", "f64"], "op o(a, b): T associative commutative = min(a[] + b[], 100.0:T)");
    add(&["f32", "f64"], "op o(a, b): T associative commutative = max(a[] + b[], -1.0e30:T)");
    // One rare value.
    add(&ints, "op o(a, b): T associative commutative = select(a[] + b[] == 77:T, 0:T, a[] + b[])");
    add(&ints, "op o(a, b): T associative = select((a[] == 93:T and b[] == 11:T), 1:T, a[] + b[])");
    add(
        &["i64", "u64"],
        "op o(a, b): T associative commutative = select(a[] == 123456789012:T, 0:T, max(a[], b[]))",
    );
    add(&floats, "op o(a, b): T associative commutative = select(a[] + b[] == 37.5:T, 0.0:T, a[] + b[])");
    add(&floats, "op o(a, b): T associative = select(a[] == 1.5:T, b[], max(a[], b[]))");
    add(&floats, "op o(a, b): T commutative = select(b[] == 0.375:T, 1.0:T, a[] * b[])");
    // One special value.
    add(&floats, "op o(a, b): T associative commutative = select(a[] == inf:T, 0.0:T, a[] + b[])");
    add(&floats, "op o(a, b): T associative commutative = select(a[] != a[], b[], a[] + b[])");
    add(&floats, "op o(a, b): T associative = select(a[] == -inf:T, inf:T, max(a[], b[]))");
    add(&["i8", "i64"], "op o(a, b): T commutative = select(a[] < 0:T - a[], a[], a[] + b[])");
    add(&["u8", "u64"], "op o(a, b): T associative commutative = select(a[] > a[] + b[], 0:T, a[] + b[])");
    // Saturation: not associative with both signs.
    add(&["i8"], "op o(a, b): T associative = max(min(cast<i8>(cast<i16>(a[])) + b[], 90:T), -90:T)");
    // One part, one type.
    add(
        &["f32", "f64"],
        "struct P { v: T, i: i64 }
         op o(a, b): P associative commutative = select(a[].v >= b[].v, a[], b[])",
    );
    add(
        &["f32", "f64"],
        "struct P { v: T, i: i8 }
         op o(a, b): P associative commutative = P(a[].v + b[].v, cast<i8>(max(cast<i16>(a[].i), cast<i16>(b[].i)) + 1:i16))",
    );
    add(&["i32"], "op o(a, b): T associative = a[] - b[]");
    add(&["i32", "f32"], "op o(a, b): T commutative = a[] - b[]");
    add(&["f32", "f64"], "op o(a, b): T associative commutative = (a[] + b[]) * 0.5:T");
    add(&["f32", "f64"], "op o(a, b): T associative = a[] + b[] * 1.0001:T");
    // Identities.
    add(&ints, "op o(a, b): T associative commutative identity(1:T) = a[] + b[]");
    add(&ints, "op o(a, b): T associative commutative identity(0:T) = a[] * b[]");
    add(&["i8", "i64"], "op o(a, b): T associative commutative identity(0:T) = max(a[], b[])");
    add(&["f32", "f64"], "op o(a, b): T associative commutative identity(-1.0e30:T) = max(a[], b[])");
    add(
        &["f32", "f64"],
        "op o(a, b): T associative commutative identity(-inf:T)
        = max(a[], b[]) + log(exp(a[] - max(a[], b[])) + exp(b[] - max(a[], b[])))",
    );
    add(&["f16", "f64"], "op o(a, b): T associative commutative identity(1.0e-4:T) = a[] + b[]");
    out
}

#[test]
fn wrong_operators_are_refuted() {
    let all = wrong();
    assert!(all.len() >= 60, "{}", all.len());
    let mut accepted = Vec::new();
    for text in &all {
        let laws = laws(text);
        if laws.iter().all(Result::is_ok) {
            accepted.push(text);
        }
    }
    println!("{} wrong operators, {} accepted", all.len(), accepted.len());
    assert!(accepted.is_empty(), "{accepted:#?}");
}

#[test]
fn an_identity_may_be_neutral_for_what_is_combined_alone() {
    let m = module(
        "struct Part { total: i32, best: i32 }
         op join(a, b): Part associative identity(Part(0:i32, 0:i32)) =
           Part(a[].total + b[].total, max(a[].best, a[].total + b[].best))",
    );
    let op = ReduceOp::User("join".into());
    let types = [m.ops["join"].ty.clone()];
    assert!(matches!(law(&m, &op, &types, Which::Identity, &[]), Err(Broken::Refuted { .. })));
    // What is combined is never better than nothing, and never worse than its total.
    let x = lathe_ir::build::var_id(lathe_ir::VarId(1), Scalar::I32);
    let zero = lathe_ir::build::int(Scalar::I32, 0);
    let part = |best| vec![lathe_ir::build::aggregate(types[0].clone(), vec![x.clone(), best])];
    let right = part(lathe_ir::build::max(x.clone(), zero.clone()));
    assert!(law(&m, &op, &types, Which::Identity, std::slice::from_ref(&right)).is_ok());
    assert!(law(&m, &op, &types, Which::Identity, &[right, part(zero)]).is_err());
}

/// Counts are positive where means are combined: then the guards against none are right, too.
#[test]
fn means_and_variances_are_combined() {
    for ty in ["f16", "f32", "f64"] {
        for body in [WELFORD, &WELFORD.replace("commutative", "commutative identity(W(0.0:T, 0.0:T, 0.0:T))")]
        {
            let m = module(&body.replace(": T", &format!(": {ty}")).replace(":T", &format!(":{ty}")));
            let op = ReduceOp::User("merge".into());
            let types = [m.ops["merge"].ty.clone()];
            let s = Scalar::from_name(ty).expect("a type");
            let x = lathe_ir::build::var_id(lathe_ir::VarId(1), s);
            let number = |v| lathe_ir::build::float(s, v);
            let of =
                |n| lathe_ir::build::aggregate(types[0].clone(), vec![number(n), x.clone(), number(0.0)]);
            let ask = |which, n| law(&m, &op, &types, which, &[vec![of(n)]]);
            for which in [Which::Associative, Which::Commutative] {
                let l = ask(which, 1.0).unwrap_or_else(|e| panic!("{which} {ty}: {e:?}"));
                assert!(l.proof.is_none() && (l.rounds || which == Which::Commutative), "{which}: {l}");
            }
            let neutral = ask(Which::Identity, 1.0);
            assert_eq!(neutral.is_ok(), body.contains("identity"), "{neutral:?}");
        }
        // One factor is wrong.
        let wrong = WELFORD.replace("b[].m2 + (b[].mean", "b[].m2 + 0.999:T * (b[].mean");
        let m = module(&wrong.replace(": T", &format!(": {ty}")).replace(":T", &format!(":{ty}")));
        let types = [m.ops["merge"].ty.clone()];
        assert!(law(&m, &ReduceOp::User("merge".into()), &types, Which::Associative, &[]).is_err());
    }
}

/// The table of built-in operators says what deciding says.
#[test]
fn built_in_operators_are_as_known() {
    let of = |op: ReduceOp, types: &[Type]| {
        let m = Module::default();
        for which in [Which::Associative, Which::Commutative, Which::Identity] {
            let Ok(known) = law(&m, &op, types, which, &[]) else { continue };
            let found = lathe_prove::operator::decide_anew(&m, &op, types, which)
                .unwrap_or_else(|e| panic!("{op} {types:?} {which}: {e:?}"));
            assert_eq!(
                (known.rounds, known.rounds || known.zeros),
                (found.rounds, found.rounds || found.zeros),
                "{op} {types:?} {which}: {known}, {found}"
            );
        }
    };
    for s in Scalar::ALL {
        for op in [ReduceOp::Sum, ReduceOp::Prod, ReduceOp::Min, ReduceOp::Max, ReduceOp::All, ReduceOp::Any]
        {
            if s != Scalar::Index {
                of(op, &[s.into()]);
            }
        }
        for op in [ReduceOp::ArgMin, ReduceOp::ArgMax] {
            of(op, &[s.into(), Type::I64]);
        }
    }
}

/// What few elements combine to is right, and what many combine to is wrong.
#[test]
fn laws_of_elements_are_tested_on_many_of_them() {
    for second in [
        "select(a[].n > 6:i32, a[].s - b[].s, a[].s + b[].s)",
        "select(a[].n >= 8:i32, a[].s, a[].s + b[].s)",
        "a[].s + shl(b[].s, a[].n)",
        "select(a[].n == 33:i32, 0:i32, a[].s + b[].s)",
    ] {
        let m = module(&format!(
            "struct W {{ n: i32, s: i32 }}
             op o(a, b): W associative = W(a[].n + b[].n, {second})"
        ));
        let types = [m.ops["o"].ty.clone()];
        let one = lathe_ir::build::int(Scalar::I32, 1);
        let x = lathe_ir::build::var_id(lathe_ir::VarId(1), Scalar::I32);
        let element = vec![lathe_ir::build::aggregate(types[0].clone(), vec![one, x])];
        let asked = law(&m, &ReduceOp::User("o".into()), &types, Which::Associative, &[element]);
        assert!(matches!(asked, Err(Broken::Refuted { .. })), "{second}: {asked:?}");
    }
}
