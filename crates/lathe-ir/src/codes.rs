//! The codes of this crate: E0301 to E0309 for tree text, from E0310 on for the verifier. The programs
//! that show them are its file tests.

use lathe_diagnostics::Code;

lathe_diagnostics::codes! {
    /// Tree text has names, numbers, `'labels'`, `"texts"`, backquoted names and a few signs. A quoted string
    /// ends on its line and may use the escapes `\n \t \r \\ \u{…}` and its own quote.
    BAD_TOKEN = Code("E0301"), "an invalid character or quoted string",
        wrong: include_str!("../tests/parse/e0301_wrong.tree"),
        right: include_str!("../tests/parse/e0301_right.tree");

    /// The message lists what would be valid at this place. A reserved word is a name only in backquotes;
    /// comparisons do not chain; a label is followed by its instance and a colon.
    SYNTAX = Code("E0302"), "something else was expected",
        wrong: include_str!("../tests/parse/e0302_wrong.tree"),
        right: include_str!("../tests/parse/e0302_right.tree");

    /// Names refer to sizes, parameters, loops, `let`s and `alloc`s around the place of use, structs declared
    /// before it, and fields. `i%8` means the binder `i` with the number 8; the remainder is written with
    /// spaces. A deliberate reference to something out of scope gives its type: `%8:index`, `@3:f32[i]`.
    UNKNOWN_NAME = Code("E0303"), "an unknown name",
        wrong: include_str!("../tests/parse/e0303_wrong.tree"),
        right: include_str!("../tests/parse/e0303_right.tree");

    /// Tree walks recurse, so the parser limits nesting depth, the height of expressions and the number of
    /// scalars in a type. Bind parts of a large expression before the statement: `with $1 = … in`.
    TOO_DEEP = Code("E0304"), "brackets, blocks or operations nest too deep",
        wrong: include_str!("../tests/parse/e0304_wrong.tree"),
        right: include_str!("../tests/parse/e0304_right.tree");

    /// Structs, operators and functions of a module have names of their own, and so has each shared expression
    /// `$n` of a statement.
    BOUND_TWICE = Code("E0305"), "one name for two items",
        wrong: include_str!("../tests/parse/e0305_wrong.tree"),
        right: include_str!("../tests/parse/e0305_right.tree");

    /// Integers without a type are `index`; all others are written with their type, as in `3:i32`. Floats
    /// always have a type, and a point or an exponent: `3.0:f32`. Infinity is `inf:f32`.
    BAD_NUMBER = Code("E0306"), "a number that does not fit, or has no type",
        wrong: include_str!("../tests/parse/e0306_wrong.tree"),
        right: include_str!("../tests/parse/e0306_right.tree");

    /// A loop's variable lives in its body, a `let` in the rest of its block, a dimension of a compute in the
    /// compute, a token after its `async` to the end of the block.
    VAR_NOT_IN_SCOPE = Code("E0310"), "a variable is used out of its scope",
        wrong: include_str!("../tests/verify/e0310_wrong.tree"),
        right: include_str!("../tests/verify/e0310_right.tree");

    /// A local buffer lives in the body of its `alloc`. A step that moves code must move or enlarge the
    /// allocation too.
    BUF_NOT_IN_SCOPE = Code("E0311"), "a buffer is used out of its scope",
        wrong: include_str!("../tests/verify/e0311_wrong.tree"),
        right: include_str!("../tests/verify/e0311_right.tree");

    /// Numbers identify variables and buffers and are unique within a function. Duplicated code gets fresh
    /// numbers (`visit::refresh`).
    ID_TWICE = Code("E0312"), "two binders with the same number",
        wrong: include_str!("../tests/verify/e0312_wrong.tree"),
        right: include_str!("../tests/verify/e0312_right.tree");

    /// A function's counter (`next` in the text) lies above every number in it, so that fresh numbers are
    /// fresh.
    ID_NOT_COUNTED = Code("E0313"), "a number that the counter would assign again",
        wrong: include_str!("../tests/verify/e0313_wrong.tree"),
        right: include_str!("../tests/verify/e0313_right.tree");

    /// The operands of an operation have the same type; there are no implicit conversions. `/` is for floats,
    /// `//`, `%` and shifts for integers, `and` and `or` for `bool` and integers. A conversion is written
    /// `f32(x)`.
    OPERAND_TYPES = Code("E0314"), "the operands or the result of an operation have wrong types",
        wrong: include_str!("../tests/verify/e0314_wrong.tree"),
        right: include_str!("../tests/verify/e0314_right.tree");

    /// Conditions of `if`, `while`, `check`, `assume`, `select` and guards must be of type `bool`; write a
    /// comparison.
    NOT_BOOL = Code("E0315"), "a condition is not a bool",
        wrong: include_str!("../tests/verify/e0315_wrong.tree"),
        right: include_str!("../tests/verify/e0315_right.tree");

    /// Loops count in `index`, the mathematical integers; their bounds and the extents of buffers are of that
    /// type. Convert with `index(n)`.
    NOT_INDEX = Code("E0316"), "a bound or an extent is not an index",
        wrong: include_str!("../tests/verify/e0316_wrong.tree"),
        right: include_str!("../tests/verify/e0316_right.tree");

    /// Subscripts are of type `index`; loaded integers must be converted: `B[index(I[i])]`.
    SUBSCRIPT_TYPE = Code("E0317"), "a subscript is not an index",
        wrong: include_str!("../tests/verify/e0317_wrong.tree"),
        right: include_str!("../tests/verify/e0317_right.tree");

    /// An access has one subscript for each dimension of its view, none for a buffer without dimensions: `m[]`.
    SUBSCRIPT_COUNT = Code("E0318"), "the wrong number of subscripts",
        wrong: include_str!("../tests/verify/e0318_wrong.tree"),
        right: include_str!("../tests/verify/e0318_right.tree");

    /// A value that is stored, combined or bound has the type of the element or binder; conversions are
    /// explicit.
    VALUE_TYPE = Code("E0319"), "a value is assigned to something of another type",
        wrong: include_str!("../tests/verify/e0319_wrong.tree"),
        right: include_str!("../tests/verify/e0319_right.tree");

    /// A reduction has as many values as targets, and at least one; `argmin` and `argmax` have two, the value
    /// and its index.
    REDUCE_COUNTS = Code("E0320"), "the numbers of targets and values differ",
        wrong: include_str!("../tests/verify/e0320_wrong.tree"),
        right: include_str!("../tests/verify/e0320_right.tree");

    /// Operators are `sum`, `prod`, `min`, `max`, `all`, `any`, `argmin`, `argmax`, or declared in the module
    /// by `op`.
    UNKNOWN_OP = Code("E0321"), "a combine operator that the module does not declare",
        wrong: include_str!("../tests/verify/e0321_wrong.tree"),
        right: include_str!("../tests/verify/e0321_right.tree");

    /// `sum`, `prod`, `min` and `max` combine numbers, `all` and `any` booleans, `argmin` and `argmax` a number
    /// and an integer, a declared operator values of its type, either whole or with one target per component.
    REDUCE_TYPES = Code("E0322"), "a combine operator is not defined on the types",
        wrong: include_str!("../tests/verify/e0322_wrong.tree"),
        right: include_str!("../tests/verify/e0322_right.tree");

    /// Loops count upwards. A descending loop runs over `0..n` and uses `n - 1 - i`.
    LOOP_STEP = Code("E0323"), "a loop's step is not positive",
        wrong: include_str!("../tests/verify/e0323_wrong.tree"),
        right: include_str!("../tests/verify/e0323_right.tree");

    /// The width of a vector loop is at least 1.
    VECTOR_WIDTH = Code("E0324"), "a vector loop without lanes",
        wrong: include_str!("../tests/verify/e0324_wrong.tree"),
        right: include_str!("../tests/verify/e0324_right.tree");

    /// Buffers in `register` and `stack` have constant extents, since engines keep them in registers or in a
    /// frame.
    EXTENT_NOT_CONSTANT = Code("E0325"), "registers or stack of unknown size",
        wrong: include_str!("../tests/verify/e0325_wrong.tree"),
        right: include_str!("../tests/verify/e0325_right.tree");

    /// Only `out` and `inout` parameters are written; this also holds for arguments of calls.
    INPUT_WRITTEN = Code("E0326"), "an `in` parameter is written",
        wrong: include_str!("../tests/verify/e0326_wrong.tree"),
        right: include_str!("../tests/verify/e0326_right.tree");

    /// All reduced and scanned dimensions of a compute share one operator. Nested different reductions are
    /// several computes with a temporary between them.
    TWO_OPERATORS = Code("E0327"), "a compute combines with two operators",
        wrong: include_str!("../tests/verify/e0327_wrong.tree"),
        right: include_str!("../tests/verify/e0327_right.tree");

    /// A barrier synchronizes the iterations of a parallel loop around it and names that loop.
    BARRIER = Code("E0328"), "a barrier outside of its parallel loop",
        wrong: include_str!("../tests/verify/e0328_wrong.tree"),
        right: include_str!("../tests/verify/e0328_right.tree");

    /// `async` and `wait` name a token that `token t` opened around them. A token belongs to the strand that
    /// opened it: each iteration of a parallel loop, and each asynchronous body, opens its own.
    TOKEN = Code("E0329"), "a token that is not this strand's own",
        wrong: include_str!("../tests/verify/e0329_wrong.tree"),
        right: include_str!("../tests/verify/e0329_right.tree");

    /// Calls name functions of the same module; declare it, or correct the name.
    UNKNOWN_FUNCTION = Code("E0330"), "a call of a function that the module does not have",
        wrong: include_str!("../tests/verify/e0330_wrong.tree"),
        right: include_str!("../tests/verify/e0330_right.tree");

    /// A call has one argument for each parameter: a value of its type for a scalar, a view (`&A`) of its rank
    /// and element type for an array. In an expression only functions with a result and scalar parameters can
    /// be called.
    CALL_ARGUMENTS = Code("E0331"), "the arguments do not match the called function",
        wrong: include_str!("../tests/verify/e0331_wrong.tree"),
        right: include_str!("../tests/verify/e0331_right.tree");

    /// Plain trees have serial loops only. The steps that give a loop an executor raise the stage to
    /// `scheduled`.
    PLAIN_EXECUTOR = Code("E0332"), "an executor in a plain tree",
        wrong: include_str!("../tests/verify/e0332_wrong.tree"),
        right: include_str!("../tests/verify/e0332_right.tree");

    /// Buffers of plain trees are row-major in `host`, or scalars in `register`. Steps that choose storage
    /// raise the stage to `scheduled`.
    PLAIN_STORAGE = Code("E0333"), "a space or layout in a plain tree",
        wrong: include_str!("../tests/verify/e0333_wrong.tree"),
        right: include_str!("../tests/verify/e0333_right.tree");

    /// Fragments belong to the stage `machine`, so that analysis and differentiation never meet them.
    MACHINE_ONLY = Code("E0334"), "machine detail before its stage",
        wrong: include_str!("../tests/verify/e0334_wrong.tree"),
        right: include_str!("../tests/verify/e0334_right.tree");

    /// A function with a result is an expression over `in` parameters and constant globals; it has no
    /// statements, no outputs, and no effects except that it may fail or not terminate.
    RESULT = Code("E0335"), "a function with a result that is not pure",
        wrong: include_str!("../tests/verify/e0335_wrong.tree"),
        right: include_str!("../tests/verify/e0335_right.tree");

    /// `contract` means that a product is added with one rounding (fused multiply-add), so it requires a `sum`
    /// of floats.
    CONTRACT = Code("E0336"), "contraction of something other than a floating-point sum",
        wrong: include_str!("../tests/verify/e0336_wrong.tree"),
        right: include_str!("../tests/verify/e0336_right.tree");

    /// Each step of a layout works on the dimensions that result from the steps before it: `permute` orders all
    /// of them, `tile` makes two out of one, sizes are positive, `swizzle` is by a power of two and by another
    /// dimension.
    BAD_LAYOUT = Code("E0337"), "an invalid layout",
        wrong: include_str!("../tests/verify/e0337_wrong.tree"),
        right: include_str!("../tests/verify/e0337_right.tree");

    /// A `slice` has an offset and a step for each dimension; a `reshape` splits one dimension into several;
    /// alignments are powers of two; pointers are 64-bit integers.
    BAD_VIEW = Code("E0338"), "an invalid view",
        wrong: include_str!("../tests/verify/e0338_wrong.tree"),
        right: include_str!("../tests/verify/e0338_right.tree");

    /// The value of an operator and its identity are of the operator's type; the identity reads no memory.
    OP_TYPE = Code("E0339"), "an invalid combine operator",
        wrong: include_str!("../tests/verify/e0339_wrong.tree"),
        right: include_str!("../tests/verify/e0339_right.tree");

    /// Constants must be in the range of their type, and floats exactly representable in it.
    BAD_CONSTANT = Code("E0340"), "a constant that its type cannot represent",
        wrong: include_str!("../tests/verify/e0340_wrong.tree"),
        right: include_str!("../tests/verify/e0340_right.tree");

    /// Scalar parameters are values. A scalar output is an array without dimensions.
    SCALAR_OUTPUT = Code("E0341"), "a scalar parameter that is an output",
        wrong: include_str!("../tests/verify/e0341_wrong.tree"),
        right: include_str!("../tests/verify/e0341_right.tree");

    /// Sizes are the extents of the arguments and of type `index`.
    SIZE_TYPE = Code("E0342"), "a size that is not an index",
        wrong: include_str!("../tests/verify/e0342_wrong.tree"),
        right: include_str!("../tests/verify/e0342_right.tree");

    /// The instance of a statement says which iteration of its label runs here, in `index` expressions.
    INSTANCE_TYPE = Code("E0343"), "an instance that is not an index",
        wrong: include_str!("../tests/verify/e0343_wrong.tree"),
        right: include_str!("../tests/verify/e0343_right.tree");

    /// Items are stored in the module under their own names, and every struct in a type is declared by the
    /// module. Only a program that builds trees itself can break this, so there is no text with this error.
    BAD_MODULE = Code("E0344"), "an inconsistent module",
        wrong: "",
        right: include_str!("../tests/verify/e0343_right.tree");

    /// A loop run by `inscan(n)` has exactly `n` iterations. Each iteration first combines into one scalar by a
    /// built-in operator, and then only stores: each iteration to its own element, each store to its own array,
    /// and none to an array that the loop reads.
    LANES_IN_ORDER = Code("E0345"), "lanes that cannot combine in order",
        wrong: include_str!("../tests/verify/e0345_wrong.tree"),
        right: include_str!("../tests/verify/e0345_right.tree");

    /// An atomic load cannot `release`, and an atomic store cannot `acquire`. `relaxed` and `seqcst` are valid
    /// for all, `inorder` for updates.
    ATOMIC_ORDER = Code("E0346"), "an invalid memory order of an atomic",
        wrong: include_str!("../tests/verify/e0346_wrong.tree"),
        right: include_str!("../tests/verify/e0346_right.tree");

    /// `effects (…)` after the parameters lists everything that a function reads, writes or reduces (its array
    /// parameters, globals and alias classes), and its other effects (`fail`, `diverge`, `alloc`, `sync`,
    /// `atomic`, `io`). Without the list, effects are inferred. The function given as the meaning of an
    /// external function must obey the same list.
    UNDECLARED = Code("E0347"), "a function that does more than it declares",
        wrong: include_str!("../tests/verify/e0347_wrong.tree"),
        right: include_str!("../tests/verify/e0347_right.tree");

    /// An effect names an array of the parameters, a global or an alias class; nothing `in` is written. A
    /// region has one range per dimension, over sizes and scalar parameters.
    BAD_EFFECT = Code("E0348"), "an invalid effect",
        wrong: include_str!("../tests/verify/e0348_wrong.tree"),
        right: include_str!("../tests/verify/e0348_right.tree");

    /// A global has constant extents and either one constant per element, `zero`, or no values; in `constant`
    /// it has values. It outlives calls, so it does not live in registers, on the stack or in shared memory.
    BAD_GLOBAL = Code("E0349"), "an invalid global",
        wrong: include_str!("../tests/verify/e0349_wrong.tree"),
        right: include_str!("../tests/verify/e0349_right.tree");

    /// Pointers point to parameters and globals with an alias class (`alias C`): only these may be accessed
    /// through `deref(p, C)`.
    NO_CLASS = Code("E0350"), "the address of something without an alias class",
        wrong: include_str!("../tests/verify/e0350_wrong.tree"),
        right: include_str!("../tests/verify/e0350_right.tree");
}
