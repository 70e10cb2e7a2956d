//! Long lines cut to what is around the places that a message marks.

use std::ops::Range;

/// Lines up to this many characters are shown as they are.
const LONGEST: usize = 100;
/// Characters that are kept before and after a marked place, and of a long marked place at each of its ends.
const AROUND: usize = 20;
/// Stands for what was left out.
const ELLIPSIS: &str = "…";

/// A text in which parts of long lines are left out.
#[derive(Debug)]
pub struct Cut {
    pub text: String,
    /// What was left out: bytes of the whole text, in order.
    removed: Vec<Range<usize>>,
}

impl Cut {
    /// Cuts the lines of the marked places, and those next to them.
    pub fn new(text: &str, marks: &[Range<usize>]) -> Cut {
        let mut removed: Vec<Range<usize>> = Vec::new();
        for line in lines_near(text, marks) {
            removed.extend(leave_out(text, line, marks));
        }
        let (mut out, mut at) = (String::new(), 0);
        for r in &removed {
            out += &text[at..r.start];
            out += ELLIPSIS;
            at = r.end;
        }
        out += &text[at..];
        Cut { text: out, removed }
    }

    /// Where a byte of the whole text is now; one that was left out is where its ellipsis is.
    pub fn place(&self, at: usize) -> usize {
        let mut shift = 0usize;
        for r in &self.removed {
            if r.start >= at {
                break;
            }
            if at < r.end {
                return r.start - shift;
            }
            shift += r.len() - ELLIPSIS.len();
        }
        at - shift
    }

    /// How many more bytes of its line was before a byte of the cut text.
    pub fn left_out_before(&self, at: usize) -> usize {
        let line = self.text[..at.min(self.text.len())].rfind('\n').map_or(0, |n| n + 1);
        let (mut shift, mut out) = (0usize, 0usize);
        for r in &self.removed {
            let here = r.start - shift;
            if here >= at {
                break;
            }
            shift += r.len() - ELLIPSIS.len();
            if here >= line {
                out += r.len() - ELLIPSIS.len();
            }
        }
        out
    }
}

/// The lines of both ends of each marked place, with the lines before and after, in order and without their ends.
fn lines_near(text: &str, marks: &[Range<usize>]) -> Vec<Range<usize>> {
    let line_at = |at: usize| {
        let start = text[..at].rfind('\n').map_or(0, |n| n + 1);
        let end = text[at..].find('\n').map_or(text.len(), |n| at + n);
        start..end
    };
    let mut out: Vec<Range<usize>> = Vec::new();
    for at in marks.iter().flat_map(|m| [m.start, m.end]) {
        let line = line_at(boundary(text, at));
        out.extend((line.start > 0).then(|| line_at(line.start - 1)));
        out.extend((line.end < text.len()).then(|| line_at(line.end + 1)));
        out.push(line);
    }
    out.sort_by_key(|l| l.start);
    out.dedup();
    out
}

/// The parts of a line that are not shown.
fn leave_out(text: &str, line: Range<usize>, marks: &[Range<usize>]) -> Vec<Range<usize>> {
    let content = &text[line.clone()];
    if content.len() <= LONGEST || content.chars().count() <= LONGEST {
        return Vec::new();
    }
    let chars =
        |from: usize, n: usize| text[from..line.end].char_indices().nth(n).map_or(line.end, |c| from + c.0);
    let back = |to: usize, n: usize| {
        text[line.start..to]
            .char_indices()
            .rev()
            .nth(n.saturating_sub(1))
            .map_or(line.start, |c| line.start + c.0)
    };
    let mut keep: Vec<Range<usize>> = Vec::new();
    for at in marks.iter().flat_map(|m| [m.start, m.end]).map(|at| boundary(text, at)) {
        if (line.start..=line.end).contains(&at) {
            keep.push(back(at, AROUND)..chars(at, AROUND));
        }
    }
    if keep.is_empty() {
        keep.push(line.start..chars(line.start, LONGEST - 1));
    }
    // What is asked for first is shown; places that come too far behind it have their ellipsis.
    let mut room = LONGEST;
    keep.retain(|k| {
        let n = text[k.clone()].chars().count();
        let fits = n <= room;
        room -= if fits { n } else { 0 };
        fits
    });
    keep.sort_by_key(|k| k.start);
    let (mut out, mut at) = (Vec::new(), line.start);
    for k in keep {
        if k.start > at + ELLIPSIS.len() {
            out.push(at..k.start);
        }
        at = at.max(k.end);
    }
    if line.end > at + ELLIPSIS.len() {
        out.push(at..line.end);
    }
    out
}

/// The last boundary of a character up to here.
fn boundary(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// A text of a message, cut to what can be read, and with nothing in it that a terminal would obey.
pub fn sentence(text: &str) -> String {
    const MOST: usize = 1500;
    let text = &*lathe_diagnostics::visible(text);
    match text.char_indices().nth(MOST) {
        Some((at, _)) => format!("{}{ELLIPSIS}", &text[..at]),
        None => text.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, marks: &[Range<usize>]) -> Cut {
        let cut = Cut::new(text, marks);
        for line in lines_near(
            &cut.text,
            &marks.iter().map(|m| cut.place(m.start)..cut.place(m.end)).collect::<Vec<_>>(),
        ) {
            assert!(cut.text[line].chars().count() <= LONGEST + 10);
        }
        for m in marks {
            let (old, new) =
                (text[..m.start].matches('\n').count(), cut.text[..cut.place(m.start)].matches('\n').count());
            assert_eq!(old, new, "lines stay lines");
        }
        cut
    }

    fn one(mark: Range<usize>) -> Vec<Range<usize>> {
        std::iter::once(mark).collect()
    }

    #[test]
    fn short_lines_stay() {
        let text = "a\nbb\nccc";
        assert_eq!(check(text, &one(2..4)).text, text);
        assert_eq!(check("", &one(0..0)).text, "");
    }

    #[test]
    fn marked_places_are_kept() {
        let text = format!(
            "{}\n{}NEEDLE{}\n{}",
            "é".repeat(300),
            "x".repeat(5000),
            "y".repeat(5000),
            "z".repeat(101)
        );
        let at = text.find("NEEDLE").unwrap();
        let cut = check(&text, &one(at..at + 6));
        let new = cut.place(at);
        assert_eq!(&cut.text[new..cut.place(at + 6)], "NEEDLE");
        assert!(cut.text.len() < 800, "{}", cut.text.len());
        // Its column is the one of the whole line.
        let line = cut.text[..new].rfind('\n').unwrap() + 1;
        assert_eq!(new - line + cut.left_out_before(new), 5000);
    }

    #[test]
    fn many_places_and_long_places() {
        let text = "w".repeat(100_000);
        let marks: Vec<Range<usize>> = (0..100).map(|k| 1000 * k..1000 * k + 3).collect();
        let cut = check(&text, &marks);
        assert!(cut.text.chars().count() <= LONGEST + 10);
        assert!(marks.iter().all(|m| cut.place(m.end) <= cut.text.len()));
        let cut = check(&text, &one(500..90_000));
        assert!(cut.place(500) < cut.place(90_000));
    }
}
