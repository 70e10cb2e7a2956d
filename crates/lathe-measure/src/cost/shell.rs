//! Where in a shell's text a value stands, and how it is quoted there so that it stays what it is: words, separated by
//! blanks.

/// How the shell reads the place that was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// With so many open parentheses.
    Plain(u32),
    /// Between `((` and `))`, with so many more open: `<<` shifts.
    Arithmetic(u32),
    Double,
    Single,
    Backquotes,
    Comment,
}

/// A text of lines up to a mark, in which `$` keeps its meaning or not.
#[derive(Clone, Debug)]
struct Here {
    mark: String,
    literal: bool,
    /// `<<-`: the mark may be indented.
    indented: bool,
}

/// What was read so far.
#[derive(Clone, Debug)]
pub(super) struct State {
    /// The innermost last: a command within double quotes starts a new context.
    modes: Vec<Mode>,
    /// Announced on this line, and begun.
    announced: Vec<Here>,
    here: Vec<Here>,
    /// The line of a [`Here`] so far.
    line: String,
    /// The word so far, to see comments and marks.
    word: String,
    escaped: bool,
    /// Reading the mark of a [`Here`].
    mark: Option<Here>,
}

impl Default for State {
    fn default() -> State {
        State {
            modes: vec![Mode::Plain(0)],
            announced: Vec::new(),
            here: Vec::new(),
            line: String::new(),
            word: String::new(),
            escaped: false,
            mark: None,
        }
    }
}

impl State {
    fn mode(&self) -> Mode {
        self.modes.last().copied().unwrap_or(Mode::Plain(0))
    }

    pub fn read(&mut self, text: &str) {
        let mut before = ' ';
        for c in text.chars() {
            self.next(c, before);
            before = c;
        }
    }

    fn next(&mut self, c: char, before: char) {
        if let Some(here) = self.here.first() {
            if c != '\n' {
                self.line.push(c);
                return;
            }
            let line = std::mem::take(&mut self.line);
            let shown = if here.indented { line.trim_start_matches('\t') } else { &line };
            if shown == here.mark {
                self.here.remove(0);
            }
            return;
        }
        if self.escaped {
            self.escaped = false;
            self.word.push(c);
            return;
        }
        match (self.mode(), c) {
            (Mode::Single, '\'') => _ = self.modes.pop(),
            (Mode::Single, _) => {}
            (Mode::Comment, '\n') => {
                self.modes.pop();
                self.end_of_line();
            }
            (Mode::Comment, _) => {}
            (_, '\\') => self.escaped = true,
            (Mode::Double, '"') => _ = self.modes.pop(),
            (Mode::Double, '(') if before == '$' => self.modes.push(Mode::Plain(1)),
            (Mode::Backquotes, '`') => _ = self.modes.pop(),
            (Mode::Double | Mode::Plain(_), '`') => self.modes.push(Mode::Backquotes),
            (Mode::Double, _) => {}
            (_, '\'') => self.modes.push(Mode::Single),
            (_, '"') => self.modes.push(Mode::Double),
            (Mode::Plain(_), '(') if before == '(' => self.modes.push(Mode::Arithmetic(0)),
            (Mode::Plain(n), '(') => self.replace(Mode::Plain(n + 1)),
            (Mode::Arithmetic(n), '(') => self.replace(Mode::Arithmetic(n + 1)),
            (Mode::Arithmetic(0), ')') => _ = self.modes.pop(),
            (Mode::Arithmetic(n), ')') => self.replace(Mode::Arithmetic(n - 1)),
            (Mode::Plain(1), ')') if self.modes.len() > 1 => _ = self.modes.pop(),
            (Mode::Plain(n), ')') => self.replace(Mode::Plain(n.saturating_sub(1))),
            (Mode::Plain(_), '#') if self.word.is_empty() => self.modes.push(Mode::Comment),
            _ => {}
        }
        self.collect(c, before);
    }

    fn replace(&mut self, mode: Mode) {
        if let Some(last) = self.modes.last_mut() {
            *last = mode;
        }
    }

    /// Words, and the marks of texts that follow on the next lines.
    fn collect(&mut self, c: char, before: char) {
        let ends = c.is_whitespace() || matches!(c, ';' | '&' | '|' | '<' | '>' | '(' | ')');
        let plain = matches!(self.mode(), Mode::Plain(_));
        if let Some(mark) = &mut self.mark {
            match c {
                '-' if mark.mark.is_empty() && before == '<' => mark.indented = true,
                '<' if mark.mark.is_empty() => self.mark = None,
                ' ' | '\t' if mark.mark.is_empty() => {}
                '\'' | '"' | '\\' => mark.literal = true,
                _ if ends => self.announced.extend(self.mark.take()),
                _ => mark.mark.push(c),
            }
        } else if plain && c == '<' && before == '<' {
            self.mark = Some(Here { mark: String::new(), literal: false, indented: false });
        }
        if ends {
            self.word.clear()
        } else {
            self.word.push(c)
        }
        if c == '\n' && plain {
            self.end_of_line();
        }
    }

