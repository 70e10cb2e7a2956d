//! Stop rules as text: the notation of the directives (`duration<minutes>(10) || cost(0.5)`) and the short forms
//! of a command line (`60s`, `200 evaluations`, `5%`), in any mixture.

use crate::codes;
use crate::cost::Cost;
use crate::stop::{Stop, Window};
use lathe_diagnostics::Diagnostic;
use std::time::Duration;

/// Units of time and their length in seconds.
const UNITS: [(&str, f64); 17] = [
    ("nanoseconds", 1e-9),
    ("microseconds", 1e-6),
    ("milliseconds", 1e-3),
    ("seconds", 1.0),
    ("minutes", 60.0),
    ("hours", 3600.0),
    ("days", 86400.0),
    ("ns", 1e-9),
    ("us", 1e-6),
    ("ms", 1e-3),
    ("s", 1.0),
    ("sec", 1.0),
    ("second", 1.0),
    ("m", 60.0),
    ("min", 60.0),
    ("minute", 60.0),
    ("h", 3600.0),
];

/// Words that name what `Stop::Evaluations` counts.
const COUNTED: [&str; 5] = ["evaluations", "evaluation", "evals", "configurations", "tests"];

/// The deepest nesting of parentheses that is read.
const DEPTH: u32 = 100;

/// Reads a stop rule.
///
/// ```text
/// rule   := term { ("||" | "or") term }
/// term   := atom { ("&&" | "and") atom }
/// atom   := "(" rule ")" | name ["<" unit ">"] "(" number { "," number } ")"
///         | number unit | number "evaluations" | number "%" | "cost" ("<=" | "<") number
/// name   := duration | evaluations | fraction | cost | speedup
/// ```
pub fn parse(text: &str) -> Result<Stop, Diagnostic> {
    let mut p = Parser { text, at: 0, depth: 0 };
    let stop = p.rule()?;
    p.space();
    if p.at < text.len() {
        return Err(p.error("unexpected text after the rule"));
    }
    Ok(stop)
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: u32,
}

