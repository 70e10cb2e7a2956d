//! The dialects of more than one crate: of `.lathe` files, and of expressions and strategies by themselves.

use crate::lex::{Dialect, Grammar};

/// The codes of `.lathe` text, and of what is written as there; `lathe-lang` documents them.
pub mod codes {
    use lathe_diagnostics::Code;

    pub const CHARACTER: Code = Code("E0101");
    pub const NUMBER: Code = Code("E0102");
    pub const STRING: Code = Code("E0103");
    pub const EXPECTED: Code = Code("E0105");
    pub const NESTING: Code = Code("E0106");
    pub const CHAIN: Code = Code("E0107");
}

/// The reserved words of `.lathe` files.
pub const WORDS: &[&str] = &[
    "kernel",
    "fun",
    "struct",
    "op",
    "rule",
    "strategy",
    "use",
    "test",
    "derivative",
    "for",
    "in",
    "where",
    "step",
    "let",
    "var",
    "if",
    "then",
    "else",
    "while",
    "break",
    "assume",
    "inout",
    "or",
    "and",
    "not",
    "true",
    "false",
    "inf",
    "nan",
];

const SYMBOLS: &[&str] = &[
    "..=", "..", "->", "=>", "==", "!=", "<=", ">=", "<+", "<<", ">>", "|>", "//", "+=", "-=", "*=", ";;",
    ";", ",", ":", ".", "@", "|", "+", "-", "*", "/", "%", "<", ">", "=", "(", ")", "[", "]", "{", "}", "?",
];

const HINTS: &[(&str, &str)] = &[
    ("&", "write `and`, or `bitand(a, b)` on integers"),
    ("^", "write `pow(a, b)`, or `bitxor(a, b)` on integers"),
    ("!", "write `not`"),
    ("?", "a choice is `select(condition, a, b)`"),
];

/// `.lathe` files: kernels, funs, rules, strategies and tests.
pub static SOURCE: Dialect = Dialect {
    imaginary: true,
    words: WORDS,
    symbols: SYMBOLS,
    quotes: &['"'],
    letter: |c| c.is_ascii_alphanumeric() || c == '_',
    comments: true,
    tree: false,
    reserved: "choose another name",
    hints: HINTS,
};

/// Expressions and strategies by themselves: in options, stored evidence, and libraries. Every name can be in them that
/// is not a word of these two.
pub static EXPRESSIONS: Dialect = Dialect {
    imaginary: false,
    words: &["if", "then", "else", "or", "and", "not", "true", "false"],
    letter: |c| c.is_alphanumeric() || c == '_',
    comments: false,
    ..SOURCE
};

/// The form of kernels, and of all that has no grammar of its own.
pub static KERNELS: Grammar = Grammar {
    character: codes::CHARACTER,
    number: codes::NUMBER,
    string: codes::STRING,
    expected: codes::EXPECTED,
    nesting: codes::NESTING,
    chain: codes::CHAIN,
    depth: 100,
    shallower: "bind parts of it with `let`",
};
