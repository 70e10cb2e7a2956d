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
    let form = match a.to {
        Form::Tree => lathe::Emit::Tree,
        Form::Llvm => lathe::Emit::Llvm,
        Form::Asm => lathe::Emit::Asm,
        Form::Object => lathe::Emit::Object,
        Form::C => lathe::Emit::C,
        Form::Header => lathe::Emit::Header,
        Form::Cuda => lathe::Emit::Cuda,
        Form::Opencl => lathe::Emit::Opencl,
        Form::Ptx => lathe::Emit::Ptx,
        Form::Cubin => lathe::Emit::Cubin,
        Form::Launches => lathe::Emit::Launches,
    };
    // What is written for a device is scheduled for it.
    let mut wanted = t.clone();
    wanted.how.device = wanted.how.device.or_else(|| form.device().map(str::to_string));
    let (program, kernel) = target::open(t)?;
    if let Some(path) = &a.output {
        let header = with_header.then(|| Used::new(path.with_extension("h"), "the header"));
        let written: Vec<Used> = std::iter::once(Used::new(path, "the output")).chain(header).collect();
        apart(&written, &target::read(&program, &t.how, &[]))?;
    }
    let how = lathe::How { others: true, ..target::how_unrun(&wanted, &program, &kernel, false)? };
    let mut machine = target::machine(&wanted.how)?;
    let plain = Build { engine: target::engine(&wanted.how)?, ..Build::default() }.on(&machine);
    let asked = a.arch.as_deref().filter(|_| form.device().is_some());
    let usual = (form.device() == Some("cuda") && t.how.cpu.is_none()).then_some(lathe::device::USUAL);
    let arch = asked.or(usual);
    if let Some(arch) = arch {
        machine = lathe::machine::made_for(machine, arch);
    }
    let schedule = lathe::schedule(&program, &kernel, &how, &machine)?;
    target::print_notes(&schedule);
    let build = Build { machine: arch.map(|_| machine.clone()).or(plain.machine), ..plain };
    if matches!(form, lathe::Emit::Object | lathe::Emit::Cubin) && a.output.is_none() {
        let d = Diagnostic::error(codes::OUTPUT, "machine code needs a file")
            .help("lathe emit TARGET --to object -o kernel.o; a header kernel.h is written next to it");
        return Err(Failure::one(&program.sources, d).into());
    }
    if let Some(path) = a.output.as_ref().filter(|p| with_header && p.extension().is_some_and(|e| e == "h")) {
        let d = Diagnostic::error(
            codes::OUTPUT,
            format!("`{}` is the name of the header that is written next to it", path.display()),
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
