//! Tokens, atomics and scopes, on trees in text: results under many orders, and the races that one run finds.

use super::helpers::Text;
use lathe_ir::interp::{ArrayValue, codes};
use lathe_ir::{Scalar, Type};

fn ints(values: &[i64]) -> ArrayValue {
    ArrayValue::from_i64(Scalar::I32, &[values.len()], values)
}

fn cell(value: i64) -> ArrayValue {
    ArrayValue::from_i64(Scalar::I32, &[], &[value])
}

fn out(n: usize) -> ArrayValue {
    ArrayValue::undefined(Type::I32, &[n])
}

/// Copies block `k + 1` while block `k` is used, with two buffers in turn.
fn pipelined(pending: u32) -> Text {
    Text::new(format!(
        "func k(N)(A: in i32[N, 2], B: out i32[N]) stage scheduled {{
          alloc s: i32[2, 2] shared
          token t
          async t {{ for j in 0..2 {{ 's'[0, j]: s[0, j] = A[0, j] }} }}
          for k in 0..N {{
            if k + 1 < N {{
              async t {{ for j in 0..2 {{ 's'[k + 1, j]: s[(k + 1) % 2, j] = A[k + 1, j] }} }}
              wait t pending {pending}
            }} else {{ wait t }}
            'B'[k]: B[k] = s[k % 2, 0] + s[k % 2, 1]
          }}
        }}"
    ))
}

#[test]
fn a_wait_may_leave_the_latest_bodies_pending() {
    let args = || vec![ArrayValue::from_i64(Scalar::I32, &[4, 2], &[1, 2, 3, 4, 5, 6, 7, 8]), out(4)];
    for results in pipelined(1).agree(args) {
        assert_eq!(results[1].to_i64_vec(), [3, 7, 11, 15]);
    }
    pipelined(2).races(args());
}

#[test]
fn bodies_end_where_their_token_does() {
    let with = |body: &str| {
        Text::new(format!("func k(N)(A: inout i32[N], B: out i32[]) stage scheduled {{ {body} }}"))
    };
    let args = || vec![ints(&[1, 2, 3]), ArrayValue::undefined(Type::I32, &[])];
    let fill = "for i in 0..N { async t { 'A'[i]: A[i] = 5:i32 } }";
    let read = "'B': B[] = A[0] + A[1] + A[2]";
    for results in with(&format!("token t {{ {fill} }} {read}")).agree(args) {
        assert_eq!(results[1].to_i64_vec(), [15]);
    }
    with(&format!("token t {fill} {read}")).races(args());
}

/// Fork and join, as deep as the number.
#[test]
fn functions_fork_and_join_recursively() {
    let text = Text::new(
        "func fib()(n: in i32, r: out i32[]) stage scheduled {
          if n < 2:i32 { 'r': r[] = n } else {
            alloc x: i32[]
            alloc y: i32[]
            token t { async t { call fib(n - 1:i32, &x) } call fib(n - 2:i32, &y) }
            'r': r[] = x[] + y[]
          }
        }
        func k()(n: in i32, r: out i32[]) stage scheduled { call fib(n, &r) }",
    );
    let args = || vec![cell(9), ArrayValue::undefined(Type::I32, &[])];
    for results in text.agree(args) {
        assert_eq!(results[1].to_i64_vec(), [34]);
    }
}

