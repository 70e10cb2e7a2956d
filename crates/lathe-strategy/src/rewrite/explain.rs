//! Why a strategy failed, and mistakes in the strategy itself.

use super::*;
use lathe_diagnostics::Mark;

/// Why a step failed.
pub(super) struct Reason {
    rule: String,
    why: Why,
    path: Vec<usize>,
    term: String,
    /// How many parts of the sequences around it had succeeded.
    after: usize,
    /// The step.
    span: Option<Span>,
    /// The definitions on the way to it.
    callers: Vec<String>,
    /// What else was tried: rules, and why not.
    others: Vec<(String, Why)>,
    /// How many failures there were besides, of the same kinds or of others.
    besides: usize,
}

/// The most that is told of what else was tried.
const OTHERS: usize = 4;

impl Reason {
    /// A condition that was not met says more than a shape that was not there, what failed after other steps of a
    /// sequence had been taken more than what failed at once; of places that say as much, the outermost.
    fn tells(&self) -> impl Ord {
        let condition = matches!(self.why, Why::Condition(_) | Why::Refused(_));
        (condition, self.after, std::cmp::Reverse(self.path.len()))
    }
}

/// The one of two reasons that tells more, the later if they tell as much; the other is mentioned.
pub(super) fn more(a: Reasons, b: Reasons) -> Reasons {
    let (a, b) = match (a, b) {
        (Some(a), Some(b)) => (a, b),
        (a, b) => return a.or(b),
    };
    let (mut most, less) = if a.tells() > b.tells() { (a, b) } else { (b, a) };
    most.besides += less.besides;
    for other in std::iter::once((less.rule, less.why)).chain(less.others) {
        let told = most.rule == other.0 && most.why == other.1 || most.others.contains(&other);
        if told || most.others.len() == OTHERS {
            most.besides += 1;
        } else {
            most.others.push(other);
        }
    }
    Some(most)
}

impl Stop {
    /// Of a sequence, so many parts of which had succeeded.
    pub(super) fn after(mut self, parts: usize) -> Stop {
        if let Stop::Failed(Some(r)) = &mut self {
            r.after += parts;
        }
        self
    }

    /// At one of many places: the message says which.
    pub(super) fn on_the_way(mut self) -> Stop {
        if let Stop::Failed(Some(r)) = &mut self
            && let Why::Refused(refusal) = &r.why
        {
            r.why = Why::Condition(refusal.diagnostic.message.clone());
        }
        self
    }
}

const STEP: &str = "this step";
const CALLED: &str = "called through ";

/// Adds the place of the step, and the definitions on the way to it.
fn tell(mut r: Refusal, span: Option<Span>, callers: &[String]) -> Refusal {
    let d = &mut r.diagnostic;
    if let Some(span) = span
        && !d.marks.iter().any(|m| m.text == STEP)
    {
        d.marks.insert(0, Mark { span, text: STEP.to_string() });
    }
    if !callers.is_empty() && !d.notes.iter().any(|n| n.starts_with(CALLED)) {
        let shown: Vec<String> = callers.iter().take(6).map(|c| format!("`{c}`")).collect();
        d.notes.push(format!("{CALLED}{}", shown.join(" → ")));
    }
    r
}

/// The failure that tells most, and what else was tried.
pub(super) fn explanation<N: Node>(why: Reasons, tree: &N) -> Refusal {
    let Some(r) = why else {
        let text = format!("the strategy applies nowhere in `{}`", tree.show());
        return Refusal::new("strategy", Diagnostic::error(codes::FAILED, text));
    };
    let refusal = match r.why {
        Why::Refused(refusal) => refusal,
        why => {
            let d = Diagnostic::error(codes::FAILED, format!("`{}` does not apply: {why}", r.rule));
            let place = format!("at {} in `{}`", show_path(&r.path), short(&r.term));
            Refusal::new(&r.rule, d.note(place))
        }
    };
    let mut refusal = tell(refusal, r.span, &r.callers);
    let others = r.others.iter().map(|(rule, why)| format!("also tried, `{rule}`: {why}"));
    refusal.diagnostic.notes.extend(others);
    if r.besides > 0 {
        refusal.diagnostic.notes.push(format!("and {} other attempts failed", r.besides));
    }
    refusal
}

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
        self.fatal(Refusal::new("strategy", d), span)
    }

    pub(super) fn fatal(&self, r: Refusal, span: Option<Span>) -> Stop {
        Stop::Fatal(Box::new(tell(r, span, &self.callers)))
    }

    pub(super) fn refused(&self, rule: &str, why: Why, span: Option<Span>, t: &N) -> Result<N, Stop> {
        Err(self.stop(rule, why, span, t))
    }

    /// What does not apply here; a call that is wrong in itself is a mistake.
    pub(super) fn stop(&self, rule: &str, why: Why, span: Option<Span>, t: &N) -> Stop {
        match why {
            Why::Mistake(text) => self.mistake(codes::CALL, format!("`{rule}`: {text}"), span, None),
            _ if !self.explain => Stop::Failed(None),
            why => Stop::Failed(Some(Box::new(Reason {
                rule: rule.to_string(),
                why,
                path: self.path.clone(),
                term: t.show(),
                after: 0,
                span,
                callers: self.callers.clone(),
                others: Vec::new(),
                besides: 0,
            }))),
        }
    }

    /// No end in sight, with the rules that came last.
    pub(super) fn endless(&self, how: &str) -> Stop {
        let last: Vec<String> =
            self.trace.iter().rev().take(4).rev().map(|a| format!("`{}`", a.rule)).collect();
        let text = format!("the strategy does not terminate: {how}");
        let help = if last.is_empty() {
            "`repeat(s)` stops when `s` fails".to_string()
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
}

fn show_path(p: &[usize]) -> String {
    if p.is_empty() {
        return "the root".to_string();
    }
    let parts: Vec<String> = p.iter().map(usize::to_string).collect();
    format!("path {}", parts.join("."))
}

fn short(s: &str) -> String {
    match s.char_indices().nth(160) {
        Some((n, _)) => format!("{}…", &s[..n]),
        None => s.to_string(),
    }
}
