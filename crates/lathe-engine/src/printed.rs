//! Trees that objects hold as text. Places in that text are none of the user's files, so that no message shows them.

use lathe_diagnostics::{Diagnostic, FileId};
use lathe_ir::text::parse_module;
use lathe_ir::{Function, Module, text::print_function};

/// The text of an object: a file that no map of sources has.
const PRINTED: FileId = FileId(u32::MAX);

/// The tree of an object.
///
/// # Errors
/// Its messages; none has a place.
pub fn parse(text: &str) -> Result<Module, Vec<Diagnostic>> {
    parse_module(PRINTED, text).map_err(|all| all.into_iter().map(unplaced).collect())
}

/// A message about a tree that was printed, with the places that are in source files.
pub fn unplaced(mut d: Diagnostic) -> Diagnostic {
    d.marks.retain(|m| m.span.file != PRINTED);
    d
}

/// Whether a function is the same as one of an object, so that its places are those of the object's, too.
pub fn same(a: &Function, b: &Function) -> bool {
    print_function(a) == print_function(b)
}
