//! Parameters' names in a program's text become their values.

use lathe_space::Values;

/// What counts as a part of a word, beside letters, digits and underscores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tokens {
    /// Program text: `N-TILE` is a difference of two names.
    Code,
    /// Scripts: `-ftile-loops` is one word, in which no parameter is named; `$TILE` is the environment's.
    Shell,
}

impl Tokens {
    /// By how a text begins and what its file is called.
    pub fn of(name: &str, text: &str) -> Tokens {
        if text.starts_with("#!") || name.ends_with(".sh") { Tokens::Shell } else { Tokens::Code }
    }
}

/// Replaces every whole word that is a parameter's name by its value, once: a value that is another parameter's
/// name stays.
pub fn substitute(text: &str, values: &Values, tokens: Tokens) -> String {
    let part = |c: char| c == '_' || c.is_alphanumeric();
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    // Whether what was copied last ends inside of a word, or names a variable.
    let mut inside = false;
    while let Some(c) = rest.chars().next() {
        let found = (!inside).then(|| {
            values
                .iter()
                .filter(|(n, _)| !n.is_empty() && rest.starts_with(n.as_str()))
                .max_by_key(|(n, _)| n.len())
        });
        if let Some((name, value)) = found.flatten() {
            let mut after = rest[name.len()..].chars();
            let next = after.next();
            let joined = match next {
                Some(c) if part(c) => name.chars().next_back().is_some_and(part),
                // A hyphen joins what it stands between.
                Some('-') => tokens == Tokens::Shell && after.next().is_some_and(part),
                _ => false,
            };
            if !joined {
                out += &value.to_string();
                rest = &rest[name.len()..];
                inside = name.chars().next_back().is_some_and(part);
                continue;
            }
        }
        let variable = tokens == Tokens::Shell && (c == '$' || (c == '{' && out.ends_with('$')));
        out.push(c);
        rest = &rest[c.len_utf8()..];
        inside = part(c) || variable || (tokens == Tokens::Shell && c == '-');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use lathe_space::Value;

    fn values() -> Values {
        let v = |n: &str, v| (n.to_string(), v);
        [
            v("UNROLL", Value::Int(4)),
            v("U", Value::Int(9)),
            v("loops", Value::Str("-fpeel-loops".into())),
            v("OTHER", Value::Str("UNROLL".into())),
            v("-fx", Value::Str("-fno-x".into())),
            v("F", Value::Float(0.5)),
        ]
        .into()
    }

    #[test]
    fn whole_words_only() {
        let code = |t: &str| substitute(t, &values(), Tokens::Code);
        assert_eq!(
            code("for (i = 0; i < N-UNROLL; i += UNROLL) UNROLLED(U);"),
            "for (i = 0; i < N-4; i += 4) UNROLLED(9);"
        );
        assert_eq!(
            code("x_UNROLL UNROLL_x UNROLL2 2UNROLL éUNROLL UNROLL"),
            "x_UNROLL UNROLL_x UNROLL2 2UNROLL éUNROLL 4"
        );
        assert_eq!(code("OTHER F F.5"), "UNROLL 0.5 0.5.5");
        assert_eq!(code(""), "");
    }

    #[test]
    fn checklist_36_flags_in_scripts_are_one_word() {
        let shell = |t: &str| substitute(t, &values(), Tokens::Shell);
        assert_eq!(
            shell("gcc -funroll-loops loops -DUNROLL=UNROLL -fx -fxy a.c"),
            "gcc -funroll-loops -fpeel-loops -DUNROLL=4 -fno-x -fxy a.c"
        );
        assert_eq!(shell("echo $((8-2)) UNROLL; U"), "echo $((8-2)) 4; 9");
        assert_eq!(
            shell("echo $UNROLL ${UNROLL} $(UNROLL) $((UNROLL)) {UNROLL}"),
            "echo $UNROLL ${UNROLL} $(4) $((4)) {4}"
        );
    }
}