#[test]
fn exchanges_and_comparisons_lose_nothing() {
    // A lock that is taken by comparing, and given back by a store; the sum under it is not atomic.
    let lock = |acquire: &str, release: &str| {
        Text::new(format!(
            "func k(N)(L: inout i32[], S: inout i32[]) stage scheduled {{
              for i in 0..N cpu {{
                alloc open: bool[] register
                'o'[i]: open[] = true
                while open[] {{
                  atomic 'L'[i]: L[] compare 0:i32 exchange 1:i32 {acquire} scope system as was: i32
                  if was == 0:i32 {{
                    'S'[i]: S[] = S[] + 1:i32
                    'o.2'[i]: open[] = false
                    atomic 'L.2'[i]: L[] store 0:i32 {release} scope system
                  }}
                }}
              }}
            }}"
        ))
    };
    let args = || vec![cell(0), cell(0)];
    for results in lock("acquire", "release").with_size("N", 5).agree(args) {
        assert_eq!(results[1].to_i64_vec(), [5]);
    }
    lock("relaxed", "release").with_size("N", 5).races(args());
    lock("acquire", "relaxed").with_size("N", 5).races(args());
    let swap = Text::new(
        "func k(N)(T: inout i32[], B: out i32[N]) stage scheduled {
          for i in 0..N cpu {
            atomic 'T'[i]: T[] exchange i32(i) + 1:i32 relaxed scope system as was: i32
            'B'[i]: B[i] = was
          }
        }",
    );
    for results in swap.agree(|| vec![cell(0), out(6)]) {
        let mut all = results[1].to_i64_vec();
        all.extend(results[0].to_i64_vec());
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2, 3, 4, 5, 6], "each is exchanged once");
    }
}

/// A scan in one pass: each block waits for the sum that the block before it publishes.
fn look_back(publish: &str, see: &str) -> Text {
    Text::new(format!(
        "func k(N)(A: in i32[N, 2], B: out i32[N, 2]) stage scheduled {{
          alloc flag: i32[N] global
          alloc total: i32[N] global
          for b in 0..N {{ 'f'[b]: flag[b] = 0:i32 }}
          for b in 0..N level(grid) {{
            alloc before: i32[] register
            'before'[b]: before[] = 0:i32
            if b > 0 {{
              alloc seen: i32[] register
              's'[b]: seen[] = 0:i32
              while seen[] == 0:i32 {{
                atomic 'flag'[b]: flag[b - 1] load {see} scope system as f: i32
                's.2'[b]: seen[] = f
              }}
              'before.2'[b]: before[] = total[b - 1]
            }}
            'total'[b]: total[b] = before[] + A[b, 0] + A[b, 1]
            atomic 'flag.2'[b]: flag[b] store 1:i32 {publish} scope system
            'B'[b, 0]: B[b, 0] = before[] + A[b, 0]
            'B'[b, 1]: B[b, 1] = total[b]
          }}
        }}"
    ))
}

#[test]
fn what_is_published_is_seen() {
    let args = || {
        let a = ArrayValue::from_i64(Scalar::I32, &[3, 2], &[1, 2, 3, 4, 5, 6]);
        vec![a, ArrayValue::undefined(Type::I32, &[3, 2])]
    };
    for results in look_back("release", "acquire").agree(args) {
        assert_eq!(results[1].to_i64_vec(), [1, 3, 6, 10, 15, 21]);
    }
    for (publish, see) in [("relaxed", "acquire"), ("release", "relaxed")] {
        let failure = look_back(publish, see).races(args());
        assert_eq!(failure.label.as_deref(), Some("before.2"));
    }
}

#[test]
fn atomics_race_beyond_their_scope() {
    let count = |scope: &str, cells: &str| {
        Text::new(format!(
            "func k(N)(H: inout i32[N]) stage scheduled {{
              for b in 0..N level(grid) {{
                for t in 0..4 level(block) {{ atomic 'H'[b, t]: H[{cells}] sum= 1:i32 relaxed scope {scope} }}
              }}
            }}"
        ))
    };
    let args = || vec![ints(&[0, 0])];
    for (scope, cells, sum) in [("grid", "0", [8, 0]), ("system", "0", [8, 0]), ("block", "b", [4, 4])] {
        for results in count(scope, cells).agree(args) {
            assert_eq!(results[0].to_i64_vec(), sum, "{scope} {cells}");
        }
    }
    count("block", "0").races(args());
}

#[test]
fn what_nobody_publishes_is_waited_for_in_vain() {
    let text = Text::new(
        "func k(N)(F: inout i32[N]) stage scheduled {
          for i in 0..N cpu {
            alloc seen: i32[] register
            's'[i]: seen[] = 0:i32
            while seen[] == 0:i32 {
              atomic 'F'[i]: F[i] load acquire scope system as f: i32
              's.2'[i]: seen[] = f
            }
          }
        }",
    );
    assert_eq!(text.fails(vec![ints(&[1, 0])]), codes::LIMIT);
}
