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

    pub(super) fn failure(&mut self, rule: &str, why: String, span: Option<Span>, t: &N) -> Result<N, Stop> {
        let path = self.path.clone();
        if let Some(r) = &mut self.reasons {
            if r.len() >= 1000 {
                r.drain(..500);
            }
            r.push(Reason { rule: rule.to_string(), path, why, term: t.show(), condition: false, span });
        }
        Err(Stop::Failed)
    }

    /// No end in sight, with the rules that came last.
    pub(super) fn endless(&self, how: &str) -> Stop {
        let last: Vec<String> =
            self.trace.iter().rev().take(4).rev().map(|a| format!("`{}`", a.rule)).collect();
        let text = format!("the strategy does not end: {how}");
        let help = if last.is_empty() {
            "`repeat(s)` ends when `s` fails".to_string()
        } else {
            format!("the last rules were {}", last.join(", "))
        };
        self.mistake(codes::DIVERGES, text, None, Some(&help))
    }

    /// The definitions on the way, from the first repeated one.
    pub(super) fn cycle(&self) -> String {
        let last = self.callers.last().map(String::as_str).unwrap_or_default();
        let before = self.callers[..self.callers.len().saturating_sub(1)].iter().rposition(|c| c == last);
        let names: Vec<String> =
            self.callers[before.unwrap_or(0)..].iter().take(8).map(|c| format!("`{c}`")).collect();
        names.join(" → ")
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
        let mut d = mark(Diagnostic::error(codes::FAILED, text), r.span, "this step").note(format!(
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
