//! The form of a test: what its lines are, and the same file with what is found in place of what was expected.

use crate::agree::{Inputs, agree, outcome};
use crate::{Case, Front, Loaded};
use lathe_diagnostics::{Diagnostic, Severity, SourceMap};
use lathe_ir::text::{print_function, print_module};
use lathe_ir::{Function, Module};
use std::fmt::Write as _;

/// A test that was performed.
pub struct Done {
    /// The file with what was found.
    pub text: String,
    /// What no expectation can make right: other results after the steps than before.
    pub failures: Vec<String>,
    pub messages: Vec<String>,
    /// Accepted and refused.
    pub cases: (usize, usize),
    pub steps: Vec<Case>,
}

/// One line of a file, without what is expected.
enum Line<'a> {
    Program(&'a str),
    /// `#: text`, with the lines that continue it.
    Directive {
        text: String,
        lines: Vec<&'a str>,
    },
}

/// Performs the test that a text is.
///
/// # Errors
/// What is wrong with its form.
pub fn perform(name: &str, text: &str, front: &dyn Front) -> Result<Done, String> {
    let lines = lines(text)?;
    let mut program = String::new();
    for l in &lines {
        // What is left out leaves its line.
        match l {
            Line::Program(l) => program.push_str(l),
            Line::Directive { lines, .. } => program.extend(lines[1..].iter().map(|_| '\n')),
        }
        program.push('\n');
    }
    let mut map = SourceMap::new();
    let Loaded { module, messages } = front.load(&mut map, name, &program);
    let notes = Notes::of(&map, name, &messages);
    let mut done = Done {
        text: String::new(),
        failures: Vec::new(),
        messages: messages.iter().map(|d| d.code.to_string()).collect(),
        cases: (0, 0),
        steps: Vec::new(),
    };
    if !notes.nowhere.is_empty() {
        let _ = writeln!(done.text, "#! {}", notes.nowhere.join(", "));
    }
    let mut settings = Settings::default();
    let mut number = 0;
    for line in &lines {
        match line {
            Line::Program(l) => {
                number += 1;
                let found = notes.at(number);
                let note =
                    if found.is_empty() { String::new() } else { format!("  #! {}", found.join(", ")) };
                let _ = writeln!(done.text, "{l}{note}");
            }
            Line::Directive { text, lines } => {
                number += lines.len();
                lines.iter().for_each(|l| done.text += &format!("{l}\n"));
                let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
                if settings.take(word, rest.trim())? {
                    continue;
                }
                let Some(module) = &module else {
                    return Err(format!("`{text}`, but the program has errors"));
                };
                let case = Running { front, module, settings: &settings, text };
                let found = case.perform(word, rest.trim(), &mut done)?;
                match &found {
                    Ok(tree) => {
                        tree.lines()
                            .for_each(|l| done.text += &format!("{}\n", format!("#| {l}").trim_end()));
                    }
                    Err(code) => done.text += &format!("#! {code}\n"),
                }
                *(if found.is_ok() { &mut done.cases.0 } else { &mut done.cases.1 }) += 1;
            }
        }
    }
    Ok(done)
}

/// Takes a file apart, and drops what is expected.
fn lines(text: &str) -> Result<Vec<Line<'_>>, String> {
    let mut out: Vec<Line> = Vec::new();
    let mut cases = false;
    for (n, line) in text.lines().enumerate() {
        let line = line.strip_suffix('\r').unwrap_or(line);
        if line.starts_with("#!") || line.starts_with("#|") {
            continue;
        }
        if let Some(more) = line.strip_prefix("#:  ") {
            let Some(Line::Directive { text, lines }) = out.last_mut() else {
                return Err(format!("line {} continues nothing", n + 1));
            };
            let _ = write!(text, " {}", more.trim());
            lines.push(line);
        } else if let Some(directive) = line.strip_prefix("#: ").or_else(|| line.strip_prefix("#:")) {
            out.push(Line::Directive { text: directive.trim().to_string(), lines: vec![line] });
            cases = true;
        } else {
            let line = unannotated(line);
            if cases && !line.trim().is_empty() && !line.starts_with('#') {
                return Err(format!("line {}: the program comes before the cases", n + 1));
            }
            out.push(Line::Program(line));
        }
    }
    Ok(out)
}

/// A line without the codes at its end.
fn unannotated(line: &str) -> &str {
    let Some((before, codes)) = line.rsplit_once("#! ") else { return line };
    let is_code = |word: &str| {
        let code = word.trim().trim_start_matches("warning ").split(':').next().unwrap_or("");
        code.len() == 5 && code.starts_with('E') && code[1..].bytes().all(|b| b.is_ascii_digit())
    };
    if codes.split(',').all(is_code) { before.trim_end() } else { line }
}

