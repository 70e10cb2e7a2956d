//! Parsing of computes: dimensions, guards, targets.

use super::*;

impl Parser<'_> {
    pub(super) fn compute(&mut self, start: Span) -> Parsed<Piece> {
        let label = self.label_name()?;
        let mut bound = Vec::new();
        let header = self.compute_dims(&mut bound);
        let at = self.since(start);
        let compute = match header {
            Ok(dims) => self.compute_body(label, dims),
            Err(d) => Err(d),
        };
        bound.into_iter().rev().for_each(|v| self.scope.unbind_var(v));
        let kind = StmtKind::Compute(compute?);
        Ok(Piece::Whole(Stmt::new(kind, Places::one(at))))
    }

    pub(super) fn compute_dims(&mut self, bound: &mut Vec<VarId>) -> Parsed<Vec<Dim>> {
        let mut dims = Vec::new();
        if !self.take("over") {
            return Ok(dims);
        }
        loop {
            let binder = self.binder("the name of an index")?;
            self.expect("in")?;
            let (lo, hi) = self.range()?;
            let scan = self.is("scan");
            let combine = if scan || self.is("reduce") {
                self.advance();
                let op = self.inside("(", ")", Parser::op_name)?;
                if scan { Combine::Scan(op) } else { Combine::Reduce(op) }
            } else {
                Combine::Concat
            };
            self.scope.bind_var(&binder);
            bound.push(binder.id);
            dims.push(Dim { binder, lo, hi, combine });
            if !self.take(",") {
                return Ok(dims);
            }
        }
    }

    /// The braces of a compute; label and dimensions are filled in by the caller.
    pub(super) fn compute_body(&mut self, label: Label, dims: Vec<Dim>) -> Parsed<Compute> {
        let open = self.at;
        self.expect("{")?;
        self.statement_ends();
        self.begins_line(0);
        self.with_bindings(0)?;
        let targets = self.some(Parser::access)?;
        let update = if self.take("=") { None } else { Some(self.op_assign()?) };
        let values = self.some(Parser::expr)?;
        let guard = if self.take("if") { Some(self.expr()?) } else { None };
        let close = self.at;
        self.expect("}")?;
        self.outline.blocks.push((open, close));
        Ok(Compute { label, dims, targets, values, guard, update })
    }
}
