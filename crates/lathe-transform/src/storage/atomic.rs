//! `atomic`: a reduction's updates become indivisible, so that iterations that share elements may run at once.

use super::make::find_alloc;
use crate::args::Args;
use crate::codes;
use crate::rule;
use crate::work::Work;
use lathe_ir::stmt::{Atomic, AtomicOp, MemoryOrder};
use lathe_ir::{Reduce, Space, Stmt, StmtKind};
use lathe_strategy::evidence::Kind;
use lathe_strategy::{Claim, Refusal};

rule! {
    /// `atomic(H)` turns every reduction labelled `H` into an atomic update: it reads, combines and writes its element
    /// in one step that no other update comes between. Then a loop whose iterations update common elements may be
    /// `parallel` or bound to threads of a device. Where few elements are shared by many, give each chunk or block a
    /// copy first (`privatize`), and combine the copies atomically.
    ///
    /// Legal for reductions with a licence (`sum[k]`, `op=`) into one array of scalars: it changes no result by itself.
    /// Steps that make use of it rely on the laws of the operator, and floats may be rounded in another way on every
    /// run. Other steps do not look into atomics: create storage first.
    ///
    /// ```lathe
    /// kernel histogram(X: i32[N], H: inout i32[B]) {
    ///     for i in 0..N { H[X[i]] += 1 }
    /// }
    /// strategy shared for histogram = split(i, 1024) ; atomic(H) ; parallel(i.o)
    /// ```
    pub static ATOMIC = atomic, version 1, (label: one Label), apply,
        "makes the updates of a reduction indivisible, so that iterations may share elements";
}

fn apply(work: &mut Work, args: &Args) -> Result<(), Refusal> {
    let (label, found) = work.labelled(args)?;
    for (path, s) in found {
        let refuse = |what: &str, help: &str| {
            work.refuse_at(codes::SHAPE, format!("`{label}` {what}"), help, s.places())
        };
        let Some(r) = s.as_reduce() else {
            return Err(refuse(
                "is no reduction",
                "a plain store overwrites: it has nothing to combine with",
            ));
        };
        if !r.licence {
            return Err(refuse(
                "has no licence to be reordered",
                "write `x += e` or `sum[k](e)`: `x = x + e` keeps its order",
            ));
        }
        let ([target], [value]) = (&r.targets[..], &r.values[..]) else {
            return Err(refuse("combines several values", "give each loop a copy of its own (`privatize`)"));
        };
        if target.elem.scalar().is_none() {
            return Err(refuse("combines structs", "give each loop a copy of its own (`privatize`)"));
        }
        if r.contract {
            return Err(refuse("adds without rounding the product", "leave `fma` out"));
        }
        let id = target.view.buffer();
        let local = id.and_then(|id| find_alloc(work.cursor().func, id)).map(|(_, b)| b);
        if local.is_some_and(|b| b.space == Space::Register) {
            return Err(refuse("updates registers", "these belong to one thread, and need no atomics"));
        }
        work.replace_as_is(&path, s.with_kind(updated(r, value, target)), Kind::Bijection)?;
    }
    work.scheduled();
    work.decide(Claim::IndivisibleOnly { label }, "leave it as it is")
}

fn updated(r: &Reduce, value: &lathe_ir::Expr, target: &lathe_ir::Access) -> StmtKind {
    StmtKind::Atomic(Atomic {
        label: r.label.clone(),
        instance: r.instance.clone(),
        target: target.clone(),
        op: AtomicOp::Update(r.op.clone(), value.clone()),
        order: MemoryOrder::Relaxed,
        scope: "system".into(),
        old: None,
        body: Stmt::empty(),
    })
}