    fn end_of_line(&mut self) {
        self.word.clear();
        self.announced.extend(self.mark.take());
        self.here.append(&mut self.announced);
    }

    /// How a value is written here.
    pub fn quoted(&mut self, value: &str) -> String {
        let escape = |special: &str| {
            let mut out = String::with_capacity(value.len());
            for c in value.chars() {
                if special.contains(c) {
                    out.push('\\');
                }
                out.push(c);
            }
            out
        };
        if let Some(here) = self.here.first() {
            // One line more could be the mark.
            let out = if here.literal { value.to_string() } else { escape("\\$`") }.replace('\n', " ");
            self.line += &out;
            return out;
        }
        // Something is here that is neither a comment's beginning nor empty.
        self.word.push('x');
        match self.mode() {
            Mode::Comment => value.replace('\n', " "),
            _ if self.modes.contains(&Mode::Backquotes) => unquoted(value),
            Mode::Single => value.replace('\'', "'\\''"),
            Mode::Double => escape("\\$`\""),
            _ => value.split(' ').map(word).collect::<Vec<_>>().join(" "),
        }
    }
}

/// Within backquotes, a backslash before a quote has another meaning: nothing but safe words is put there.
fn unquoted(value: &str) -> String {
    value.chars().filter(|c| safe(*c) || *c == ' ').collect()
}

fn safe(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_-./+:,=@%^".contains(c)
}

/// A word of a command, which the shell takes as it is.
pub(super) fn word(text: &str) -> String {
    if text.chars().all(safe) { text.to_string() } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

#[cfg(test)]
mod tests {
    use crate::cost::{Tokens, substitute};
    use lathe_space::{Value, Values};
    use std::process::Command;

    /// What the shell prints for a text in which `X` stands for a value. An attack that succeeds makes a file `pwned`.
    fn printed(text: &str, value: &str) -> String {
        let dir = tempfile::tempdir().unwrap();
        let values: Values = [("X".to_string(), Value::Str(value.into()))].into();
        let text = substitute(text, &values, Tokens::Shell);
        let out = Command::new("sh").arg("-c").arg(&text).current_dir(dir.path()).output().unwrap();
        assert!(out.status.success(), "{text}\n{}", String::from_utf8_lossy(&out.stderr));
        assert!(!dir.path().join("pwned").exists(), "{text}");
        String::from_utf8_lossy(&out.stdout).into_owned()
    }

    #[test]
    fn values_stay_words_wherever_they_stand() {
        const ATTACKS: [&str; 12] = [
            "; touch pwned",
            "$(touch pwned)",
            "`touch pwned`",
            "' ; touch pwned ; '",
            "\" ; touch pwned ; \"",
            "\n touch pwned",
            "& touch pwned",
            ") ; touch pwned ; (",
            "\\",
            "# \\",
            "\nEOF\ntouch pwned",
            "$X > pwned",
        ];
        let places = [
            "printf '%s\\n' X",
            "printf '%s\\n' aX=b",
            "printf '%s\\n' \"a X b\"",
            "printf '%s\\n' 'a X b'",
            "printf '%s\\n' \"$(printf '%s' X)\"",
            "printf '%s\\n' \"$(printf '%s' \"X\")\" \"X\" 'X' X",
            "true # don't X \"\nprintf '%s\\n' 'X'",
            "cat <<EOF\na X \"it's\"\nEOF\nprintf '%s\\n' 'X'",
            "cat <<'EOF'\na X \"it's\"\nEOF\nprintf '%s\\n' \"X\"",
            "cat <<-EOF\n\tX\n\tEOF\nprintf '%s\\n' X",
            "a=$((1 << 2)); echo \\' \\\" X\necho \"$((3 << (1 + 1)))\" X\necho 'X' \"X\"",
            "echo `echo X` 'X'",
            "if true; then (echo X; echo \"X\"); fi; echo ${#a} 'X'",
        ];
        for place in places {
            for attack in ATTACKS {
                printed(place, attack);
            }
        }
    }

    #[test]
    fn words_arrive_as_they_are() {
        assert_eq!(printed("printf '<%s>' X", "-O2 -fno-x --param=a=1"), "<-O2><-fno-x><--param=a=1>");
        assert_eq!(printed("printf '<%s>' a X", ""), "<a>");
        assert_eq!(printed("printf '<%s>' X", "a'b *"), "<a'b><*>");
        assert_eq!(printed("printf '<%s>' \"X\"", "a'b \"$HOME\" \\"), "<a'b \"$HOME\" \\>");
        assert_eq!(printed("printf '<%s>' 'X'", "a'b \"$HOME\" \\"), "<a'b \"$HOME\" \\>");
        assert_eq!(printed("cat <<E\nX\nE\n", "a'b $HOME `x` \\"), "a'b $HOME `x` \\\n");
        assert_eq!(printed("cat <<'E'\nX\nE\n", "a'b $HOME `x` \\"), "a'b $HOME `x` \\\n");
    }
}