/// Messages as they are noted in the file.
struct Notes {
    nowhere: Vec<String>,
    placed: Vec<(usize, String)>,
}

impl Notes {
    fn of(map: &SourceMap, name: &str, messages: &[Diagnostic]) -> Notes {
        let mut notes = Notes { nowhere: Vec::new(), placed: Vec::new() };
        for d in messages {
            let warning = if d.severity == Severity::Error { "" } else { "warning " };
            match d.marks.first().filter(|m| map.name(m.span.file) == name) {
                Some(m) => {
                    let (line, column) = map.line_column(m.span.file, m.span.start);
                    notes.placed.push((line, format!("{warning}{}:{column}", d.code)));
                }
                None => notes.nowhere.push(format!("{warning}{}", d.code)),
            }
        }
        notes
    }

    fn at(&self, line: usize) -> Vec<&str> {
        self.placed.iter().filter(|p| p.0 == line).map(|p| &*p.1).collect()
    }
}

/// What holds for the cases below.
#[derive(Default)]
struct Settings {
    function: Option<String>,
    sizes: Option<Vec<Inputs>>,
    values: Option<(i64, i64)>,
    within: f64,
}

impl Settings {
    /// Whether the word is a setting.
    fn take(&mut self, word: &str, rest: &str) -> Result<bool, String> {
        match word {
            "for" => self.function = Some(rest.to_string()),
            "sizes" => self.sizes = Some(rest.split(';').map(Inputs::parse).collect::<Result<_, _>>()?),
            "values" => {
                let range = rest.split_once("..").and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
                self.values =
                    Some(range.filter(|(a, b)| a <= b).ok_or_else(|| format!("`{rest}` is no range"))?);
            }
            "within" => self.within = rest.parse().map_err(|_| format!("`{rest}` is no number"))?,
            _ => return Ok(false),
        }
        Ok(true)
    }
}

struct Running<'a> {
    front: &'a dyn Front,
    module: &'a Module,
    settings: &'a Settings,
    text: &'a str,
}

impl Running<'_> {
    /// What it gives: text, or the code of a refusal.
    fn perform(&self, word: &str, rest: &str, done: &mut Done) -> Result<Result<String, String>, String> {
        match word {
            "tree" => Ok(Ok(print_module(self.module))),
            "run" => {
                let inputs = Inputs::parse(rest)?.drawn_from(self.settings.values);
                match outcome(self.module, self.function()?, &inputs) {
                    Ok(found) => Ok(found),
                    Err(why) => {
                        done.failures.push(format!("`{}`: {why}", self.text));
                        Ok(Ok("differs".to_string()))
                    }
                }
            }
            "steps" => {
                let old = self.function()?;
                let Some(sizes) = &self.settings.sizes else {
                    return Err(format!("`{}`: no `#: sizes` before it", self.text));
                };
                match self.front.apply(self.module, old, rest) {
                    Err(refusal) => Ok(Err(refusal.code.to_string())),
                    Ok(new) => {
                        let text = print_function(&new);
                        let case = Case {
                            module: self.module.clone(),
                            before: old.clone(),
                            after: new,
                            steps: rest.to_string(),
                            inputs: sizes
                                .iter()
                                .map(|i| i.clone().drawn_from(self.settings.values))
                                .collect(),
                            within: self.settings.within,
                        };
                        done.failures.extend(differs(&case).map(|w| format!("`{}`: {w}", self.text)));
                        done.steps.push(case);
                        Ok(Ok(text))
                    }
                }
            }
            _ => Err(format!(
                "`#: {word}` is neither a case (steps, tree, run) nor a setting (sizes, values, within, for)"
            )),
        }
    }

    fn function(&self) -> Result<&Function, String> {
        if let Some(name) = &self.settings.function {
            return self
                .module
                .functions
                .get(&**name)
                .ok_or_else(|| format!("there is no function `{name}`"));
        }
        let called = self.module.called();
        let mut free = self.module.functions.values().filter(|f| !called.contains(&f.name));
        match (free.next(), free.next()) {
            (Some(f), None) => Ok(f),
            _ => Err("`#: for NAME` must say which function is meant".to_string()),
        }
    }
}

/// Why the function after the steps is another one.
fn differs(case: &Case) -> Option<String> {
    let mut ran = false;
    for inputs in &case.inputs {
        match agree(&case.module, &case.before, &case.after, inputs, case.within) {
            Ok(runs) => ran |= runs,
            Err(why) => return Some(format!("at `{inputs}`: {why}\n{}", print_function(&case.after))),
        }
    }
    (!ran).then(|| "it fails at all of the sizes, before as after".to_string())
}
