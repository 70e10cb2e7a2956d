//! Diagnostics as text, with the source that they point at.

mod cut;

use cut::{Cut, sentence};
use lathe_diagnostics::{Diagnostic, Severity, SourceMap, Visible, visible};
use miette::{LabeledSpan, MietteError, MietteSpanContents, SourceCode, SourceSpan, SpanContents};
use std::fmt;

/// A diagnostic together with the text of the file that its first mark is in; marks in other files become
/// notes, since a picture shows one file.
#[derive(Debug)]
struct Shown {
    message: String,
    severity: Severity,
    code: String,
    source: Source,
    labels: Vec<LabeledSpan>,
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Shown {}

impl miette::Diagnostic for Shown {
    fn code<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        Some(Box::new(&self.code))
    }

    fn severity(&self) -> Option<miette::Severity> {
        Some(match self.severity {
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

/// The text that a picture shows parts of, with long lines cut.
#[derive(Debug)]
struct Source {
    name: String,
    cut: Cut,
}

impl SourceCode for Source {
    fn read_span<'a>(
        &'a self,
        span: &SourceSpan,
        before: usize,
        after: usize,
    ) -> Result<Box<dyn SpanContents<'a> + 'a>, MietteError> {
        let found = self.cut.text.read_span(span, before, after)?;
        // Only without lines before it is this the column of the place.
        let hidden = if before == 0 { self.cut.left_out_before(span.offset()) } else { 0 };
        Ok(Box::new(MietteSpanContents::new_named(
            self.name.clone(),
            found.data(),
            *found.span(),
            found.line(),
            found.column() + hidden,
            found.line_count(),
        )))
    }
}

/// The diagnostic as text, in colours for a terminal or without.
pub fn to_text(map: &SourceMap, d: &Diagnostic, colours: bool) -> String {
    let file = d.marks.first().map(|m| m.span.file);
    let whole = file.map_or("", |f| map.text(f));
    let source = Visible::new(whole);
    let text = source.text.as_str();
    let (mut elsewhere, mut labels) = (Vec::new(), Vec::new());
    let place = |m: &lathe_diagnostics::Mark| {
        let start = (m.span.start as usize).min(whole.len());
        let end = (m.span.end as usize).clamp(start, whole.len());
        source.place(start)..source.place(end)
    };
    let own: Vec<_> = d.marks.iter().filter(|m| Some(m.span.file) == file).map(place).collect();
    let cut = Cut::new(text, &own);
    for (i, m) in d.marks.iter().enumerate() {
        if Some(m.span.file) == file {
            let (place, label) = (place(m), Some(sentence(&m.text)));
            let shown = cut.place(place.start)..cut.place(place.end);
            labels.push(if i == 0 {
                LabeledSpan::new_primary_with_span(label, shown)
            } else {
                LabeledSpan::new_with_span(label, shown)
            });
        } else {
            let (line, column) = map.line_column(m.span.file, m.span.start);
            elsewhere.push(sentence(&format!("{}:{line}:{column}: {}", map.name(m.span.file), m.text)));
        }
    }
    let mut remarks: Vec<(&str, String)> = elsewhere.into_iter().map(|e| ("also", e)).collect();
    remarks.extend(d.notes.iter().map(|n| ("note", sentence(n))));
    remarks.extend(d.help.iter().map(|h| ("help", sentence(h))));
    let shown = Shown {
        code: d.code.to_string(),
        source: Source { name: file.map_or(String::new(), |f| visible(map.name(f)).into_owned()), cut },
        labels,
        message: sentence(&d.message),
        severity: d.severity,
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
    for (kind, text) in remarks {
        let (on, off) = if plain { ("", "") } else { ("\x1b[36m", "\x1b[0m") };
        // Further lines are indented under the first.
        let text = text.replace('\n', "\n        ");
        out += &format!("  {on}{kind}:{off} {text}\n");
    }
    out
}
