//! The codes of machine files.

use lathe_diagnostics::{Code, CodeInfo};

/// A name of no machine.
pub const MACHINE: Code = Code("E0703");
/// A machine file that cannot be read.
pub const FORM: Code = Code("E1201");
/// A machine that contradicts itself.
pub const MODEL: Code = Code("E1202");

pub static CODES: &[CodeInfo] = &[
    CodeInfo {
        code: MACHINE,
        title: "an unknown machine",
        explanation: "Code cannot be generated for the requested processor or feature \
                      list: it is neither a machine file that comes with Lathe, nor a processor that \
                      these files name, nor a file. Omit both to compile for the host machine.",
        wrong: "lathe emit gemm.lathe --to asm --cpu nonesuch",
        right: "lathe emit gemm.lathe --to asm --cpu x86-64-v3",
    },
    CodeInfo {
        code: FORM,
        title: "machine file that cannot be read",
        explanation: "A machine is a TOML file with `format = 1`, a `name`, and `memories` and `cores` (its levels) or \
                      the `base` that has them; `constraints`, `facts` and `code` may follow. JSON files of older \
                      versions, which hold levels alone, are read, too; formats that are newer than this Lathe are \
                      refused. Unknown keys are refused, so that a misspelled constraint is not silently ignored.",
        wrong: "{ \"name\": \"toy\", \"memory\": [] }",
        right: "{ \"name\": \"toy\", \"memories\": [{ \"layer\": \"HM\" }], \"cores\": [{ \"layer\": \"COR\", \"executor\": \"cpu\" }] }",
    },
    CodeInfo {
        code: MODEL,
        title: "machine that contradicts itself",
        explanation: "A level is named twice, a space or an executor does not exist, a constraint names a level that \
                      is not there, a fact has the wrong type, or there is no machine of that name.",
        wrong: "lathe run gemm.lathe:gemm --strategy auto --model abacus",
        right: "lathe run gemm.lathe:gemm --strategy auto --model openmp",
    },
];
