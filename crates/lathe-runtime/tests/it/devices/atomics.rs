//! Atomics of all types, on devices and on CPUs. What the order of updates could change is left to one update per element.

use super::*;

/// What every iteration `i` does, and the arrays for it.
fn statements(ty: Scalar) -> (String, String) {
    let small = |x: &str| if ty == Scalar::Index { format!("shr({x}, 40)") } else { x.to_string() };
    let (x, y) = (small("Sa[i]"), small("Sb[i]"));
    let mut all = format!(
        "atomic 'C'[i]: C[i] exchange {x} relaxed scope system as found: {ty} {{ 'O'[i]: O[i] = found }}
      atomic 'D'[i]: D[i] compare {y} exchange {x} acqrel scope system as seen: {ty} {{ 'P'[i]: P[i] = seen }}
      atomic 'E'[i]: E[i] store {x} release scope system
      atomic 'E.2'[i]: E[i] compare {x} exchange {y} seqcst scope system as same: {ty} {{ 'Q'[i]: Q[i] = same }}
      atomic 'F'[i]: F[i] load acquire scope system as read: {ty} {{ 'R'[i]: R[i] = read }}\n"
    );
    // Elements that many update, where every order gives the same bits.
    let mut update = |array: &str, at: &str, op: &str| {
        all += &format!("      atomic '{array}'[i]: {array}[{at}] {op}= {x} relaxed scope system\n");
    };
    if ty == Scalar::Bool {
        update("T", "i % 3", "all");
        update("U", "i % 3", "any");
    } else {
        let shared = if ty.is_float() { "i" } else { "i % 3" };
        update("T", shared, "sum");
        update("U", "i % 3", "min");
        update("V", "i % 3", "max");
        if ty != Scalar::Index {
            update("W", shared, "prod");
        }
    }
    let arrays = "Sa: in, Sb: in, C: inout, D: inout, E: inout, F: inout, O: out, P: out, Q: out, R: out, \
                  T: inout, U: inout, V: inout, W: inout";
    let arrays = arrays.split(", ").map(|a| format!("{a} {ty}[N]")).collect::<Vec<_>>().join(", ");
    (arrays, all)
}

#[test]
fn every_type_on_every_engine() {
    for ty in Scalar::ALL {
        let (arrays, all) = statements(ty);
        let head = format!("func of_{ty}(N)({arrays}) stage scheduled {{");
        let sizes: &[&[i64]] = &[&[139], &[1], &[0]];
        agree(
            &format!(
                "{head}\n  for b in 0..(N + 31) // 32 level(grid) {{
    for i in 32 * b..min(32 * b + 32, N) level(block) {{\n      {all}    }}\n  }}\n}}"
            ),
            sizes,
        );
        let threads = format!("{head}\n  for i in 0..N cpu {{\n      {all}  }}\n}}");
        agree_with(Engine::ALL, &[false, true], 2, &threads, sizes);
    }
}

/// Blocks that update one element in their order, and note what they found.
#[test]
fn turns_of_every_type() {
    for ty in Scalar::ALL {
        let op = if ty == Scalar::Bool { "any" } else { "max" };
        let text = format!(
            "func turns_{ty}(N)(A: in {ty}[N], O: out {ty}[N], R: out {ty}[N]) stage scheduled {{
  if N > 0 {{
    alloc s: {ty}[] global
    'S'[]: s[] = A[0]
    for b in 0..N level(grid) {{
      atomic 'T'[b]: s[] {op}= A[b] inorder scope grid as before: {ty} {{ 'O'[b]: O[b] = before }}
      for t in 0..32 level(block) {{ if t == 7 {{ 'R'[b]: R[b] = O[b] }} }}
    }}
  }}
}}"
        );
        agree(&text, &[&[139], &[1], &[0], &[2]]);
    }
}

/// A table per block: threads of one phase share its elements, and the next phase adds it to the result.
fn histogram(ty: &str, threads: i64) -> String {
    format!(
        "func counts(N)(I: in i32[N], H: inout {ty}[N]) stage scheduled {{
  for b in 0..(N + 99) // 100 level(grid) {{
    alloc T: {ty}[64] shared
    for t in 0..64 level(block) {{ 'T.init'[b, t]: T[t] = 0:{ty} }}
    for e in 100 * b..min(100 * b + 100, N) level(block) {{
      atomic 'T'[e]: T[index(I[e]) % 64]! sum= 1:{ty} relaxed scope system
    }}
    for e in 100 * b..min(100 * b + 100, N) level(block) {{
      atomic 'T.2'[e]: T[index(I[e]) // 2 % 64]! sum= 2:{ty} relaxed scope system
    }}
    for t in 0..{threads} level(block) {{
      if t < N {{ atomic 'H'[b, t]: H[t]! sum= T[t] relaxed scope system }}
    }}
  }}
}}"
    )
}

#[test]
fn tables_of_blocks_are_shared_by_their_threads() {
    for ty in ["i32", "u8", "u16", "i64"] {
        agree(&histogram(ty, 64), &[&[1], &[1000], &[64]]);
    }
    let (m, f) = parse(&histogram("i32", 64));
    let source = emit(&m, &f, Language::Cuda, Limits::default()).unwrap().source;
    assert_eq!(source.matches("atomicAdd").count(), 3, "{source}");
    let mixed = histogram("i32", 64).replace("% 64]! sum= 2:", "% 64]! max= 2:");
    agree(&mixed, &[&[1], &[1000]]);
}

#[test]
fn iterations_that_wait_for_one_another_are_refused() {
    let text = "func turns(N)(A: inout i32[N]) stage scheduled {
  for t in 0..N level(block) {
    while A[t] > 0:i32 { atomic 'A'[t]: A[0] store 0:i32 relaxed scope system }
  }
}";
    let (m, f) = parse(text);
    let refused = emit(&m, &f, Language::Cuda, Limits::default()).unwrap_err();
    assert_eq!(refused.code.0, "E0701", "{refused}");
}
