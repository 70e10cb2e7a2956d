//! Spans, sets of source places, codes and messages.
//!
//! Every message that a user of Lathe sees is a [`Diagnostic`]. Crates below the command line only
//! build and return them; printing is the business of the outermost crates.

mod nearest;
mod visible;

pub use nearest::nearest;
pub use visible::{Visible, is_obeyed, visible};

use std::fmt;
use std::sync::Arc;

/// A file known to a [`SourceMap`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId(pub u32);

/// A half-open byte range `start..end` of one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Span {
    pub file: FileId,
    pub start: u32,
    pub end: u32,
}

impl Span {
    pub fn new(file: FileId, start: usize, end: usize) -> Span {
        Span { file, start: start as u32, end: end as u32 }
    }

    /// The smallest span that covers both; `self` when they lie in different files.
    pub fn to(self, other: Span) -> Span {
        if self.file != other.file {
            return self;
        }
        Span { file: self.file, start: self.start.min(other.start), end: self.end.max(other.end) }
    }
}

/// A *set* of source places: generated code may stem from several lines (design, section 10).
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Places(Option<Arc<[Span]>>);

impl Places {
    pub fn none() -> Places {
        Places(None)
    }

    pub fn one(span: Span) -> Places {
        Places(Some(Arc::from(vec![span])))
    }

    pub fn spans(&self) -> &[Span] {
        self.0.as_deref().unwrap_or(&[])
    }

    pub fn first(&self) -> Option<Span> {
        self.spans().first().copied()
    }

    /// The union; shares storage when one side already holds the other.
    pub fn union(&self, other: &Places) -> Places {
        if other.spans().iter().all(|s| self.spans().contains(s)) {
            return self.clone();
        }
        let mut all = self.spans().to_vec();
        all.extend_from_slice(other.spans());
        all.sort();
        all.dedup();
        Places(Some(Arc::from(all)))
    }
}

impl fmt::Debug for Places {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.spans()).finish()
    }
}

/// A stable code such as `E0301`; the crate that owns it documents it by [`codes!`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Code(pub &'static str);

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// What `lathe --explain CODE` and the index of error codes show. `wrong` and `right` are whole
/// programs (or command lines) and are run by the tests of the documentation.
#[derive(Clone, Copy, Debug)]
pub struct CodeInfo {
    pub code: Code,
    pub title: &'static str,
    pub explanation: &'static str,
    pub wrong: &'static str,
    pub right: &'static str,
}

