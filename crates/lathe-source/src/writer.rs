//! Indented text, and the texts of expressions.

/// Lines of C with the indentation that blocks give them.
#[derive(Clone, Debug)]
pub struct Writer {
    text: String,
    depth: usize,
}

impl Writer {
    pub fn new(depth: usize) -> Writer {
        Writer { text: String::new(), depth }
    }

    pub fn line(&mut self, text: impl AsRef<str>) {
        let text = text.as_ref();
        if text.is_empty() {
            self.text.push('\n');
            return;
        }
        // Directives stand at the line's start.
        if !text.starts_with('#') {
            self.text.extend(std::iter::repeat_n("    ", self.depth));
        }
        self.text.push_str(text);
        self.text.push('\n');
    }

    /// A line that opens a block: `if (x) {`.
    pub fn open(&mut self, text: impl AsRef<str>) {
        self.line(text);
        self.depth += 1;
    }

    /// A line that closes a block.
    pub fn close(&mut self, text: impl AsRef<str>) {
        self.depth = self.depth.saturating_sub(1);
        self.line(text);
    }

    /// What follows belongs to a block that the last line opened.
    pub fn deepen(&mut self) {
        self.depth += 1;
    }

    pub fn depth(&self) -> usize {
        self.depth
    }

    pub fn append(&mut self, other: Writer) {
        self.text.push_str(&other.text);
    }

    pub fn finish(self) -> String {
        self.text
    }
}

/// A name or a literal: cheap to write twice.
pub fn is_atom(text: &str) -> bool {
    let inner = text.trim_start_matches("(-").trim_end_matches(')');
    !inner.is_empty() && inner.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '.')
}

/// Without the parentheses around the whole.
pub fn bare(text: &str) -> &str {
    let Some(inner) = text.strip_prefix('(').and_then(|t| t.strip_suffix(')')) else { return text };
    let mut depth = 0i32;
    for c in inner.chars() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        if depth < 0 {
            return text;
        }
    }
    inner
}
