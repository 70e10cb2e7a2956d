//! The examples, and decisions about them.

use lathe_ir::{Buffer, Function, Module, ParamKind, build, visit};
use lathe_mdh::{Homomorphism, Model, Shaped};
use lathe_space::Value;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

pub struct Alone;

impl lathe_lang::Resolver for Alone {
    fn load(&mut self, _: &str, name: &str) -> Result<(String, String), String> {
        Err(format!("there is no file {name}"))
    }
}

/// The module of a text in the language.
pub fn module(text: &str) -> Module {
    let mut map = lathe_diagnostics::SourceMap::new();
    match lathe_lang::load(&mut map, "test.lathe", text, &mut Alone) {
        Ok((program, _)) => program.module,
        Err(errors) => panic!("{errors:#?}\n{text}"),
    }
}

/// The first error of a text in the language.
pub fn not_loaded(text: &str) -> lathe_diagnostics::Diagnostic {
    let mut map = lathe_diagnostics::SourceMap::new();
    match lathe_lang::load(&mut map, "test.lathe", text, &mut Alone) {
        Ok(_) => panic!("loads: {text}"),
        Err(mut errors) => errors.remove(0),
    }
}

/// A kernel of a file of `examples/mdh`.
pub fn example(file: &str, kernel: &str) -> (Module, Function) {
    let path = format!("{}/../../examples/mdh/{file}.lathe", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    let module = module(&text);
    let func = module.functions.get(kernel).unwrap_or_else(|| panic!("{file} has no {kernel}")).clone();
    (module, func)
}

pub fn homomorphism(file: &str, kernel: &str) -> Homomorphism {
    let (module, func) = example(file, kernel);
    Homomorphism::of(&module, &func, None).unwrap_or_else(|d| panic!("{kernel}: {d}"))
}

pub fn sizes(all: &[(&str, i64)]) -> BTreeMap<String, i64> {
    all.iter().map(|(n, v)| (n.to_string(), *v)).collect()
}

/// A row of the thesis's table of examples: the file, the kernel, and two choices of small sizes.
pub struct Row {
    pub name: &'static str,
    pub file: &'static str,
    pub kernel: &'static str,
    pub sizes: [&'static [(&'static str, i64)]; 2],
}

const fn row(
    name: &'static str,
    file: &'static str,
    kernel: &'static str,
    a: &'static [(&'static str, i64)],
    b: &'static [(&'static str, i64)],
) -> Row {
    Row { name, file, kernel, sizes: [a, b] }
}

/// All 21.
pub static ROWS: [Row; 21] = [
    row("Dot", "linear_algebra", "dot", &[("K", 24)], &[("K", 7)]),
    row("MatVec", "linear_algebra", "matvec", &[("I", 6), ("K", 8)], &[("I", 5), ("K", 9)]),
    row(
        "MatMul",
        "linear_algebra",
        "matmul",
        &[("I", 4), ("J", 6), ("K", 8)],
        &[("I", 3), ("J", 1), ("K", 5)],
    ),
    row(
        "MatMulT",
        "linear_algebra",
        "matmul_t",
        &[("I", 6), ("J", 4), ("K", 4)],
        &[("I", 1), ("J", 4), ("K", 9)],
    ),
    row(
        "bMatMul",
        "linear_algebra",
        "batched_matmul",
        &[("B", 2), ("I", 4), ("J", 3), ("K", 4)],
        &[("B", 3), ("I", 1), ("J", 2), ("K", 5)],
    ),
    row(
        "Conv2D",
        "convolution",
        "conv2d",
        &[("H", 7), ("W", 5), ("R", 2), ("S", 4)],
        &[("H", 5), ("W", 6), ("R", 3), ("S", 1)],
    ),
    row(
        "MCC",
        "convolution",
        "mcc",
        &[("N", 2), ("H", 5), ("W", 3), ("C", 2), ("K", 2), ("R", 2), ("S", 2)],
        &[("N", 1), ("H", 4), ("W", 4), ("C", 3), ("K", 2), ("R", 2), ("S", 3)],
    ),
    row(
        "MCC_Capsule",
        "convolution",
        "mcc_capsule",
        &[
            ("N", 1),
            ("H", 3),
            ("W", 2),
            ("C", 2),
            ("K", 1),
            ("R", 2),
            ("S", 1),
            ("MI", 2),
            ("MJ", 2),
            ("MK", 2),
        ],
        &[
            ("N", 2),
            ("H", 2),
            ("W", 2),
            ("C", 1),
            ("K", 2),
            ("R", 1),
            ("S", 2),
            ("MI", 1),
            ("MJ", 3),
            ("MK", 2),
        ],
    ),
    row(
        "CCSD(T) I1",
        "ccsdt",
        "abcdef_gdab_efgc",
        &[("NA", 2), ("NB", 2), ("NC", 1), ("ND", 2), ("NE", 2), ("NF", 1), ("NG", 4)],
        &[("NA", 1), ("NB", 3), ("NC", 2), ("ND", 1), ("NE", 2), ("NF", 2), ("NG", 3)],
    ),
    row(
        "CCSD(T) I2",
        "ccsdt",
        "abcdef_gdac_efgb",
        &[("NA", 2), ("NB", 1), ("NC", 2), ("ND", 2), ("NE", 1), ("NF", 2), ("NG", 4)],
        &[("NA", 3), ("NB", 2), ("NC", 1), ("ND", 1), ("NE", 2), ("NF", 1), ("NG", 5)],
    ),
    row("Jacobi1D", "stencils", "jacobi1d", &[("N", 26)], &[("N", 3)]),
    row("Jacobi2D", "stencils", "jacobi2d", &[("N", 8), ("M", 10)], &[("N", 3), ("M", 7)]),
    row("Jacobi3D", "stencils", "jacobi3d", &[("N", 6), ("M", 5), ("L", 8)], &[("N", 3), ("M", 4), ("L", 7)]),
    row("PRL", "prl", "prl", &[("I", 6), ("J", 8)], &[("I", 5), ("J", 3)]),
    row("Histo", "histogram", "histogram", &[("E", 24), ("B", 4)], &[("E", 9), ("B", 5)]),
    row("GenHisto", "histogram", "nearest", &[("E", 12), ("B", 6)], &[("E", 7), ("B", 1)]),
    row("map", "patterns", "map", &[("N", 24)], &[("N", 1)]),
    row("reduce", "patterns", "reduce", &[("N", 36)], &[("N", 11)]),
    row("reduce twice", "patterns", "reduce_both", &[("N", 24)], &[("N", 9)]),
    row("scan", "patterns", "scan", &[("N", 24)], &[("N", 27)]),
    row("MBBS", "patterns", "mbbs", &[("N", 12), ("M", 8)], &[("N", 9), ("M", 5)]),
];

pub fn model(name: &str) -> Model {
    Model::named(name).unwrap_or_else(|d| panic!("{d}"))
}

pub fn no_facts(_: &str) -> Option<Value> {
    None
}

/// The function with its sizes as constants.
pub fn fixed(func: &Function, h: &Shaped) -> Function {
    let map: HashMap<_, _> = h.sizes.iter().map(|(v, n)| (*v, build::index(*n))).collect();
    let mut out = func.clone();
    out.body = visit::substitute_stmt(&func.body, &map);
    for p in &mut out.params {
        if let ParamKind::Array(b) = &mut p.kind {
            let extents = b.extents.iter().map(|e| visit::substitute(e, &map)).collect();
            *b = Arc::new(Buffer { extents, ..(**b).clone() });
        }
    }
    out.sizes.clear();
    out
}
