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

    /// What does not apply here; a call that is wrong in itself is a mistake.
    pub(super) fn refused(&mut self, rule: &str, why: Why, span: Option<Span>, t: &N) -> Result<N, Stop> {
        match why {
            Why::Mistake(text) => Err(self.mistake(codes::CALL, format!("`{rule}`: {text}"), span, None)),
            _ if self.reasons.is_none() => Err(Stop::Failed),
            Why::Shape(why) => self.failure(rule, why.to_string(), false, span, t),
            Why::Condition(why) => self.failure(rule, why, true, span, t),
        }
    }

    /// `condition`: the shape was the right one.
    pub(super) fn failure(
        &mut self,
        rule: &str,
        why: String,
        condition: bool,
        span: Option<Span>,
        t: &N,
    ) -> Result<N, Stop> {
        let (path, after) = (self.path.clone(), self.reached);
        if let Some(r) = &mut self.reasons {
            if r.len() >= 1000 {
                r.drain(..500);
            }
            r.push(Reason { rule: rule.to_string(), path, why, term: t.show(), condition, after, span });
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

    /// The failure that tells most, and what else was tried.
    pub(super) fn explanation(self, tree: &N) -> Refusal {
        let mut reasons = self.reasons.unwrap_or_default();
        // A condition that was not met says more than a shape that was not there, what failed after other steps of a
        // sequence had been taken more than what failed at once; of places that say as much, the outermost.
        let tells = |r: &Reason| (r.condition, r.after, std::cmp::Reverse(r.path.len()));
        let best = reasons.iter().enumerate().max_by_key(|(n, r)| (tells(r), *n)).map(|(n, _)| n);
        let best = best.map(|n| reasons.remove(n));
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
        let told = format!("`{}`: {}", r.rule, r.why);
        let mut others: Vec<String> = Vec::new();
        for o in reasons.iter().rev() {
            let line = format!("`{}`: {}", o.rule, o.why);
            if line != told && !others.contains(&line) && others.len() < 3 {
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
