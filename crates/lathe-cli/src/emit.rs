//! `lathe emit`.

use crate::Outcome;
use crate::args::{EmitArgs, Form};
use crate::files::{Used, apart};
use crate::say;
use crate::target::{self, Common};
use lathe::{Build, Diagnostic, Failure, codes};

pub fn emit(a: &EmitArgs, common: &Common) -> Outcome {
    let t = &a.target;
    let with_header = matches!(a.to, Form::Object | Form::C);
    if let Some(path) = &a.output {
        let header = with_header.then(|| Used::new(path.with_extension("h"), "the header"));
        let written = std::iter::once(Used::new(path, "the output")).chain(header);
        apart(&written.collect::<Vec<_>>(), &[target::source(t)])?;
    }
    let (program, name) = target::open(t)?;
    let kernel = program.kernel(name.as_deref())?.clone();
    let how = lathe::How { others: true, ..target::how_unrun(t, &program, &kernel, false)? };
    let machine = target::machine(&t.how)?;
    let schedule = lathe::schedule(&program, &kernel, &how, &machine)?;
    target::print_notes(&schedule);
    let build = Build { engine: target::engine(&t.how)?, ..Build::default() }.on(&machine);
    let form = match a.to {
        Form::Tree => lathe::Emit::Tree,
        Form::Llvm => lathe::Emit::Llvm,
        Form::Asm => lathe::Emit::Asm,
        Form::Object => lathe::Emit::Object,
        Form::C => lathe::Emit::C,
        Form::Header => lathe::Emit::Header,
        Form::Cuda | Form::Opencl => {
            let d = Diagnostic::error(codes::UNAVAILABLE, "code for GPUs is not there yet")
                .help("--to tree|llvm|asm|object|c|header");
            return Err(Failure::one(&program.sources, d).into());
        }
    };
    if form == lathe::Emit::Object && a.output.is_none() {
        let d = Diagnostic::error(codes::OUTPUT, "an object needs a file")
            .help("lathe emit TARGET --to object -o kernel.o; a header kernel.h is written beside it");
        return Err(Failure::one(&program.sources, d).into());
    }
    if let Some(path) = a.output.as_ref().filter(|p| with_header && p.extension().is_some_and(|e| e == "h")) {
        let d = Diagnostic::error(
            codes::OUTPUT,
            format!("`{}` is the name of the header that is written beside it", path.display()),
        )
        .help("choose a name that does not end in .h");
        return Err(Failure::one(&program.sources, d).into());
    }
    let at = |d: Diagnostic| Failure::one(&program.sources, d);
    let bytes = lathe::emit(&schedule, form, &build).map_err(at)?;
    match &a.output {
        Some(path) => {
            lathe::write_whole(path, &bytes).map_err(at)?;
            if with_header {
                let header = lathe::emit(&schedule, lathe::Emit::Header, &build).map_err(at)?;
                lathe::write_whole(&path.with_extension("h"), &header).map_err(at)?;
            }
        }
        None => {
            say::data(&bytes)?;
        }
    }
    if common.time_passes {
        target::print_times(&schedule.times);
    }
    Ok(())
}
