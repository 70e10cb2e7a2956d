//! The codes of this crate: E0301 to E0309 for tree text, from E0310 on for the verifier.

use lathe_diagnostics::Code;

/// A character or quoted text that means nothing.
pub const BAD_TOKEN: Code = Code("E0301");
/// Something else was expected here.
pub const SYNTAX: Code = Code("E0302");
/// A name that nothing in scope has.
pub const UNKNOWN_NAME: Code = Code("E0303");
/// Brackets, blocks or operators nest too deep.
pub const TOO_DEEP: Code = Code("E0304");
/// One name or number for two things.
pub const BOUND_TWICE: Code = Code("E0305");
/// A number that does not fit, or does not say its type.
pub const BAD_NUMBER: Code = Code("E0306");
/// A variable is used out of its scope.
pub const VAR_NOT_IN_SCOPE: Code = Code("E0310");
/// A buffer is used out of its scope.
pub const BUF_NOT_IN_SCOPE: Code = Code("E0311");
/// One number for two binders.
pub const ID_TWICE: Code = Code("E0312");
/// A binder's number is not below the function's counter.
pub const ID_NOT_COUNTED: Code = Code("E0313");
/// Operands or result of an operation have the wrong types.
pub const OPERAND_TYPES: Code = Code("E0314");
/// A condition is no `bool`.
pub const NOT_BOOL: Code = Code("E0315");
/// A bound or an extent is no `index`.
pub const NOT_INDEX: Code = Code("E0316");
/// A subscript is no `index`.
pub const SUBSCRIPT_TYPE: Code = Code("E0317");
/// As many subscripts as the view has dimensions.
pub const SUBSCRIPT_COUNT: Code = Code("E0318");
/// A value goes to a place of another type.
pub const VALUE_TYPE: Code = Code("E0319");
/// Targets and values do not pair up.
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
/// An `in` parameter is written.
pub const INPUT_WRITTEN: Code = Code("E0326");
/// A compute combines with two operators.
pub const TWO_OPERATORS: Code = Code("E0327");
/// A barrier without its parallel loop.
pub const BARRIER: Code = Code("E0328");
/// A wait for what is no token.
pub const WAIT: Code = Code("E0329");
/// A call of a function that the module does not have.
pub const UNKNOWN_FUNCTION: Code = Code("E0330");
/// Arguments do not fit the function called.
pub const CALL_ARGUMENTS: Code = Code("E0331");
/// An executor in a plain tree.
pub const PLAIN_EXECUTOR: Code = Code("E0332");
/// A space or layout in a plain tree.
pub const PLAIN_STORAGE: Code = Code("E0333");
/// Machine detail before its stage.
pub const MACHINE_ONLY: Code = Code("E0334");
/// A function with a result that is not pure.
pub const RESULT: Code = Code("E0335");
/// Contraction of what is no sum of floats.
pub const CONTRACT: Code = Code("E0336");
/// A layout that is none.
pub const BAD_LAYOUT: Code = Code("E0337");
/// A view that is none.
pub const BAD_VIEW: Code = Code("E0338");
/// A combine operator that is none.
pub const OP_TYPE: Code = Code("E0339");
/// A constant that its type does not have.
pub const BAD_CONSTANT: Code = Code("E0340");
/// A scalar parameter that is an output.
pub const SCALAR_OUTPUT: Code = Code("E0341");
/// A size that is no `index`.
pub const SIZE_TYPE: Code = Code("E0342");
/// An instance that is no `index`.
pub const INSTANCE_TYPE: Code = Code("E0343");
/// An item under another name, or a struct that is not the module's.
pub const BAD_MODULE: Code = Code("E0344");
