//! Parsing of computes: dimensions, guards, targets.

use super::*;

impl Parser {
    pub(super) fn compute(&mut self, start: Span) -> Parsed<Piece> {
        let Tok::Label(text) = self.peek() else { return self.expected("a label in single quotes") };
        let label = Label::new(text);
        self.bump();
        let mut bound = Vec::new();
        let header = self.compute_dims(&mut bound);
        let at = self.span_from(start);
        let compute = match header {
            Ok(dims) => self.compute_body(label, dims),
            Err(Failed) => Err(Failed),
        };
        bound.into_iter().rev().for_each(|v| self.scope.unbind_var(v));
        let kind = StmtKind::Compute(compute?);
        Ok(Piece::Whole(Stmt::new(kind, Places::one(at))))
    }

    pub(super) fn compute_dims(&mut self, bound: &mut Vec<VarId>) -> Parsed<Vec<Dim>> {
        let mut dims = Vec::new();
        if !self.eat_word("over") {
            return Ok(dims);
        }
        loop {
            let binder = self.binder("the name of an index")?;
            self.expect_word("in")?;
            let (lo, hi) = self.range()?;
            let scan = self.at_word("scan");
            let combine = if scan || self.at_word("reduce") {
                self.bump();
                self.expect("(")?;
                let op = self.op_name()?;
                self.expect(")")?;
                if scan { Combine::Scan(op) } else { Combine::Reduce(op) }
            } else {
                Combine::Concat
            };
            self.scope.bind_var(&binder);
            bound.push(binder.id);
            dims.push(Dim { binder, lo, hi, combine });
            if !self.eat(",") {
                return Ok(dims);
            }
        }
    }

    /// The braces of a compute; label and dimensions are filled in by the caller.
    pub(super) fn compute_body(&mut self, label: Label, dims: Vec<Dim>) -> Parsed<Compute> {
        self.expect("{")?;
        self.statement_ends();
        self.with_bindings()?;
        let targets = self.some(Parser::access)?;
        let update = if self.eat("=") { None } else { Some(self.op_assign()?) };
        let values = self.some(Parser::expr)?;
        let guard = if self.eat_word("if") { Some(self.expr()?) } else { None };
        self.expect("}")?;
        Ok(Compute { label, dims, targets, values, guard, update })
    }
}
