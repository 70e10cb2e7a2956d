//! Passes in files (`tests/files`; see `lathe_filetest`): what each makes of a tree, and that it computes the same.

use lathe_diagnostics::{Code, Diagnostic};
use lathe_filetest::Front;
use lathe_ir::interp::{self, ArrayValue, Options, Order};
use lathe_ir::lower::Unsupported;
use lathe_ir::text::Ids;
use lathe_ir::{Function, Module, Scalar, Type};
use lathe_lower::{
    addresses, calls, checks, collapse, counts, externals, gathers, halves, lanes, levels, lower,
    lower_for_vectors, phases, pitches, reductions, turns,
};

struct Passes;

/// As engines say it.
fn refused(u: Unsupported) -> Diagnostic {
    let d = Diagnostic::error(Code("E0701"), format!("no engine supports {}", u.construct));
    d.at_places(&u.places, "here")
}

impl Front for Passes {
    fn apply(&self, module: &Module, func: &Function, steps: &str) -> Result<Function, Diagnostic> {
        let new = match steps {
            "all" => lower(module, func).map_err(refused)?,
            "vectors" => lower_for_vectors(module, func).map_err(refused)?,
            "addresses" => addresses::plain(func).expect("layouts that CPUs have"),
            "calls" => calls::inline(module, func),
            "checks" => checks::in_blocks(func),
            "collapse" => collapse::nested(func),
            "counts" => counts::outside(func),
            "externals" => externals::in_memory(func),
            "gathers" => gathers::ahead(func),
            "halves" => halves::in_floats(func),
            "lanes" => lanes::whole(func),
            "levels" => levels::on_cpus(func).map_err(refused)?,
            "phases" => phases::to_phased(func, &|_| true).map_err(refused)?,
            "pitches" => pitches::apart(func),
            "turns" => turns::by_tickets(&levels::on_cpus(func).map_err(refused)?),
            "reductions" => reductions::as_stores(module, func),
            other => panic!("there is no pass `{other}`"),
        };
        let errors = lathe_ir::verify::verify_function(module, &new);
        assert!(errors.is_empty(), "{}", errors[0]);
        Ok(new)
    }

    fn ids(&self) -> Ids {
        Ids::Hidden
    }
}

#[test]
fn files_do_as_they_say() {
    lathe_filetest::check(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/files"), &Passes);
}

/// Iterations that take turns, in orders in which they interrupt each other anywhere; none of them races with another.
#[test]
fn turns_in_any_order() {
    let text = "func running(N)(A: in i32[N], B: out i32[N], T: inout i32[]) stage scheduled {
      for i in 0..N cpu {
        atomic 'S'[i]: T[] sum= A[i] inorder scope cpu as before: i32 { 'B'[i]: B[i] = before }
      }
    }";
    let module = lathe_ir::text::parse_module(lathe_diagnostics::FileId(0), text).unwrap();
    let lowered = lower(&module, &module.functions["running"]).map_err(refused).unwrap();
    for seed in 0..200 {
        let n = seed as usize % 7;
        let values: Vec<i64> = (0..n as i64).map(|i| i * i + 1).collect();
        let mut args = vec![
            ArrayValue::from_i64(Scalar::I32, &[n], &values),
            ArrayValue::undefined(Type::I32, &[n]),
            ArrayValue::from_i64(Scalar::I32, &[], &[5]),
        ];
        let options = Options { order: Order::Seed(seed), races: true, ..Options::default() };
        interp::run(&module, &lowered, &mut args, &options).unwrap_or_else(|e| panic!("{seed}: {e:?}"));
        let before = values.iter().scan(5, |sum, v| Some(std::mem::replace(sum, *sum + v)));
        assert_eq!(args[1].to_i64_vec(), before.collect::<Vec<_>>(), "{seed}");
        assert_eq!(args[2].to_i64_vec(), [5 + values.iter().sum::<i64>()], "{seed}");
    }
}
