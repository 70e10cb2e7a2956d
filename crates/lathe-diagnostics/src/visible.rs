//! Text from files, displayed but not interpreted by the terminal: control characters would move the cursor, change
//! colours, or set titles, and marks of writing direction would show code in another order than it is read.

use std::borrow::Cow;

/// What stands for a character that must not be sent to a terminal; `None` for all others. Line ends and tabs are text.
fn shown(c: char) -> Option<String> {
    match c {
        '\n' | '\t' => None,
        // Unicode has pictures of the control characters of ASCII.
        '\0'..='\u{1f}' => char::from_u32(0x2400 + c as u32).map(String::from),
        '\u{7f}' => Some('\u{2421}'.to_string()),
        '\u{80}'..='\u{9f}'
        | '\u{61c}'
        | '\u{200e}'
        | '\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2066}'..='\u{2069}' => Some(format!("<U+{:04X}>", c as u32)),
        _ => None,
    }
}

/// Whether a terminal would obey a character instead of showing it.
pub fn is_obeyed(c: char) -> bool {
    shown(c).is_some()
}

/// A text with control characters shown. Most have none and are given back as they are.
pub fn visible(text: &str) -> Cow<'_, str> {
    if text.chars().all(|c| shown(c).is_none()) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(Visible::new(text).text)
}

/// A text with control characters shown, and where its parts have gone.
#[derive(Clone, Debug, Default)]
pub struct Visible {
    pub text: String,
    /// After which byte of the original text everything stands so many bytes further back.
    shifts: Vec<(usize, usize)>,
}

impl Visible {
    pub fn new(text: &str) -> Visible {
        let mut out = Visible { text: String::with_capacity(text.len()), shifts: Vec::new() };
        for (at, c) in text.char_indices() {
            // As the end of a line it does not move the cursor.
            let ends = c == '\r' && text[at + 1..].starts_with('\n');
            match shown(c).filter(|_| !ends) {
                Some(picture) => {
                    out.text += &picture;
                    let shift = out.text.len() - (at + c.len_utf8());
                    out.shifts.push((at + c.len_utf8(), shift));
                }
                None => out.text.push(c),
            }
        }
        out
    }

    /// Where a byte of the original text is now.
    pub fn place(&self, at: usize) -> usize {
        let passed = self.shifts.partition_point(|s| s.0 <= at);
        at + passed.checked_sub(1).map_or(0, |i| self.shifts[i].1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_shown_and_texts_are_not_touched() {
        for plain in ["", "a\tb\n", "naïve ∑ 界", "→"] {
            assert!(matches!(visible(plain), Cow::Borrowed(t) if t == plain));
        }
        assert_eq!(visible("a\u{1b}[31mb\r\u{7}"), "a␛[31mb␍␇");
        assert_eq!(visible("\u{9b}2J\u{7f}\u{202e}"), "<U+009B>2J␡<U+202E>");
        assert_eq!(Visible::new("a\r\nb\rc").text, "a\r\nb␍c");
    }

    #[test]
    fn places_follow() {
        let text = "ab\u{1b}cd\u{202e}ef";
        let v = Visible::new(text);
        for (at, c) in text.char_indices().filter(|(_, c)| c.is_ascii_alphabetic()) {
            assert!(v.text[v.place(at)..].starts_with(c), "{c}");
        }
        assert_eq!(v.place(text.len()), v.text.len());
        // The mark of a character that is shown begins where its picture does.
        assert!(v.text[v.place(2)..].starts_with('␛'));
    }
}
