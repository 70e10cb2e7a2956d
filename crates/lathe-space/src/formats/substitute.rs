//! Names of parameters in a source text replaced by values.

use crate::space::Configuration;

/// Replaces every occurrence of each name by its value, all at once: what was put in is not looked at again.
///
/// An occurrence is a whole token: no letter, digit or underscore beside it, and for a name that itself has a
/// `-` or `.` (as names of compiler flags do) none of these either.
pub fn substitute(text: &str, values: &[(String, String)]) -> String {
    let mut names: Vec<&(String, String)> = values.iter().filter(|v| !v.0.is_empty()).collect();
    // At one place the longest name counts.
    names.sort_by_key(|v| std::cmp::Reverse(v.0.len()));
    let mut by_first: std::collections::HashMap<char, Vec<&(String, String)>> = Default::default();
    for n in names {
        by_first.entry(n.0.chars().next().unwrap_or(' ')).or_default().push(n);
    }
    let mut out = String::with_capacity(text.len());
    let mut before: Option<char> = None;
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        let here = &text[at..];
        let found = by_first.get(&c).into_iter().flatten().find(|(name, _)| {
            here.strip_prefix(name.as_str()).is_some_and(|after| {
                let wide = name.contains(['-', '.']);
                let inside = |c: char| c == '_' || c.is_alphanumeric() || (wide && (c == '-' || c == '.'));
                let follows = after.chars().next().is_some_and(|c| {
                    // A full stop at the end of a sentence or path part is not part of the name.
                    let stop = after.strip_prefix('.').is_some_and(|a| !a.starts_with(char::is_alphanumeric));
                    inside(c) && !stop
                });
                !before.is_some_and(inside) && !follows
            })
        });
        match found {
            Some((name, value)) => {
                out.push_str(value);
                before = name.chars().next_back();
                at += name.len();
            }
            None => {
                out.push(c);
                before = Some(c);
                at += c.len_utf8();
            }
        }
    }
    out
}

/// The text for a configuration.
pub fn configured(text: &str, c: &Configuration) -> String {
    let values: Vec<(String, String)> = c.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect();
    substitute(text, &values)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replaced(text: &str, values: &[(&str, &str)]) -> String {
        let values: Vec<(String, String)> =
            values.iter().map(|(a, b)| (a.to_string(), b.to_string())).collect();
        substitute(text, &values)
    }

    #[test]
    fn whole_tokens_only() {
        let v = [("WPT", "4"), ("WPT_X", "8"), ("LS", "WPT")];
        assert_eq!(replaced("WPT WPTX x-WPT*WPT_X _WPT LS;", &v), "4 WPTX x-4*8 _WPT WPT;");
        assert_eq!(replaced("", &v), "");
        assert_eq!(replaced("äWPT ä WPT", &v), "äWPT ä 4");
    }

    #[test]
    fn names_of_flags() {
        let v = [("align-jumps", "-falign-jumps"), ("inline-insns_val", "7")];
        let text = "g++ align-jumps -fno-align-jumps --param inline-insns=inline-insns_val align-jumps.";
        let wanted = "g++ -falign-jumps -fno-align-jumps --param inline-insns=7 -falign-jumps.";
        assert_eq!(replaced(text, &v), wanted);
    }
}