impl<'a> Parser<'a> {
    fn error(&self, what: impl Into<String>) -> Diagnostic {
        let (done, rest) = self.text.split_at(self.at.min(self.text.len()));
        Diagnostic::error(codes::STOP, format!("stop rule `{}`: {}", self.text, what.into()))
            .note(if rest.is_empty() {
                "at its end".to_string()
            } else {
                format!("after `{done}`, before `{rest}`")
            })
            .help(
                "rules: `60s`, `200 evaluations`, `5%`, duration<unit>(t), evaluations(n), fraction(f), cost(c), \
                 speedup(s, n), speedup<unit>(s, t), joined by `&&` and `||`",
            )
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn space(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start().len();
    }

    fn eat(&mut self, sign: &str) -> bool {
        self.space();
        let found = self.rest().starts_with(sign);
        self.at += if found { sign.len() } else { 0 };
        found
    }

    fn need(&mut self, sign: &str) -> Result<(), Diagnostic> {
        if self.eat(sign) { Ok(()) } else { Err(self.error(format!("`{sign}` expected"))) }
    }

    fn word(&mut self) -> &'a str {
        self.space();
        let rest = self.rest();
        let end = rest.find(|c: char| !c.is_ascii_alphabetic() && c != '_').unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    /// Takes the next word if it is this one.
    fn eat_word(&mut self, word: &str) -> bool {
        let back = self.at;
        let found = self.word() == word;
        if !found {
            self.at = back;
        }
        found
    }

    fn number(&mut self) -> Result<f64, Diagnostic> {
        self.space();
        let rest = self.rest();
        let mut end = 0;
        let bytes = rest.as_bytes();
        while let Some(b) = bytes.get(end) {
            let exponent = |e: usize| {
                let sign = usize::from(matches!(bytes.get(e + 1), Some(b'+' | b'-')));
                bytes.get(e + 1 + sign).is_some_and(u8::is_ascii_digit)
            };
            let inside = match b {
                b'0'..=b'9' | b'.' => true,
                b'+' | b'-' => end == 0 || matches!(bytes[end - 1], b'e' | b'E'),
                b'e' | b'E' => end > 0 && exponent(end),
                _ => false,
            };
            if !inside {
                break;
            }
            end += 1;
        }
        let v = rest[..end].parse::<f64>().ok().filter(|v| v.is_finite());
        let v = v.ok_or_else(|| self.error("a number expected"))?;
        self.at += end;
        Ok(v)
    }

    fn rule(&mut self) -> Result<Stop, Diagnostic> {
        self.depth += 1;
        if self.depth > DEPTH {
            return Err(self.error("nested too deeply"));
        }
        let mut all = vec![self.term()?];
        while self.eat("||") || self.eat_word("or") {
            all.push(self.term()?);
        }
        self.depth -= 1;
        Ok(if all.len() == 1 { all.remove(0) } else { Stop::Or(all) })
    }

    fn term(&mut self) -> Result<Stop, Diagnostic> {
        let mut all = vec![self.atom()?];
        while self.eat("&&") || self.eat_word("and") {
            all.push(self.atom()?);
        }
        Ok(if all.len() == 1 { all.remove(0) } else { Stop::And(all) })
    }

    fn atom(&mut self) -> Result<Stop, Diagnostic> {
        if self.eat("(") {
            let inner = self.rule()?;
            self.need(")")?;
            return Ok(inner);
        }
        self.space();
        if self.rest().starts_with(|c: char| c.is_ascii_digit() || c == '.' || c == '-' || c == '+') {
            return self.short();
        }
        let start = self.at;
        let name = self.word();
        if name == "cost" && (self.eat("<=") || self.eat("<")) {
            return Ok(Stop::Cost(self.number()?.into()));
        }
        let unit = if self.eat("<") {
            let unit = self.word();
            self.need(">")?;
            Some(seconds(unit).ok_or_else(|| self.error(format!("`{unit}` is not a unit of time")))?)
        } else {
            None
        };
        let known = ["duration", "evaluations", "fraction", "cost", "speedup"].contains(&name);
        if !known {
            self.at = start;
            return Err(self.error(format!("no rule is called `{name}`")));
        }
        self.need("(")?;
        let mut numbers = vec![self.number()?];
        while self.eat(",") {
            numbers.push(self.number()?);
        }
        self.need(")")?;
        match (name, unit, numbers.as_slice()) {
            ("duration", unit, [t]) => Ok(Stop::Duration(self.duration(*t, unit.unwrap_or(1.0))?)),
            ("evaluations", None, [n]) => Ok(Stop::Evaluations(self.count(*n)?)),
            ("fraction", None, [f]) => self.fraction(*f),
            ("cost", None, c) => Ok(Stop::Cost(Cost::new(c))),
            ("speedup", None, [s, n]) => self.speedup(*s, Window::Evaluations(self.count(*n)?)),
            ("speedup", Some(unit), [s, t]) => self.speedup(*s, Window::Time(self.duration(*t, unit)?)),
            _ => Err(self.error(format!("`{name}` does not take these arguments"))),
        }
    }

    /// `60s`, `200 evaluations`, `5%`.
    fn short(&mut self) -> Result<Stop, Diagnostic> {
        let v = self.number()?;
        if self.eat("%") {
            return self.fraction(v / 100.0);
        }
        let unit = self.word();
        if COUNTED.contains(&unit) {
            return Ok(Stop::Evaluations(self.count(v)?));
        }
        match seconds(unit) {
            Some(length) => Ok(Stop::Duration(self.duration(v, length)?)),
            None => Err(self.error(format!("`{v}` has no unit"))),
        }
    }

    fn duration(&self, t: f64, unit: f64) -> Result<Duration, Diagnostic> {
        // Whole nanoseconds, so that `2ms` is not a hair less than two milliseconds.
        let exact = (t * unit * 1e9).round() / 1e9;
        Duration::try_from_secs_f64(exact).map_err(|_| self.error("this is not a duration"))
    }

    fn count(&self, n: f64) -> Result<u64, Diagnostic> {
        if n >= 0.0 && n.fract() == 0.0 && n < 2f64.powi(63) {
            Ok(n as u64)
        } else {
            Err(self.error(format!("`{n}` is not a number of evaluations")))
        }
    }

    fn fraction(&self, f: f64) -> Result<Stop, Diagnostic> {
        if (0.0..=1.0).contains(&f) {
            Ok(Stop::Fraction(f))
        } else {
            Err(self.error(format!("a fraction is between 0 and 1, not {f}")))
        }
    }

    fn speedup(&self, factor: f64, over: Window) -> Result<Stop, Diagnostic> {
        if factor >= 1.0 {
            Ok(Stop::Speedup { factor, over })
        } else {
            Err(self.error(format!("a speedup is at least 1, not {factor}")))
        }
    }
}

fn seconds(unit: &str) -> Option<f64> {
    UNITS.iter().find(|u| u.0 == unit).map(|u| u.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        parse(text).unwrap().to_string()
    }

    #[test]
    fn the_notation_of_directives() {
        assert_eq!(shown("duration<minutes>(10) || cost(0.5)"), "duration<seconds>(600) || cost(0.5)");
        assert_eq!(shown("evaluations(7)&&fraction(.5)"), "evaluations(7) && fraction(0.5)");
        assert_eq!(shown("speedup(1.05, 100)"), "speedup(1.05, 100)");
        assert_eq!(shown("speedup<hours>(1.05,2)"), "speedup<seconds>(1.05, 7200)");
        assert_eq!(shown("cost(0.5, 3e-2)"), "cost(0.5, 0.03)");
        assert_eq!(shown("duration<milliseconds>(2)"), "duration<seconds>(0.002)");
    }

    #[test]
    fn and_binds_tighter_and_what_is_printed_reads_back() {
        for text in [
            "cost(1) || cost(2) && cost(3)",
            "(cost(1) or cost(2)) and cost(3)",
            "60s or (evaluations(9) and (cost(1) or 5%))",
        ] {
            let once = shown(text);
            assert_eq!(shown(&once), once);
        }
        assert_eq!(shown("cost(1) || cost(2) && cost(3)"), "cost(1) || (cost(2) && cost(3))");
        assert_eq!(shown("((cost(1)))"), "cost(1)");
    }

    #[test]
    fn the_short_forms_of_a_command_line() {
        assert_eq!(shown("60s"), "duration<seconds>(60)");
        assert_eq!(shown("1.5 min"), "duration<seconds>(90)");
        assert_eq!(shown("2h || 200 evaluations"), "duration<seconds>(7200) || evaluations(200)");
        assert_eq!(shown("5%"), "fraction(0.05)");
        assert_eq!(shown("cost <= -1e-3"), "cost(-0.001)");
    }

    #[test]
    fn what_is_no_rule_is_refused_with_its_place() {
        for text in [
            "",
            "60",
            "60 parsecs",
            "duration<fortnights>(1)",
            "evaluations(1.5)",
            "evaluations(-1)",
            "fraction(1.1)",
            "speedup(0.5, 3)",
            "cost()",
            "cost(x)",
            "1s ||",
            "1s cost(1)",
            "(1s",
            "elapsed(3)",
            "duration(1,2)",
            "-1s",
            "nan s",
            "é",
        ] {
            assert_eq!(parse(text).unwrap_err().code, codes::STOP, "{text}");
        }
        let deep = "(".repeat(10_000);
        assert!(parse(&deep).is_err());
        let message = parse("60s && elapsed(3)").unwrap_err();
        assert!(message.message.contains("elapsed") && message.notes[0].contains("60s &&"));
    }
}
