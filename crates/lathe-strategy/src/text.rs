//! Strategies as text: what [`crate::parse`] reads.

use crate::syntax::{ArgValue, Strategy};
use std::fmt;

/// In the notation of the language; parses back to the same strategy.
impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn level(s: &Strategy) -> u8 {
            match s {
                Strategy::If { .. } => 0,
                Strategy::Choice(_) => 1,
                Strategy::Seq(_) => 2,
                Strategy::At(..) => 3,
                _ => 4,
            }
        }
        fn child(f: &mut fmt::Formatter<'_>, s: &Strategy, at_least: u8) -> fmt::Result {
            if level(s) < at_least { write!(f, "({s})") } else { write!(f, "{s}") }
        }
        fn join(f: &mut fmt::Formatter<'_>, v: &[Strategy], sign: &str, at_least: u8) -> fmt::Result {
            for (n, s) in v.iter().enumerate() {
                if n > 0 {
                    f.write_str(sign)?;
                }
                child(f, s, at_least)?;
            }
            Ok(())
        }
        match self {
            Strategy::Id => f.write_str("id"),
            Strategy::Fail(_) => f.write_str("fail"),
            Strategy::Seq(v) if v.is_empty() => f.write_str("id"),
            Strategy::Choice(v) if v.is_empty() => f.write_str("fail"),
            Strategy::Seq(v) => join(f, v, " ; ", 3),
            Strategy::Choice(v) => join(f, v, " <+ ", 2),
            Strategy::At(s, place) => {
                child(f, s, 3)?;
                f.write_str(" @ ")?;
                child(f, place, 4)
            }
            Strategy::If { cond, then, other, .. } => write!(f, "if {cond} then {then} else {other}"),
            Strategy::Call { name, args, .. } => {
                f.write_str(name)?;
                if args.is_empty() {
                    return Ok(());
                }
                f.write_str("(")?;
                for (n, a) in args.iter().enumerate() {
                    if n > 0 {
                        f.write_str(", ")?;
                    }
                    if let Some(name) = &a.name {
                        write!(f, "{name}: ")?;
                    }
                    match &a.value {
                        ArgValue::Expr(e) => write!(f, "{e}")?,
                        ArgValue::Strategy(s) => write!(f, "{s}")?,
                    }
                }
                f.write_str(")")
            }
        }
    }
}
