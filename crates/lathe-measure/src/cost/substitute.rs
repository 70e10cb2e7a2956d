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
    match tokens {
        Tokens::Code => {
            let values: Vec<(String, String)> =
                values.iter().map(|(n, v)| (n.clone(), v.to_string())).collect();
            lathe_space::formats::substitute::substitute(text, &values)
        }
        Tokens::Shell => shell(text, values),
    }
}

/// Words of a script reach over hyphens, and those after a `$` are the environment's.
fn shell(text: &str, values: &Values) -> String {
    let part = |c: char| c == '_' || c == '-' || c.is_alphanumeric();
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let word = &rest[..rest.find(|c| !part(c)).unwrap_or(rest.len())];
        let variable = out.ends_with('$') || out.ends_with("${");
        match values.get(word).filter(|_| !variable) {
            Some(value) => out += &value.to_string(),
            None => out += word,
        }
        rest = &rest[word.len()..];
        let between = &rest[..rest.find(part).unwrap_or(rest.len())];
        out += between;
        rest = &rest[between.len()..];
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
