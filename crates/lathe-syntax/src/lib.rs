//! What all texts of Lathe have in common: one lexer, one cursor over tokens, one grammar of expressions.
//!
//! A language is a [`Dialect`] (which words are reserved, which symbols there are) and a [`Grammar`] (codes of its
//! messages, how deep it nests). Its parser is a type that derefs to a [`Cursor`] ([`parser!`]): [`Rules`] gives it
//! lists and brackets, [`Expressions`] precedence climbing, and it says itself what operands are and what is made of them.
//! Parsers of several languages can share a cursor: kernels, terms and strategies of one file do.

mod climb;
mod cursor;
mod dialects;
mod lex;

pub use climb::{Expressions, Operator, Sign};
pub use cursor::{Cursor, Number, Read, Rules, read_all};
pub use dialects::{EXPRESSIONS, KERNELS, SOURCE, WORDS, codes};
pub use lex::{Comment, Dialect, Grammar, Lexed, Tok, Token, lex, quote, unquote};
