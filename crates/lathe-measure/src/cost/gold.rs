//! Results that every configuration must reproduce.

use crate::codes;
use lathe_diagnostics::Diagnostic;
use lathe_system::files;
use lathe_tune::{Invalid, Why};
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// When a number is as good as the gold one.
#[derive(Clone)]
pub enum Comparator {
    Equal,
    /// Their difference is at most this.
    Within(f64),
    /// Their difference is at most this part of the gold number, or of 1 where that is smaller.
    Relative(f64),
    /// The user's own: the number, then the gold one.
    By(Arc<dyn Fn(f64, f64) -> bool + Send + Sync>),
}

impl fmt::Debug for Comparator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Comparator::Equal => f.write_str("Equal"),
            Comparator::Within(t) => write!(f, "Within({t})"),
            Comparator::Relative(t) => write!(f, "Relative({t})"),
            Comparator::By(_) => f.write_str("By(..)"),
        }
    }
}

impl Comparator {
    fn accepts(&self, got: f64, gold: f64) -> bool {
        // NaN is as good as NaN; equal infinities have no difference.
        if got == gold || (got.is_nan() && gold.is_nan()) {
            return true;
        }
        match self {
            Comparator::Equal => false,
            Comparator::Within(t) => (got - gold).abs() <= *t,
            Comparator::Relative(t) => (got - gold).abs() <= t * gold.abs().max(1.0),
            Comparator::By(f) => f(got, gold),
        }
    }
}

/// The right result.
#[derive(Clone, Debug)]
pub struct Gold {
    expected: Vec<f64>,
    comparator: Comparator,
}

impl Gold {
    pub fn new(expected: Vec<f64>, comparator: Comparator) -> Gold {
        Gold { expected, comparator }
    }

    /// The right result as another program computes it.
    pub fn from_fn(f: impl FnOnce() -> Vec<f64>, comparator: Comparator) -> Gold {
        Gold::new(f(), comparator)
    }

    /// Reads numbers, separated by white space or commas, from a file.
    ///
    /// # Errors
    /// `E1082` if it cannot be read as such.
    pub fn read(path: &Path, comparator: Comparator) -> Result<Gold, Diagnostic> {
        let bad = |why: String| {
            Diagnostic::error(codes::GOLD, format!("the gold data `{}`: {why}", path.display()))
                .help("a file of numbers, separated by white space or commas")
        };
        let text = files::read_text(path, files::DATA).map_err(|e| bad(e.to_string()))?;
        Ok(Gold::new(numbers(&text).map_err(bad)?, comparator))
    }

    /// The right result.
    pub fn expected(&self) -> &[f64] {
        &self.expected
    }

    /// How numbers are compared with it.
    pub fn comparator(&self) -> &Comparator {
        &self.comparator
    }

    /// Compares a result.
    ///
    /// # Errors
    /// The first difference.
    pub fn check(&self, got: &[f64]) -> Result<(), Invalid> {
        let wrong = |text: String| Err(Invalid::new(Why::Wrong, text));
        if got.len() != self.expected.len() {
            return wrong(format!(
                "the result has {} numbers, the gold data {}",
                got.len(),
                self.expected.len()
            ));
        }
        let differ = got.iter().zip(&self.expected).position(|(g, e)| !self.comparator.accepts(*g, *e));
        match differ {
            Some(i) => wrong(format!("result {i} is {}, the gold data has {}", got[i], self.expected[i])),
            None => Ok(()),
        }
    }

    /// No printed result of the right numbers is longer, as long as people would read it.
    pub fn longest_text(&self) -> u64 {
        (1 << 20) + 64 * self.expected.len() as u64
    }

    /// What is said of a longer one.
    pub fn too_long(&self) -> Invalid {
        let text = format!("the result is too long: the gold data has {} numbers", self.expected.len());
        Invalid::new(Why::Wrong, text)
    }

    /// Compares a printed result.
    ///
    /// # Errors
    /// As [`Gold::check`], and for texts that are not numbers.
    pub fn check_text(&self, text: &str) -> Result<(), Invalid> {
        let got = numbers(text).map_err(|e| Invalid::new(Why::Wrong, format!("the result: {e}")))?;
        self.check(&got)
    }
}

fn numbers(text: &str) -> Result<Vec<f64>, String> {
    let words = text.split(|c: char| c.is_whitespace() || c == ',').filter(|w| !w.is_empty());
    words.map(|w| w.parse().map_err(|_| format!("`{w}` is not a number"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checklist_33_comparators() {
        let gold = |c| Gold::new(vec![1000.0, f64::NAN, f64::INFINITY], c);
        let right = "1000 NaN\ninf";
        let near = "1000.5, NaN, inf";
        assert!(gold(Comparator::Equal).check_text(right).is_ok());
        assert!(gold(Comparator::Equal).check_text(near).is_err());
        assert!(gold(Comparator::Within(0.5)).check_text(near).is_ok());
        assert!(gold(Comparator::Relative(1e-4)).check_text(near).is_err());
        assert!(gold(Comparator::Relative(1e-3)).check_text(near).is_ok());
        let any = Comparator::By(Arc::new(|g, e| g.floor() == e));
        assert!(gold(any).check_text(near).is_ok());
        for wrong in ["1000 NaN", "1000 1 inf", "1000 NaN -inf", "1000 NaN inf inf", "x"] {
            let i = gold(Comparator::Within(1.0)).check_text(wrong).unwrap_err();
            assert_eq!(i.why, Why::Wrong, "{wrong}");
        }
        assert_eq!(Gold::read(Path::new("/nowhere"), Comparator::Equal).unwrap_err().code, codes::GOLD);
    }
}
