//! `lathe opt`: steps on a tree.

use crate::Outcome;
use crate::args::OptArgs;
use crate::say;
use crate::target::Common;
use lathe::{Failure, Program};
use serde_json::json;

pub fn opt(a: &OptArgs, common: &Common) -> Outcome {
    let (file, name) = lathe::program::split_target(&a.file);
    let mut program = Program::open(file)?;
    crate::render::print(&program.sources, &program.warnings);
    let mut func = program.kernel(a.function.as_deref().or(name.as_deref()))?.clone();
    if let Some(passes) = &a.passes {
        func = lathe::grad::optimized(&program.lang.module, &func, passes)
            .map_err(|d| Failure::one(&program.sources, d))?;
    }
    for step in &a.step {
        func = lathe::apply_steps(&mut program.sources, &program.lang.module, &func, step)?;
    }
    let mut module = program.lang.module;
    let name = func.name.clone();
    module.functions.insert(name.clone(), func);
    let tree = lathe::text::print_module(&module);
    if common.json {
        return say::json(&json!({ "function": name.to_string(), "tree": tree }));
    }
    say::data(tree.as_bytes())
}
