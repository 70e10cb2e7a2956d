//! The programs of the interpreter's codes: each `run/e04NN_wrong.tree` fails with its code, and the
//! right one beside it runs. Sizes are 4, inputs are 0.

use lathe_diagnostics::{Diagnostic, FileId};
use lathe_ir::interp::{ArrayValue, Options, Order, codes, evaluate, run, unwritten};
use lathe_ir::text::parse_module;
use lathe_ir::{Function, Mode, ParamKind};

fn arguments(f: &Function) -> Vec<ArrayValue> {
    let sizes = f.sizes.iter().map(|s| (s.id, 4)).collect();
    let one = |p: &lathe_ir::Param| match &p.kind {
        ParamKind::Scalar(b) => ArrayValue::zeros(b.ty.into(), &[]),
        ParamKind::Array(b) => {
            let extent = |e| usize::try_from(evaluate(e, &sizes).expect("a size")).expect("an extent");
            let shape: Vec<usize> = b.extents.iter().map(extent).collect();
            match p.mode {
                Mode::Out => ArrayValue::undefined(b.elem.clone(), &shape),
                _ => ArrayValue::zeros(b.elem.clone(), &shape),
            }
        }
    };
    f.params.iter().map(one).collect()
}

fn result(program: &str, order: Order) -> Result<(), Diagnostic> {
    let module = parse_module(FileId(0), program).unwrap_or_else(|e| panic!("{program}\n{}", e[0]));
    let errors = lathe_ir::verify::verify(&module);
    assert!(errors.is_empty(), "{program}\n{}", errors[0]);
    let f = &module.functions["k"];
    let mut args = arguments(f);
    let options = Options { order, races: true, max_steps: Some(10_000), ..Options::default() };
    run(&module, f, &mut args, &options).map_err(|e| *e.diagnostic)?;
    unwritten(f, &args)
}

#[test]
fn every_code_has_a_wrong_and_a_right_program() {
    for info in codes::CODES {
        let orders = || (0..20).map(Order::Seed).chain([Order::Reference]);
        for order in orders() {
            if let Err(d) = result(info.right, order) {
                panic!("the right program of {} fails: {d}\n{}", info.code, info.right);
            }
        }
        // A wrong order may be needed to show it, but no other failure may.
        let found: Vec<_> = orders().filter_map(|o| result(info.wrong, o).err()).map(|d| d.code).collect();
        assert!(!found.is_empty(), "the wrong program of {} runs:\n{}", info.code, info.wrong);
        assert!(found.iter().all(|c| *c == info.code), "the wrong program of {}: {found:?}", info.code);
    }
}
