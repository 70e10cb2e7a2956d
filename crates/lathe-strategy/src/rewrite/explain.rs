//! Why a strategy failed, and mistakes in the strategy itself.

use super::*;

impl<N: Node> Engine<'_, N> {
    pub(super) fn mistake(
        &self,
        code: DiagnosticCode,
        text: impl Into<String>,
        span: Option<Span>,
        help: Option<&str>,
    ) -> Stop {
        let mut d = Diagnostic::error(code, text);
        d.help = help.map(str::to_string);
        Stop::Fatal(Box::new(self.tell(Refusal::new("strategy", d), span)))
    }

    pub(super) fn tell(&self, mut r: Refusal, span: Option<Span>) -> Refusal {
        *r.diagnostic = mark(*r.diagnostic, span, "this step");
        if !self.callers.is_empty() {
            let shown: Vec<String> = self.callers.iter().take(6).map(|c| format!("`{c}`")).collect();
            r.diagnostic.notes.push(format!("called through {}", shown.join(" → ")));
        }
        r
    }

    /// The last thing that failed, and what else was tried.
    pub(super) fn explanation(self, tree: &N) -> Refusal {
        let mut reasons = self.reasons.unwrap_or_default();
        // Conditions that were nearly met say more than shapes that were not there.
        let best = reasons.iter().rposition(|r| r.condition);
        let best = best.or(reasons.len().checked_sub(1)).map(|n| reasons.remove(n));
        let Some(r) = best else {
            let d = Diagnostic::error(
                codes::FAILED,
                format!("the strategy applies nowhere in `{}`", tree.show()),
            );
            return Refusal::new("strategy", d);
        };
        let text = format!("`{}` does not apply: {}", r.rule, r.why);
        let mut d = Diagnostic::error(codes::FAILED, text).note(format!(
            "at {} in `{}`",
            show_path(&r.path),
            short(&r.term)
        ));
        let mut others: Vec<String> = Vec::new();
        for o in reasons.iter().rev() {
            let line = format!("`{}`: {}", o.rule, o.why);
            if !others.contains(&line) && others.len() < 3 {
                others.push(line);
            }
        }
        for o in others {
            d = d.note(format!("also tried, {o}"));
        }
        Refusal::new(&r.rule, d)
    }
}

pub(super) fn show_path(p: &[usize]) -> String {
    if p.is_empty() {
        return "the root".to_string();
    }
    let parts: Vec<String> = p.iter().map(usize::to_string).collect();
    format!("path {}", parts.join("."))
}

pub(super) fn short(s: &str) -> String {
    match s.char_indices().nth(160) {
        Some((n, _)) => format!("{}…", &s[..n]),
        None => s.to_string(),
    }
}
