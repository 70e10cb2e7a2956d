//! The form of a test: what its lines are, and the same file with what is found in place of what was expected.

use crate::agree::{agree, outcome};
use crate::{Case, Front, Given, Inputs, Loaded, Values};
use lathe_diagnostics::{Diagnostic, Severity, SourceMap};
use lathe_ir::Module;
use lathe_ir::text::{print_function, print_function_with, print_module};
use std::fmt::Write as _;

/// A test that was performed.
pub struct Done {
    /// The file with what was found.
    pub text: String,
    /// A failure that cannot be blessed: different results after the steps.
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
                let (word, rest) = text.split_once([' ', '\n']).unwrap_or((text, ""));
                if settings.take(word, rest.trim())? {
                    continue;
                }
                if let Some(d) = messages.iter().find(|d| d.severity == Severity::Error) {
                    let at = d.marks.first().map(|m| map.line_column(m.span.file, m.span.start));
                    return Err(format!("`{text}`, but the program has errors: {d} {at:?}"));
                }
                let given = settings.given(&program, module.as_ref(), front)?;
                let case = Running { front, given: &given, settings: &settings, text, map: &map, name };
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
                return Err(format!("line {} continues no case", n + 1));
            };
            let _ = write!(text, "\n{}", more.trim_end());
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
    values: Option<Values>,
    within: f64,
}

impl Settings {
    /// Whether the word is a setting.
    fn take(&mut self, word: &str, rest: &str) -> Result<bool, String> {
        match word {
            "for" => self.function = Some(rest.to_string()),
            "sizes" => self.sizes = Some(rest.split(';').map(Inputs::parse).collect::<Result<_, _>>()?),
            "values" => self.values = Some(Values::parse(rest)?),
            "within" => self.within = rest.parse().map_err(|_| format!("`{rest}` is not a number"))?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn given<'a>(
        &'a self,
        text: &'a str,
        module: Option<&'a Module>,
        front: &dyn Front,
    ) -> Result<Given<'a>, String> {
        let values = self.values.clone().map_or_else(|| Values::parse(front.values()), Ok)?;
        let inputs = self.sizes.iter().flatten().map(|i| i.clone().drawn_from(&values)).collect();
        let (function, within) = (self.function.as_deref(), self.within);
        Ok(Given { text, module, function, inputs, values, within })
    }
}

struct Running<'a> {
    front: &'a dyn Front,
    given: &'a Given<'a>,
    settings: &'a Settings,
    text: &'a str,
    map: &'a SourceMap,
    name: &'a str,
}

impl Running<'_> {
    /// What it gives: text, or the code of a refusal.
    fn perform(&self, word: &str, rest: &str, done: &mut Done) -> Result<Result<String, String>, String> {
        match word {
            "tree" => Ok(Ok(print_module(self.given.module.ok_or("the program has no tree")?))),
            "run" => {
                let inputs = Inputs::parse(rest)?.drawn_from(&self.given.values);
                let (module, func) = self.given.function()?;
                match outcome(module, func, &inputs) {
                    Ok(found) => Ok(found),
                    Err(why) => {
                        done.failures.push(format!("`{}`: {why}", self.text));
                        Ok(Ok("differs".to_string()))
                    }
                }
            }
            "steps" => {
                let (module, old) = self.given.function()?;
                if self.settings.sizes.is_none() {
                    return Err(format!("`{}`: no `#: sizes` before it", self.text));
                }
                let steps = rest.lines().map(str::trim).collect::<Vec<_>>().join(" ");
                match self.front.apply(module, old, &steps) {
                    Err(refusal) => Ok(Err(self.placed(&refusal))),
                    Ok(new) => {
                        let text = print_function_with(&new, self.front.ids());
                        let case = Case {
                            module: module.clone(),
                            before: old.clone(),
                            after: new,
                            steps,
                            inputs: self.given.inputs.clone(),
                            within: self.settings.within,
                        };
                        done.failures.extend(differs(&case).map(|w| format!("`{}`: {w}", self.text)));
                        done.steps.push(case);
                        Ok(Ok(text))
                    }
                }
            }
            _ if self.front.words().contains(&word) => {
                let found = self.front.case(word, rest, self.given);
                Ok(match found.map_err(|e| format!("`{}`: {e}", self.text))? {
                    Ok(found) => {
                        done.failures.extend(found.wrong.map(|w| format!("`{}`: {w}", self.text)));
                        Ok(found.text)
                    }
                    Err(refusal) => Err(self.placed(&refusal)),
                })
            }
            _ => {
                let own: String = self.front.words().iter().map(|w| format!(", {w}")).collect();
                Err(format!(
                    "`#: {word}` is neither a case (steps, tree, run{own}) nor a setting (sizes, values, within, for)"
                ))
            }
        }
    }

    /// A code, with its place in the program.
    fn placed(&self, d: &Diagnostic) -> String {
        match d.marks.first().filter(|m| self.map.name(m.span.file) == self.name) {
            Some(m) => {
                let (line, column) = self.map.line_column(m.span.file, m.span.start);
                format!("{} at {line}:{column}", d.code)
            }
            None => d.code.to_string(),
        }
    }
}

/// How the function after the steps differs.
fn differs(case: &Case) -> Option<String> {
    let mut ran = false;
    for inputs in &case.inputs {
        match agree(&case.module, &case.before, &case.after, inputs, case.within) {
            Ok(runs) => ran |= runs,
            Err(why) => return Some(format!("at `{inputs}`: {why}\n{}", print_function(&case.after))),
        }
    }
    (!ran).then(|| "it fails at all of the sizes, both before and after".to_string())
}
