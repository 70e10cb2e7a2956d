//! What went wrong, with the texts that it is about.

use lathe_diagnostics::{Diagnostic, SourceMap};

/// Diagnostics together with the sources they point into.
#[derive(Clone, Debug)]
pub struct Failure {
    pub sources: SourceMap,
    pub diagnostics: Vec<Diagnostic>,
}

impl Failure {
    pub fn one(sources: &SourceMap, d: Diagnostic) -> Failure {
        Failure { sources: sources.clone(), diagnostics: vec![d] }
    }

    pub fn many(sources: &SourceMap, diagnostics: Vec<Diagnostic>) -> Failure {
        Failure { sources: sources.clone(), diagnostics }
    }

    /// A failure that no source is to blame for.
    pub fn bare(d: Diagnostic) -> Failure {
        Failure { sources: SourceMap::new(), diagnostics: vec![d] }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for d in &self.diagnostics {
            writeln!(f, "{d}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Failure {}

/// What a reader of a kind of files made of one: its sources, what is in it, and warnings.
pub(crate) type Read = (SourceMap, lathe_lang::Program, Vec<Diagnostic>);
