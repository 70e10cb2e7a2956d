//! The codes of machine files.

use lathe_diagnostics::Code;

lathe_diagnostics::codes! {
    /// Code cannot be generated for the requested processor or feature list: it is neither a machine file that
    /// comes with Lathe, nor a processor that these files name, nor a file. Omit both to compile for the host
    /// machine.
    MACHINE = Code("E0703"), "an unknown machine",
        wrong: "lathe emit gemm.lathe --to asm --cpu nonesuch",
        right: "lathe emit gemm.lathe --to asm --cpu x86-64-v3";

    /// A machine is a TOML file with `format = 1`, a `name`, and `memories` and `cores` (its levels) or the
    /// `base` that has them; `constraints`, `facts` and `code` may follow. JSON files of older versions, which
    /// hold levels alone, are read, too; formats that are newer than this Lathe are refused. Unknown keys are
    /// refused, so that a misspelled constraint is not silently ignored.
    FORM = Code("E1201"), "machine file that cannot be read",
        wrong: "{ \"name\": \"toy\", \"memory\": [] }",
        right: "{ \"name\": \"toy\", \"memories\": [{ \"layer\": \"HM\" }], \"cores\": [{ \"layer\": \"COR\", \"executor\": \"cpu\" }] }";

    /// A level is named twice, a space or an executor does not exist, a constraint names a level that is not
    /// there, a fact has the wrong type, or there is no machine of that name.
    MODEL = Code("E1202"), "machine that contradicts itself",
        wrong: "lathe run gemm.lathe:gemm --strategy auto --model abacus",
        right: "lathe run gemm.lathe:gemm --strategy auto --model openmp";
}
