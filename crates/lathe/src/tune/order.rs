//! How several costs are compared, as text.

use super::codes;
use lathe_diagnostics::Diagnostic;
use lathe_space::{Expr, Value, eval, names, parse};
use lathe_tune::{Cost, Order};
use std::sync::Arc;

/// Reads `lexicographic`, `lexicographic(0.05)` (costs within 5 % are equal), `pareto`, or an expression whose value
/// is to be small, in which `c1`, `c2`, … are the costs: `c1 + 0.1 * c2`.
///
/// # Errors
/// `E1088` for what is none of these.
pub fn order(text: &str) -> Result<Order, Diagnostic> {
    let text = text.trim();
    let wrong = |why| wrong(text, why);
    match text {
        "pareto" => return Ok(Order::Pareto),
        "lexicographic" => return Ok(Order::default()),
        _ => {}
    }
    if let Some(inside) = text.strip_prefix("lexicographic(").and_then(|t| t.strip_suffix(')')) {
        let tolerance: f64 =
            inside.trim().parse().map_err(|_| wrong(format!("`{inside}` is not a number")))?;
        if !(0.0..1.0).contains(&tolerance) {
            return Err(wrong("a tolerance must be at least 0 and below 1".to_string()));
        }
        return Ok(Order::Lexicographic { tolerance });
    }
    let expr = parse(text).map_err(|e| wrong(e.message))?;
    let used = names(&expr);
    if used.is_empty() {
        return Err(wrong("it uses no cost".to_string()));
    }
    if let Some(other) = used.iter().find(|n| position(n).is_none()) {
        return Err(wrong(format!("unknown `{other}`; costs are c1, c2, …")));
    }
    let objectives = used.iter().filter_map(|n| position(n)).max().map_or(1, |last| last + 1);
    let compare = Arc::new(move |a: &Cost, b: &Cost| value(&expr, a).total_cmp(&value(&expr, b)));
    Ok(Order::By { compare, objectives })
}

/// Whether an order that [`order`] has read means something for the costs of the best configuration.
///
/// # Errors
/// `E1088` if it is an expression that has no value for them.
pub(super) fn means_something(text: &str, best: &Cost) -> Result<(), Diagnostic> {
    match (order(text)?, parse(text.trim())) {
        (Order::By { .. }, Ok(expr)) if !value(&expr, best).is_finite() => {
            Err(wrong(text, format!("it has no value for the costs {best}")))
        }
        _ => Ok(()),
    }
}

fn wrong(text: &str, why: String) -> Diagnostic {
    Diagnostic::error(codes::OPTIONS, format!("`{text}` is not a valid order of costs: {why}"))
        .help("lexicographic, lexicographic(0.05), pareto, or an expression: c1 + 0.1 * c2")
}

/// What cannot be evaluated is worse than everything else.
fn value(expr: &Expr, c: &Cost) -> f64 {
    let at = |n: &str| position(n).and_then(|i| c.numbers().get(i)).map(|v| Value::Float(*v));
    match eval(expr, &at) {
        Ok(Value::Float(v)) if !v.is_nan() => v,
        Ok(Value::Int(v)) => v as f64,
        _ => f64::INFINITY,
    }
}

/// The position of `c1`, `c2`, …
fn position(name: &str) -> Option<usize> {
    let digits = name.strip_prefix('c')?;
    let n: usize = digits.parse().ok()?;
    (n > 0 && !digits.starts_with(['0', '+'])).then(|| n - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checklist_34_orders_are_read() {
        let less = |text: &str, a: (f64, f64), b: (f64, f64)| {
            order(text).unwrap().compare(&a.into(), &b.into()).is_lt()
        };
        assert!(less("lexicographic", (1.0, 9.0), (1.01, 1.0)));
        let tolerant = order("lexicographic(0.1)").unwrap();
        assert!(matches!(tolerant, Order::Lexicographic { tolerance } if tolerance == 0.1));
        assert!(less("c1 * c2", (2.0, 3.0), (1.0, 9.0)) && less("c2", (9.0, 1.0), (1.0, 2.0)));
        // A missing cost is never better.
        assert!(less("c1", (5.0, 0.0), (6.0, 0.0)) && !less("c3", (1.0, 0.0), (2.0, 0.0)));
        assert!(matches!(order("pareto"), Ok(Order::Pareto)));
        let needed = |text: &str| order(text).unwrap().objectives();
        assert_eq!([needed("pareto"), needed("c2"), needed("c3 + c1 * c3")], [1, 2, 3]);
        for wrong in ["", "best", "c0", "c1 +", "lexicographic(2)", "lexicographic(x)", "3", "c01"] {
            assert_eq!(order(wrong).unwrap_err().code, codes::OPTIONS, "{wrong}");
        }
    }
}
