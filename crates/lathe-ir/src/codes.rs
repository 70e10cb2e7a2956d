//! The codes of this crate: E0301 to E0309 for tree text, from E0310 on for the verifier. The programs
//! that show them are its file tests.

use lathe_diagnostics::{Code, CodeInfo};

/// An invalid character or quoted string.
pub const BAD_TOKEN: Code = Code("E0301");
/// Something else was expected.
pub const SYNTAX: Code = Code("E0302");
/// An unknown name.
pub const UNKNOWN_NAME: Code = Code("E0303");
/// Brackets, blocks or operations nest too deep.
pub const TOO_DEEP: Code = Code("E0304");
/// One name for two items.
pub const BOUND_TWICE: Code = Code("E0305");
/// A number that does not fit, or has no type.
pub const BAD_NUMBER: Code = Code("E0306");
/// A variable is used out of its scope.
pub const VAR_NOT_IN_SCOPE: Code = Code("E0310");
/// A buffer is used out of its scope.
pub const BUF_NOT_IN_SCOPE: Code = Code("E0311");
/// Two binders with the same number.
pub const ID_TWICE: Code = Code("E0312");
/// A number that the counter would assign again.
pub const ID_NOT_COUNTED: Code = Code("E0313");
/// Operands or result of an operation have wrong types.
pub const OPERAND_TYPES: Code = Code("E0314");
/// A condition is not a bool.
pub const NOT_BOOL: Code = Code("E0315");
/// A bound or an extent is not an index.
pub const NOT_INDEX: Code = Code("E0316");
/// A subscript is not an index.
pub const SUBSCRIPT_TYPE: Code = Code("E0317");
/// The wrong number of subscripts.
pub const SUBSCRIPT_COUNT: Code = Code("E0318");
/// A value is assigned to something of another type.
pub const VALUE_TYPE: Code = Code("E0319");
/// The numbers of targets and values differ.
pub const REDUCE_COUNTS: Code = Code("E0320");
/// A combine operator that the module does not declare.
pub const UNKNOWN_OP: Code = Code("E0321");
/// A combine operator is not defined on the types.
pub const REDUCE_TYPES: Code = Code("E0322");
/// A loop's step is not positive.
pub const LOOP_STEP: Code = Code("E0323");
/// A vector loop without lanes.
pub const VECTOR_WIDTH: Code = Code("E0324");
/// Registers or stack of unknown size.
pub const EXTENT_NOT_CONSTANT: Code = Code("E0325");
/// An in parameter is written.
pub const INPUT_WRITTEN: Code = Code("E0326");
/// A compute combines with two operators.
pub const TWO_OPERATORS: Code = Code("E0327");
/// A barrier outside of its parallel loop.
pub const BARRIER: Code = Code("E0328");
/// `async` or `wait` on a token that is not this strand's own.
pub const TOKEN: Code = Code("E0329");
/// A call of a function that the module does not have.
pub const UNKNOWN_FUNCTION: Code = Code("E0330");
/// The arguments do not match the called function.
pub const CALL_ARGUMENTS: Code = Code("E0331");
/// An executor in a plain tree.
pub const PLAIN_EXECUTOR: Code = Code("E0332");
/// A space or layout in a plain tree.
pub const PLAIN_STORAGE: Code = Code("E0333");
/// Machine detail before its stage.
pub const MACHINE_ONLY: Code = Code("E0334");
/// A function with a result that is not pure.
pub const RESULT: Code = Code("E0335");
/// Contraction of what is not a sum of floats.
pub const CONTRACT: Code = Code("E0336");
/// An invalid layout.
pub const BAD_LAYOUT: Code = Code("E0337");
/// An invalid view.
pub const BAD_VIEW: Code = Code("E0338");
/// An invalid combine operator.
pub const OP_TYPE: Code = Code("E0339");
/// A constant that its type cannot represent.
pub const BAD_CONSTANT: Code = Code("E0340");
/// A scalar parameter that is an output.
pub const SCALAR_OUTPUT: Code = Code("E0341");
/// A size that is not an index.
pub const SIZE_TYPE: Code = Code("E0342");
/// An instance that is not an index.
pub const INSTANCE_TYPE: Code = Code("E0343");
/// An inconsistent module.
pub const BAD_MODULE: Code = Code("E0344");
/// Lanes that cannot combine in order.
pub const LANES_IN_ORDER: Code = Code("E0345");
/// An invalid memory order of an atomic.
pub const ATOMIC_ORDER: Code = Code("E0346");
/// A function that does more than it declares.
pub const UNDECLARED: Code = Code("E0347");
/// An invalid effect.
pub const BAD_EFFECT: Code = Code("E0348");
/// An invalid global.
pub const BAD_GLOBAL: Code = Code("E0349");
/// The address of something without an alias class.
pub const NO_CLASS: Code = Code("E0350");

