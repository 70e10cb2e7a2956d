//! The rules of a file, decided when it is loaded: a file with a rule that does not hold is refused by every command.
//!
//! Decisions are kept by the text of the rule, in this process and in the cache of the user.

use crate::cache::Cache;
use crate::failure::Failure;
use crate::parallel::each;
use lathe_diagnostics::SourceMap;
use lathe_lang::Rule;
use lathe_measure::store::hash_of;
use lathe_pattern::decide::{Decision, How, VERSION, decide_rule};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, OnceLock};

/// How each rule of a file, and of the files that it uses, holds.
///
/// # Errors
/// Every rule that does not hold, or of which that cannot be told.
pub(crate) fn decide(rules: &[Rule], sources: &SourceMap) -> Result<BTreeMap<String, Decision>, Failure> {
    let (mut out, mut wrong) = (BTreeMap::new(), Vec::new());
    let cache = if rules.is_empty() { None } else { Cache::user() };
    let all = each(rules, |r| decided(r, cache.as_deref()));
    for (r, decided) in rules.iter().zip(all) {
        match decided {
            Ok(d) => drop(out.insert(r.equation.name.clone(), d)),
            Err(d) => wrong.push(*d),
        }
    }
    if wrong.is_empty() { Ok(out) } else { Err(Failure::many(sources, wrong)) }
}

fn decided(r: &Rule, cache: Option<&Cache>) -> Result<Decision, Box<lathe_diagnostics::Diagnostic>> {
    static KNOWN: OnceLock<Mutex<HashMap<String, Decision>>> = OnceLock::new();
    let lock = || KNOWN.get_or_init(Mutex::default).lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let (pattern, prove) = (VERSION.to_string(), lathe_prove::VERSION.to_string());
    let key = hash_of(&["rule", env!("LATHE_BUILD"), &pattern, &prove, &r.text]);
    if let Some(d) = lock().get(&key) {
        return Ok(d.clone());
    }
    let kept = cache.and_then(|c| c.get(&key)).and_then(|bytes| read(&bytes));
    let d = match kept {
        Some((how, laws)) => Decision { how, rounds: r.equation.rounds, laws },
        None => {
            let d = decide_rule(&r.equation, r.span).map_err(Box::new)?;
            if let Some(c) = cache {
                c.put(&key, written(&d).as_bytes());
            }
            d
        }
    };
    lock().insert(key, d.clone());
    Ok(d)
}

/// `laws`, then `proved` with what it rests on, or `tested` with how often and why; one a line.
fn written(d: &Decision) -> String {
    let how = match &d.how {
        How::Proved(on) => {
            let on: String = on.iter().map(|p| format!("\n{p}")).collect();
            format!("proved{on}")
        }
        How::Tested(n, why) => format!("tested\n{n}\n{}", why.replace('\n', " ")),
    };
    format!("{}\n{how}", d.laws)
}

fn read(bytes: &[u8]) -> Option<(How, bool)> {
    let text = std::str::from_utf8(bytes).ok()?;
    let mut lines = text.lines();
    let laws = lines.next()?.parse().ok()?;
    let how = match lines.next()? {
        "proved" => How::Proved(lines.map(lathe_prove::Proof::from_text).collect::<Option<Vec<_>>>()?),
        "tested" => How::Tested(lines.next()?.parse().ok()?, lines.next()?.to_string()),
        _ => return None,
    };
    Some((how, laws))
}

#[cfg(test)]
mod tests {
    use super::*;
    use lathe_prove::Proof;

    #[test]
    fn decisions_that_are_kept_are_read_again() {
        let kinds = [
            How::Proved(Vec::new()),
            How::Proved(vec![Proof::NormalForm, Proof::AllValues, Proof::Bits]),
            How::Tested(40, "too many cases".to_string()),
        ];
        for how in kinds {
            for laws in [true, false] {
                let d = Decision { how: how.clone(), rounds: false, laws };
                assert_eq!(read(written(&d).as_bytes()), Some((how.clone(), laws)));
            }
        }
        for bad in ["", "true", "true\nproved\nby luck", "yes\nproved", "true\ntested\nmany\nx"] {
            assert_eq!(read(bad.as_bytes()), None, "{bad}");
        }
    }
}
