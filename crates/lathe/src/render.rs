//! Diagnostics as text, with the source that they point at.

use lathe_diagnostics::{Diagnostic, Severity, SourceMap};
use miette::{Diagnostic as _, LabeledSpan, NamedSource};
use std::fmt;

/// A diagnostic together with the text of the file that its first mark is in; marks in other files become
/// notes, since a picture shows one file.
#[derive(Debug)]
struct Shown {
    inner: Diagnostic,
    code: String,
    source: NamedSource<String>,
    labels: Vec<LabeledSpan>,
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.inner.message)
    }
}

impl std::error::Error for Shown {}

impl miette::Diagnostic for Shown {
    fn code<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        Some(Box::new(&self.code))
    }

    fn severity(&self) -> Option<miette::Severity> {
        Some(match self.inner.severity {
            Severity::Error => miette::Severity::Error,
            Severity::Warning => miette::Severity::Warning,
            Severity::Note => miette::Severity::Advice,
        })
    }

    fn source_code(&self) -> Option<&dyn miette::SourceCode> {
        if self.labels.is_empty() { None } else { Some(&self.source) }
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        if self.labels.is_empty() { None } else { Some(Box::new(self.labels.iter().cloned())) }
    }
}

/// The diagnostic as text, in colours for a terminal or without.
pub fn to_text(map: &SourceMap, d: &Diagnostic, colours: bool) -> String {
    let file = d.marks.first().map(|m| m.span.file);
    let text = file.map_or("", |f| map.text(f));
    let mut elsewhere = Vec::new();
    let mut labels = Vec::new();
    for (i, m) in d.marks.iter().enumerate() {
        if Some(m.span.file) == file {
            let start = (m.span.start as usize).min(text.len());
            let end = (m.span.end as usize).clamp(start, text.len());
            let label = Some(m.text.clone());
            labels.push(if i == 0 {
                LabeledSpan::new_primary_with_span(label, start..end)
            } else {
                LabeledSpan::new_with_span(label, start..end)
            });
        } else {
            let (line, column) = map.line_column(m.span.file, m.span.start);
            elsewhere.push(format!("{}:{line}:{column}: {}", map.name(m.span.file), m.text));
        }
    }
    let mut remarks: Vec<(&str, String)> = elsewhere.into_iter().map(|e| ("also", e)).collect();
    remarks.extend(d.notes.iter().map(|n| ("note", n.clone())));
    remarks.extend(d.help.iter().map(|h| ("help", h.clone())));
    let shown = Shown {
        code: d.code.to_string(),
        source: NamedSource::new(file.map_or("", |f| map.name(f)), text.to_string()),
        labels,
        inner: d.clone(),
    };
    let mut out = String::new();
    let handler = miette::GraphicalReportHandler::new();
    let plain = !colours;
    // Without colours nothing of the text depends on where it is shown.
    let handler = if plain {
        handler.with_theme(miette::GraphicalTheme::unicode_nocolor()).with_width(100).with_links(false)
    } else {
        handler
    };
    if handler.with_context_lines(1).render_report(&mut out, &shown as &dyn miette::Diagnostic).is_err() {
        out = format!("{d}\n");
    }
    debug_assert!(shown.code().is_some());
    for (kind, text) in remarks {
        let (on, off) = if plain { ("", "") } else { ("\x1b[36m", "\x1b[0m") };
        // Further lines stand under the first.
        let text = text.replace('\n', "\n        ");
        out += &format!("  {on}{kind}:{off} {text}\n");
    }
    out
}