/// What each code means, with programs in tree text.
pub static CODES: &[CodeInfo] = &[
    CodeInfo {
        code: BAD_TOKEN,
        title: "an invalid character or quoted string",
        explanation: "Tree text has names, numbers, `'labels'`, `\"texts\"`, backquoted names and \
                      a few signs. A quoted string ends on its line and may use the escapes `\\n \\t \\r \\\\ \
                      \\u{…}` and its own quote.",
        wrong: include_str!("../tests/parse/e0301_wrong.tree"),
        right: include_str!("../tests/parse/e0301_right.tree"),
    },
    CodeInfo {
        code: SYNTAX,
        title: "something else was expected",
        explanation: "The message lists what would be valid at this place. A reserved word is a \
                      name only in backquotes; comparisons do not chain; a label is followed by its instance \
                      and a colon.",
        wrong: include_str!("../tests/parse/e0302_wrong.tree"),
        right: include_str!("../tests/parse/e0302_right.tree"),
    },
    CodeInfo {
        code: UNKNOWN_NAME,
        title: "an unknown name",
        explanation: "Names refer to sizes, parameters, loops, `let`s and `alloc`s around the place of use, \
                      structs declared before it, and fields. `i%8` means the binder `i` with the number 8; \
                      the remainder is written with spaces. A deliberate reference to something out of scope gives its type: \
                      `%8:index`, `@3:f32[i]`.",
        wrong: include_str!("../tests/parse/e0303_wrong.tree"),
        right: include_str!("../tests/parse/e0303_right.tree"),
    },
    CodeInfo {
        code: TOO_DEEP,
        title: "brackets, blocks or operations nest too deep",
        explanation: "Tree walks recurse, so the parser limits nesting depth, the \
                      height of expressions and the number of scalars in a type. Bind parts of a large expression \
                      before the statement: `with $1 = … in`.",
        wrong: include_str!("../tests/parse/e0304_wrong.tree"),
        right: include_str!("../tests/parse/e0304_right.tree"),
    },
    CodeInfo {
        code: BOUND_TWICE,
        title: "one name for two items",
        explanation: "Structs, operators and functions of a module have names of their own, and so has each \
                      shared expression `$n` of a statement.",
        wrong: include_str!("../tests/parse/e0305_wrong.tree"),
        right: include_str!("../tests/parse/e0305_right.tree"),
    },
    CodeInfo {
        code: BAD_NUMBER,
        title: "a number that does not fit, or has no type",
        explanation: "Integers without a type are `index`; all others are written with their type, as \
                      in `3:i32`. Floats always have a type, and a point or an exponent: `3.0:f32`. Infinity is `inf:f32`.",
        wrong: include_str!("../tests/parse/e0306_wrong.tree"),
        right: include_str!("../tests/parse/e0306_right.tree"),
    },
    CodeInfo {
        code: VAR_NOT_IN_SCOPE,
        title: "a variable is used out of its scope",
        explanation: "A loop's variable lives in its body, a `let` in the rest of its block, a dimension of \
                      a compute in the compute, a token after its `async` to the end of the block.",
        wrong: include_str!("../tests/verify/e0310_wrong.tree"),
        right: include_str!("../tests/verify/e0310_right.tree"),
    },
    CodeInfo {
        code: BUF_NOT_IN_SCOPE,
        title: "a buffer is used out of its scope",
        explanation: "A local buffer lives in the body of its `alloc`. A step that moves code must move or \
                      enlarge the allocation too.",
        wrong: include_str!("../tests/verify/e0311_wrong.tree"),
        right: include_str!("../tests/verify/e0311_right.tree"),
    },
    CodeInfo {
        code: ID_TWICE,
        title: "two binders with the same number",
        explanation: "Numbers identify variables and buffers and are unique within a \
                      function. Duplicated code gets fresh numbers (`visit::refresh`).",
        wrong: include_str!("../tests/verify/e0312_wrong.tree"),
        right: include_str!("../tests/verify/e0312_right.tree"),
    },
    CodeInfo {
        code: ID_NOT_COUNTED,
        title: "a number that the counter would assign again",
        explanation: "A function's counter (`next` in the text) lies above every number in it, so that fresh \
                      numbers are fresh.",
        wrong: include_str!("../tests/verify/e0313_wrong.tree"),
        right: include_str!("../tests/verify/e0313_right.tree"),
    },
    CodeInfo {
        code: OPERAND_TYPES,
        title: "the operands or the result of an operation have wrong types",
        explanation: "The operands of an operation have the same type; there are no implicit conversions. `/` is for \
                      floats, `//`, `%` and shifts for integers, `and` and `or` for `bool` and integers. A \
                      conversion is written `f32(x)`.",
        wrong: include_str!("../tests/verify/e0314_wrong.tree"),
        right: include_str!("../tests/verify/e0314_right.tree"),
    },
    CodeInfo {
        code: NOT_BOOL,
        title: "a condition is not a bool",
        explanation: "Conditions of `if`, `while`, `check`, `assume`, `select` and guards must be \
                      of type `bool`; write a comparison.",
        wrong: include_str!("../tests/verify/e0315_wrong.tree"),
        right: include_str!("../tests/verify/e0315_right.tree"),
    },
    CodeInfo {
        code: NOT_INDEX,
        title: "a bound or an extent is not an index",
        explanation: "Loops count in `index`, the mathematical integers; their bounds and the extents of \
                      buffers are of that type. Convert with `index(n)`.",
        wrong: include_str!("../tests/verify/e0316_wrong.tree"),
        right: include_str!("../tests/verify/e0316_right.tree"),
    },
    CodeInfo {
        code: SUBSCRIPT_TYPE,
        title: "a subscript is not an index",
        explanation: "Subscripts are of type `index`; loaded integers must be converted: \
                      `B[index(I[i])]`.",
        wrong: include_str!("../tests/verify/e0317_wrong.tree"),
        right: include_str!("../tests/verify/e0317_right.tree"),
    },
    CodeInfo {
        code: SUBSCRIPT_COUNT,
        title: "the wrong number of subscripts",
        explanation: "An access has one subscript for each dimension of its view, none for a buffer without \
                      dimensions: `m[]`.",
        wrong: include_str!("../tests/verify/e0318_wrong.tree"),
        right: include_str!("../tests/verify/e0318_right.tree"),
    },
    CodeInfo {
        code: VALUE_TYPE,
        title: "a value is assigned to something of another type",
        explanation: "A value that is stored, combined or bound has the type of the element or \
                      binder; conversions are explicit.",
        wrong: include_str!("../tests/verify/e0319_wrong.tree"),
        right: include_str!("../tests/verify/e0319_right.tree"),
    },
    CodeInfo {
        code: REDUCE_COUNTS,
        title: "the numbers of targets and values differ",
        explanation: "A reduction has as many values as targets, and at least one; `argmin` and `argmax` \
                      have two, the value and its index.",
        wrong: include_str!("../tests/verify/e0320_wrong.tree"),
        right: include_str!("../tests/verify/e0320_right.tree"),
    },
    CodeInfo {
        code: UNKNOWN_OP,
        title: "a combine operator that the module does not declare",
        explanation: "Operators are `sum`, `prod`, `min`, `max`, `all`, `any`, `argmin`, `argmax`, or \
                      declared in the module by `op`.",
        wrong: include_str!("../tests/verify/e0321_wrong.tree"),
        right: include_str!("../tests/verify/e0321_right.tree"),
    },
    CodeInfo {
        code: REDUCE_TYPES,
        title: "a combine operator is not defined on the types",
        explanation: "`sum`, `prod`, `min` and `max` combine numbers, `all` and `any` booleans, `argmin` and \
                      `argmax` a number and an integer, a declared operator values of its type, either \
                      whole or with one target per component.",
        wrong: include_str!("../tests/verify/e0322_wrong.tree"),
        right: include_str!("../tests/verify/e0322_right.tree"),
    },
    CodeInfo {
        code: LOOP_STEP,
        title: "a loop's step is not positive",
        explanation: "Loops count upwards. A descending loop runs over `0..n` and uses `n - 1 - i`.",
        wrong: include_str!("../tests/verify/e0323_wrong.tree"),
        right: include_str!("../tests/verify/e0323_right.tree"),
    },
    CodeInfo {
        code: VECTOR_WIDTH,
        title: "a vector loop without lanes",
        explanation: "The width of a vector loop is at least 1.",
        wrong: include_str!("../tests/verify/e0324_wrong.tree"),
        right: include_str!("../tests/verify/e0324_right.tree"),
    },
    CodeInfo {
        code: EXTENT_NOT_CONSTANT,
        title: "registers or stack of unknown size",
        explanation: "Buffers in `register` and `stack` have constant extents, since engines keep them in \
                      registers or in a frame.",
        wrong: include_str!("../tests/verify/e0325_wrong.tree"),
        right: include_str!("../tests/verify/e0325_right.tree"),
    },
    CodeInfo {
        code: INPUT_WRITTEN,
        title: "an `in` parameter is written",
        explanation: "Only `out` and `inout` parameters are written; this also holds for arguments of calls.",
        wrong: include_str!("../tests/verify/e0326_wrong.tree"),
        right: include_str!("../tests/verify/e0326_right.tree"),
    },
    CodeInfo {
        code: TWO_OPERATORS,
        title: "a compute combines with two operators",
        explanation: "All reduced and scanned dimensions of a compute share one operator. Nested different \
                      reductions are several computes with a temporary between them.",
        wrong: include_str!("../tests/verify/e0327_wrong.tree"),
        right: include_str!("../tests/verify/e0327_right.tree"),
    },
    CodeInfo {
        code: BARRIER,
        title: "a barrier outside of its parallel loop",
        explanation: "A barrier synchronizes the iterations of a parallel loop around it and names that \
                      loop.",
        wrong: include_str!("../tests/verify/e0328_wrong.tree"),
        right: include_str!("../tests/verify/e0328_right.tree"),
    },
    CodeInfo {
        code: TOKEN,
        title: "a token that is not this strand's own",
        explanation: "`async` and `wait` name a token that `token t` opened around them. A token belongs \
                      to the strand that opened it: each iteration of a parallel loop, and each asynchronous body, opens its own.",
        wrong: include_str!("../tests/verify/e0329_wrong.tree"),
        right: include_str!("../tests/verify/e0329_right.tree"),
    },
    CodeInfo {
        code: UNKNOWN_FUNCTION,
        title: "a call of a function that the module does not have",
        explanation: "Calls name functions of the same module; declare it, or correct the name.",
        wrong: include_str!("../tests/verify/e0330_wrong.tree"),
        right: include_str!("../tests/verify/e0330_right.tree"),
    },
    CodeInfo {
        code: CALL_ARGUMENTS,
        title: "the arguments do not match the called function",
        explanation: "A call has one argument for each parameter: a value of its type for a scalar, a view \
                      (`&A`) of its rank and element type for an array. In an expression only functions with \
                      a result and scalar parameters can be called.",
        wrong: include_str!("../tests/verify/e0331_wrong.tree"),
        right: include_str!("../tests/verify/e0331_right.tree"),
    },
    CodeInfo {
        code: PLAIN_EXECUTOR,
        title: "an executor in a plain tree",
        explanation: "Plain trees have serial loops only. The steps that give a loop an executor raise the \
                      stage to `scheduled`.",
        wrong: include_str!("../tests/verify/e0332_wrong.tree"),
        right: include_str!("../tests/verify/e0332_right.tree"),
    },
    CodeInfo {
        code: PLAIN_STORAGE,
        title: "a space or layout in a plain tree",
        explanation: "Buffers of plain trees are row-major in `host`, or scalars in `register`. Steps that \
                      choose storage raise the stage to `scheduled`.",
        wrong: include_str!("../tests/verify/e0333_wrong.tree"),
        right: include_str!("../tests/verify/e0333_right.tree"),
    },
    CodeInfo {
        code: MACHINE_ONLY,
        title: "machine detail before its stage",
        explanation: "Fragments belong to the stage `machine`, so that analysis and differentiation never meet \
                      them.",
        wrong: include_str!("../tests/verify/e0334_wrong.tree"),
        right: include_str!("../tests/verify/e0334_right.tree"),
    },
    CodeInfo {
        code: RESULT,
        title: "a function with a result that is not pure",
        explanation: "A function with a result is an expression over `in` parameters and constant globals; it has no \
                      statements, no outputs, and no effects except that it may fail or not terminate.",
        wrong: include_str!("../tests/verify/e0335_wrong.tree"),
        right: include_str!("../tests/verify/e0335_right.tree"),
    },
    CodeInfo {
        code: CONTRACT,
        title: "contraction of something other than a floating-point sum",
        explanation: "`contract` means that a product is added with one rounding (fused multiply-add), so \
                      it requires a `sum` of floats.",
        wrong: include_str!("../tests/verify/e0336_wrong.tree"),
        right: include_str!("../tests/verify/e0336_right.tree"),
    },
    CodeInfo {
        code: BAD_LAYOUT,
        title: "an invalid layout",
        explanation: "Each step of a layout works on the dimensions that result from the steps before it: `permute` \
                      orders all of them, `tile` makes two out of one, sizes are positive, `swizzle` is by a \
                      power of two and by another dimension.",
        wrong: include_str!("../tests/verify/e0337_wrong.tree"),
        right: include_str!("../tests/verify/e0337_right.tree"),
    },
    CodeInfo {
        code: BAD_VIEW,
        title: "an invalid view",
        explanation: "A `slice` has an offset and a step for each dimension; a `reshape` splits one \
                      dimension into several; alignments are powers of two; pointers are 64-bit integers.",
        wrong: include_str!("../tests/verify/e0338_wrong.tree"),
        right: include_str!("../tests/verify/e0338_right.tree"),
    },
    CodeInfo {
        code: OP_TYPE,
        title: "an invalid combine operator",
        explanation: "The value of an operator and its identity are of the operator's type; the identity \
                      reads no memory.",
        wrong: include_str!("../tests/verify/e0339_wrong.tree"),
        right: include_str!("../tests/verify/e0339_right.tree"),
    },
    CodeInfo {
        code: BAD_CONSTANT,
        title: "a constant that its type cannot represent",
        explanation: "Constants must be in the range of their type, and floats exactly representable in it.",
        wrong: include_str!("../tests/verify/e0340_wrong.tree"),
        right: include_str!("../tests/verify/e0340_right.tree"),
    },
    CodeInfo {
        code: SCALAR_OUTPUT,
        title: "a scalar parameter that is an output",
        explanation: "Scalar parameters are values. A scalar output is an array without dimensions.",
        wrong: include_str!("../tests/verify/e0341_wrong.tree"),
        right: include_str!("../tests/verify/e0341_right.tree"),
    },
    CodeInfo {
        code: SIZE_TYPE,
        title: "a size that is not an index",
        explanation: "Sizes are the extents of the arguments and of type `index`.",
        wrong: include_str!("../tests/verify/e0342_wrong.tree"),
        right: include_str!("../tests/verify/e0342_right.tree"),
    },
    CodeInfo {
        code: INSTANCE_TYPE,
        title: "an instance that is not an index",
        explanation: "The instance of a statement says which iteration of its label runs here, in `index` \
                      expressions.",
        wrong: include_str!("../tests/verify/e0343_wrong.tree"),
        right: include_str!("../tests/verify/e0343_right.tree"),
    },
    CodeInfo {
        code: BAD_MODULE,
        title: "an inconsistent module",
        explanation: "Items are stored in the module under their own names, and every struct in a \
                      type is declared by the module. Only a program that builds trees itself can break this, so there is no text \
                      with this error.",
        wrong: "",
        right: include_str!("../tests/verify/e0343_right.tree"),
    },
    CodeInfo {
        code: LANES_IN_ORDER,
        title: "lanes that cannot combine in order",
        explanation: "A loop run by `inscan(n)` has exactly `n` iterations. Each iteration first combines \
                      into one scalar by a built-in operator, and then only stores: each iteration to its own element, each \
                      store to its own array, and none to an array that the loop reads.",
        wrong: include_str!("../tests/verify/e0345_wrong.tree"),
        right: include_str!("../tests/verify/e0345_right.tree"),
    },
    CodeInfo {
        code: ATOMIC_ORDER,
        title: "an invalid memory order of an atomic",
        explanation: "An atomic load cannot `release`, and an atomic store cannot \
                      `acquire`. `relaxed` and `seqcst` are valid for all, `inorder` for updates.",
        wrong: include_str!("../tests/verify/e0346_wrong.tree"),
        right: include_str!("../tests/verify/e0346_right.tree"),
    },
    CodeInfo {
        code: UNDECLARED,
        title: "a function that does more than it declares",
        explanation: "`effects (…)` after the parameters lists everything that a function reads, writes or reduces (its \
                      array parameters, globals and alias classes), and its other effects (`fail`, `diverge`, `alloc`, `sync`, `atomic`, \
                      `io`). Without the list, effects are inferred. The function given as the meaning of an external \
                      function must obey the same list.",
        wrong: include_str!("../tests/verify/e0347_wrong.tree"),
        right: include_str!("../tests/verify/e0347_right.tree"),
    },
    CodeInfo {
        code: BAD_EFFECT,
        title: "an invalid effect",
        explanation: "An effect names an array of the parameters, a global or an alias class; nothing `in` is written. A region has \
                      one range per dimension, over sizes and scalar parameters.",
        wrong: include_str!("../tests/verify/e0348_wrong.tree"),
        right: include_str!("../tests/verify/e0348_right.tree"),
    },
    CodeInfo {
        code: BAD_GLOBAL,
        title: "an invalid global",
        explanation: "A global has constant extents and either one constant per element, `zero`, or no values; in `constant` it has \
                      values. It outlives calls, so it does not live in registers, on the stack or in shared memory.",
        wrong: include_str!("../tests/verify/e0349_wrong.tree"),
        right: include_str!("../tests/verify/e0349_right.tree"),
    },
    CodeInfo {
        code: NO_CLASS,
        title: "the address of something without an alias class",
        explanation: "Pointers point to parameters and globals with an alias class (`alias C`): only these may be \
                      accessed through `deref(p, C)`.",
        wrong: include_str!("../tests/verify/e0350_wrong.tree"),
        right: include_str!("../tests/verify/e0350_right.tree"),
    },
];
