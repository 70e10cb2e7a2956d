//! Statements of a block before it is whole.

use lathe_diagnostics::Places;
use lathe_ir::{Binder, Buffer, Expr, Stmt, StmtKind};
use std::sync::Arc;

/// What a statement becomes: bindings reach to the end of the block.
pub enum Piece {
    Stmt(Stmt),
    Let(Binder, Expr, Places),
    Alloc(Arc<Buffer>, Places),
}

/// A block out of its pieces.
pub fn close(pieces: Vec<Piece>) -> Stmt {
    let mut after: Vec<Stmt> = Vec::new();
    let body = |after: &mut Vec<Stmt>| {
        after.reverse();
        Stmt::seq(std::mem::take(after))
    };
    for p in pieces.into_iter().rev() {
        let s = match p {
            Piece::Stmt(s) => s,
            Piece::Let(binder, value, at) => {
                Stmt::new(StmtKind::Let { binder, value, body: body(&mut after) }, at)
            }
            Piece::Alloc(buffer, at) => Stmt::new(StmtKind::Alloc { buffer, body: body(&mut after) }, at),
        };
        after.push(s);
    }
    body(&mut after)
}
