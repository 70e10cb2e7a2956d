//! Functions that call functions.

use super::helpers::*;
use lathe_ir::build::{add, eq, index, int, mul, select, sub, var};
use lathe_ir::expr::ExprKind;
use lathe_ir::interp::{ArrayValue, codes};
use lathe_ir::stmt::Arg;
use lathe_ir::{Expr, Mode, Param, ParamKind, Scalar, Stmt, StmtKind, Type, View};

fn call(name: &str, args: Vec<Expr>, ty: Type) -> Expr {
    Expr::new(ExprKind::Call(name.into(), args), ty)
}

/// `fact(n) = select(n == 0, 1, n * fact(n - 1))`.
fn factorial() -> lathe_ir::Function {
    let mut m = Maker::new();
    m.f.name = "fact".into();
    let n = m.f.fresh_var("n", Scalar::I64);
    m.f.params.push(Param { kind: ParamKind::Scalar(n.clone()), mode: Mode::In, alias: None });
    let one = int(Scalar::I64, 1);
    let rest = call("fact", vec![sub(var(&n), one.clone())], Type::I64);
    m.f.result = Some(select(eq(var(&n), int(Scalar::I64, 0)), one, mul(var(&n), rest)));
    m.f
}

#[test]
fn functions_may_recur() {
    let mut m = Maker::new();
    m.module.functions.insert("fact".into(), factorial());
    let n = m.size("N");
    let c = m.param("C", Mode::Out, Scalar::I64, vec![n.clone()]);
    let i = m.var("i");
    let value = call("fact", vec![lathe_ir::build::cast(Type::I64, v(&i))], Type::I64);
    m.f.body = parallel(&i, n, store("C", vec![v(&i)], at(&c, vec![v(&i)]), value));
    let mut args = [ArrayValue::undefined(Type::I64, &[6])];
    m.go(&mut args);
    assert_eq!(args[0].to_i64_vec(), [1, 1, 2, 6, 24, 120]);
    assert!(m.has_race(&mut args).is_none());
    // A negative argument never ends.
    let value = call("fact", vec![int(Scalar::I64, -1)], Type::I64);
    m.f.body = store("C", vec![], at(&c, vec![index(0)]), value);
    m.fails(&mut args, codes::LIMIT);
}

#[test]
fn calls_see_views_of_the_callers_arrays() {
    let mut inner = Maker::new();
    inner.f.name = "bump".into();
    let k = inner.size("K");
    let x = inner.param("X", Mode::InOut, Scalar::I32, vec![k.clone()]);
    let i = inner.var("i");
    let by_size = lathe_ir::build::cast(Type::I32, k.clone());
    inner.f.body =
        serial(&i, k, store("X", vec![v(&i)], at(&x, vec![v(&i)]), add(get(&x, vec![v(&i)]), by_size)));
    let mut m = Maker::new();
    m.module.functions.insert("bump".into(), inner.f);
    let a = m.param("A", Mode::InOut, Scalar::I32, vec![index(6)]);
    let slice = |offset: i64, step: i64| View::Slice {
        base: Box::new(View::Buffer(a.id)),
        offsets: vec![index(offset)],
        steps: vec![step],
    };
    let bump = |v: View| Stmt::of(StmtKind::Call { function: "bump".into(), args: vec![Arg::View(v)] });
    for (view, want) in [
        (View::Buffer(a.id), [6, 6, 6, 6, 6, 6]),
        (slice(1, 2), [0, 3, 0, 3, 0, 3]),
        (slice(4, -1), [5, 5, 5, 5, 5, 0]),
        (slice(6, 1), [0; 6]),
    ] {
        m.f.body = bump(view);
        let mut args = [ArrayValue::from_i64(Scalar::I32, &[6], &[0; 6])];
        m.go(&mut args);
        assert_eq!(args[0].to_i64_vec(), want);
    }
    m.f.body = bump(slice(7, 1));
    m.fails(&mut [ArrayValue::from_i64(Scalar::I32, &[6], &[0; 6])], codes::OUT_OF_BOUNDS);
}
