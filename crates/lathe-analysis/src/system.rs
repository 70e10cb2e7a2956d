//! Systems of linear constraints over integer unknowns, with disjunctions.

/// An unknown of a [`System`].
pub(crate) type Col = u32;

/// `sum of coefficient * unknown, plus a constant`; terms sorted by unknown, none zero.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Lin {
    pub terms: Vec<(Col, i64)>,
    pub c: i64,
}

impl Lin {
    pub fn constant(c: i64) -> Lin {
        Lin { terms: Vec::new(), c }
    }

    pub fn col(col: Col) -> Lin {
        Lin { terms: vec![(col, 1)], c: 0 }
    }

    pub fn coefficient(&self, col: Col) -> i64 {
        self.terms.binary_search_by_key(&col, |t| t.0).map_or(0, |i| self.terms[i].1)
    }

    /// `a * self + b * other`; `None` on overflow.
    pub fn combine(&self, a: i64, other: &Lin, b: i64) -> Option<Lin> {
        let mut terms = Vec::with_capacity(self.terms.len() + other.terms.len());
        let (mut i, mut j) = (0, 0);
        loop {
            let (x, y) = (self.terms.get(i), other.terms.get(j));
            let (col, v) = match (x, y) {
                (None, None) => break,
                (Some(x), Some(y)) if x.0 == y.0 => {
                    i += 1;
                    j += 1;
                    (x.0, x.1.checked_mul(a)?.checked_add(y.1.checked_mul(b)?)?)
                }
                (Some(x), None) => {
                    i += 1;
                    (x.0, x.1.checked_mul(a)?)
                }
                (Some(x), Some(y)) if x.0 < y.0 => {
                    i += 1;
                    (x.0, x.1.checked_mul(a)?)
                }
                (_, Some(y)) => {
                    j += 1;
                    (y.0, y.1.checked_mul(b)?)
                }
            };
            if v != 0 {
                terms.push((col, v));
            }
        }
        let c = self.c.checked_mul(a)?.checked_add(other.c.checked_mul(b)?)?;
        Some(Lin { terms, c })
    }

    pub fn add(&self, other: &Lin) -> Option<Lin> {
        self.combine(1, other, 1)
    }

    pub fn sub(&self, other: &Lin) -> Option<Lin> {
        self.combine(1, other, -1)
    }

    pub fn scale(&self, k: i64) -> Option<Lin> {
        self.combine(k, &Lin::default(), 0)
    }

    pub fn plus(&self, k: i64) -> Option<Lin> {
        Some(Lin { terms: self.terms.clone(), c: self.c.checked_add(k)? })
    }

    /// The value at a point; `None` on overflow. Unknowns beyond the point count as zero.
    pub fn at(&self, point: &[i64]) -> Option<i64> {
        let mut out = self.c;
        for (col, k) in &self.terms {
            let v = point.get(*col as usize).copied().unwrap_or(0);
            out = out.checked_add(k.checked_mul(v)?)?;
        }
        Some(out)
    }
}

/// `lin == 0` or `lin >= 0`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Con {
    pub lin: Lin,
    pub eq: bool,
}

impl Con {
    pub fn holds(&self, point: &[i64]) -> bool {
        self.lin.at(point).is_some_and(|v| if self.eq { v == 0 } else { v >= 0 })
    }
}

/// A conjunction of constraints.
pub(crate) type Conj = Vec<Con>;

/// Constraints, and clauses of which one alternative each must hold. Dropping a constraint makes the
/// system larger, never smaller: what has no point then has none at all.
#[derive(Clone, Debug, Default)]
pub(crate) struct System {
    pub columns: u32,
    pub cons: Conj,
    pub clauses: Vec<Vec<Conj>>,
    /// Nothing was dropped, and no unknown stands for a value that is not an integer variable: a point
    /// of the system is one of the program.
    pub exact: bool,
    /// An unknown stands for a value that the surroundings fix, but not by affine arithmetic
    /// (`M * N`): a point need not be one of the program, but nothing was left out.
    pub symbolic: bool,
}

impl System {
    pub fn new() -> System {
        System { exact: true, ..System::default() }
    }

    pub fn fresh(&mut self) -> Col {
        self.columns += 1;
        self.columns - 1
    }

    /// Adds a constraint that arithmetic may have failed to build.
    pub fn push(&mut self, con: Option<Con>) {
        match con {
            Some(c) => self.cons.push(c),
            None => self.exact = false,
        }
    }

    /// `a >= b`
    pub fn ge(&mut self, a: &Lin, b: &Lin) {
        self.push(ge(a, b));
    }

    /// `a == b`
    pub fn eq(&mut self, a: &Lin, b: &Lin) {
        self.push(eq(a, b));
    }

    pub fn clause(&mut self, mut alternatives: Vec<Conj>) {
        match alternatives.len() {
            1 => self.cons.append(&mut alternatives[0]),
            _ => self.clauses.push(alternatives),
        }
    }
}

/// `a >= b`
pub(crate) fn ge(a: &Lin, b: &Lin) -> Option<Con> {
    Some(Con { lin: a.sub(b)?, eq: false })
}

/// `a > b`
pub(crate) fn gt(a: &Lin, b: &Lin) -> Option<Con> {
    Some(Con { lin: a.sub(b)?.plus(-1)?, eq: false })
}

/// `a == b`
pub(crate) fn eq(a: &Lin, b: &Lin) -> Option<Con> {
    Some(Con { lin: a.sub(b)?, eq: true })
}