/// The codes of a crate: the constants and the table `CODES` of what `lathe --explain` says about them, from one
/// entry each. The comment of an entry is its explanation, one paragraph.
///
/// ```
/// # use lathe_diagnostics::Code;
/// lathe_diagnostics::codes! {
///     /// A kernel of this name exists already.
///     /// Rename one of the two.
///     TWICE = Code("E9901"), "two kernels of one name", wrong: "kernel k() {}\nkernel k() {}", right: "kernel k() {}";
///
///     /// The machine has no memory left.
///     MEMORY = Code("E9902"), "not enough memory";
/// }
/// assert_eq!(CODES[0].code, TWICE);
/// assert_eq!(CODES[0].explanation, "A kernel of this name exists already. Rename one of the two.");
/// assert_eq!(CODES[1].wrong, "");
/// ```
#[macro_export]
macro_rules! codes {
    ($($(#[doc = $line:literal])+ $name:ident = $code:expr, $title:literal
        $(, wrong: $wrong:expr, right: $right:expr)?;)*) => {
        $(
            #[doc = concat!($title, ".\n")]
            $(#[doc = $line])+
            pub const $name: $crate::Code = $code;
        )*

        /// What each code means.
        pub static CODES: &[$crate::CodeInfo] = &[$(
            $crate::CodeInfo {
                code: $name,
                title: $title,
                explanation: concat!($($line),+).trim_ascii_start(),
                wrong: $crate::codes!(@program $($wrong)?),
                right: $crate::codes!(@program $($right)?),
            }
        ),*];
    };
    (@program $program:expr) => { $program };
    (@program) => { "" };
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Severity {
    Error,
    Warning,
    Note,
}

/// A label attached to a place in the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    pub span: Span,
    pub text: String,
}

/// One message: code, what is wrong, where, why, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    pub code: Code,
    pub severity: Severity,
    pub message: String,
    /// The first mark is the primary place.
    pub marks: Vec<Mark>,
    pub notes: Vec<String>,
    pub help: Option<String>,
}

impl Diagnostic {
    pub fn error(code: Code, message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            code,
            severity: Severity::Error,
            message: message.into(),
            marks: Vec::new(),
            notes: Vec::new(),
            help: None,
        }
    }

    pub fn warning(code: Code, message: impl Into<String>) -> Diagnostic {
        Diagnostic { severity: Severity::Warning, ..Diagnostic::error(code, message) }
    }

    pub fn at(mut self, span: Span, text: impl Into<String>) -> Diagnostic {
        self.marks.push(Mark { span, text: text.into() });
        self
    }

    /// Marks every place of a set with the same text.
    pub fn at_places(mut self, places: &Places, text: &str) -> Diagnostic {
        for span in places.spans() {
            self.marks.push(Mark { span: *span, text: text.to_string() });
        }
        self
    }

    pub fn note(mut self, text: impl Into<String>) -> Diagnostic {
        self.notes.push(text.into());
        self
    }

    pub fn help(mut self, text: impl Into<String>) -> Diagnostic {
        self.help = Some(text.into());
        self
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "note",
        };
        write!(f, "{kind}[{}]: {}", self.code, self.message)?;
        for note in &self.notes {
            write!(f, "\n  note: {note}")?;
        }
        if let Some(help) = &self.help {
            write!(f, "\n  help: {help}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Diagnostic {}

/// Names and texts of the files that spans refer to.
#[derive(Clone, Debug, Default)]
pub struct SourceMap {
    files: Vec<(String, Arc<str>)>,
}

impl SourceMap {
    pub fn new() -> SourceMap {
        SourceMap::default()
    }

    pub fn add(&mut self, name: impl Into<String>, text: impl Into<Arc<str>>) -> FileId {
        self.files.push((name.into(), text.into()));
        FileId(self.files.len() as u32 - 1)
    }

    /// The texts of all files, in the order in which they were added.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        self.files.iter().map(|f| &*f.1)
    }

    pub fn name(&self, file: FileId) -> &str {
        self.files.get(file.0 as usize).map_or("<unknown>", |f| &f.0)
    }

    pub fn text(&self, file: FileId) -> &str {
        self.files.get(file.0 as usize).map_or("", |f| &f.1)
    }

    /// One-based line and column (in characters) of a byte offset.
    pub fn line_column(&self, file: FileId, offset: u32) -> (usize, usize) {
        let text = self.text(file);
        let mut end = (offset as usize).min(text.len());
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let before = &text[..end];
        let line = before.bytes().filter(|b| *b == b'\n').count() + 1;
        let start = before.rfind('\n').map_or(0, |p| p + 1);
        (line, before[start..].chars().count() + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_sets() {
        let f = FileId(0);
        let a = Places::one(Span::new(f, 0, 3));
        let b = Places::one(Span::new(f, 5, 6));
        let u = a.union(&b).union(&a);
        assert_eq!(u.spans().len(), 2);
        assert_eq!(a.union(&Places::none()), a);
    }

    #[test]
    fn lines_and_columns_count_from_one() {
        let mut map = SourceMap::new();
        let f = map.add("x", "ab\ncüd");
        assert_eq!(map.line_column(f, 0), (1, 1));
        assert_eq!(map.line_column(f, 6), (2, 3));
        assert_eq!(map.line_column(f, 99), (2, 4));
    }
}
