//! `lathe opt`: steps on a tree in text form.

use crate::Outcome;
use crate::args::OptArgs;
use crate::say;
use crate::target::Common;
use lathe::{Diagnostic, Failure, SourceMap, codes};

pub fn opt(a: &OptArgs, _common: &Common) -> Outcome {
    let text = lathe::source::read(&a.file)
        .map_err(|e| Diagnostic::error(codes::NO_FILE, format!("cannot read `{}`: {e}", a.file.display())))?;
    let mut sources = SourceMap::new();
    let file = sources.add(a.file.display().to_string(), text.as_str());
    let mut module = lathe::text::parse_module(file, &text).map_err(|d| Failure::many(&sources, d))?;
    let bad = lathe::ir::verify::verify(&module);
    if !bad.is_empty() {
        return Err(Failure::many(&sources, bad).into());
    }
    let names: Vec<_> = module.functions.keys().cloned().collect();
    let name = match (&a.function, names.as_slice()) {
        (Some(n), _) => names.iter().find(|m| &***m == n.as_str()).cloned(),
        (None, [only]) => Some(only.clone()),
        (None, _) => None,
    };
    let Some(name) = name else {
        let list: Vec<&str> = names.iter().map(|n| &**n).collect();
        let d = Diagnostic::error(
            codes::NO_KERNEL,
            match &a.function {
                Some(n) => format!("this file has no function `{n}`"),
                None => "which function? give --function NAME".to_string(),
            },
        )
        .help(format!("functions of this file: {}", list.join(", ")));
        return Err(Failure::one(&sources, d).into());
    };
    for step in &a.step {
        let func = &module.functions[&name];
        let done = lathe::apply_steps(&mut sources, &module, func, step)?;
        module.functions.insert(name.clone(), done);
    }
    say::data(lathe::text::print_module(&module).as_bytes())
}
