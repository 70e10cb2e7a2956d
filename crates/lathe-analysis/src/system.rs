//! Systems of linear constraints over integer unknowns, with disjunctions.

use lathe_poly::Form;

/// An unknown of a [`System`].
pub(crate) type Col = u32;

/// A linear form over unknowns.
pub(crate) type Lin = Form<Col>;

/// `lin == 0` or `lin >= 0`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Con {
    pub lin: Lin,
    pub eq: bool,
}

impl Con {
    pub fn holds(&self, point: &[i64]) -> bool {
        self.lin.at(point).is_some_and(|v| if self.eq { v == 0 } else { v >= 0 })
    }
}

impl Con {
    /// The same about unknowns of which those from `kept` on are numbered `by` higher.
    pub fn moved(&self, kept: Col, by: Col) -> Con {
        let mut lin = self.lin.clone();
        for t in &mut lin.terms {
            if t.0 >= kept {
                t.0 += by;
            }
        }
        Con { lin, eq: self.eq }
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
    Some(Con { lin: a.minus(b)?, eq: false })
}

/// `a > b`
pub(crate) fn gt(a: &Lin, b: &Lin) -> Option<Con> {
    Some(Con { lin: a.minus(b)?.offset(-1)?, eq: false })
}

/// `a == b`
pub(crate) fn eq(a: &Lin, b: &Lin) -> Option<Con> {
    Some(Con { lin: a.minus(b)?, eq: true })
}
