//! `lookback`: the blocks of a scan start from the totals of those before in one pass over its values.

use super::make::{fresh_name, proved, refuse};
use super::prescan::{Scan, redirect, running_value};
use super::scope::Around;
use crate::args::Args;
use crate::codes;
use crate::names;
use crate::rule;
use crate::work::Work;
use lathe_diagnostics::Places;
use lathe_ir::expr::{Access, Expr};
use lathe_ir::names::Role;
use lathe_ir::stmt::{Atomic, AtomicOp, MemoryOrder};
use lathe_ir::{Binder, Buffer, Label, Loop, Name, Scalar, Space, Stmt, StmtKind, Store, build};
use lathe_strategy::evidence::{Kind, Within};
use lathe_strategy::{Claim, Refusal};
use std::sync::Arc;

const RULE: &str = "lookback";

rule! {
    /// `lookback(s.acc, i.o)` lets every block `i.o` of a scan reduce its values on its own (`s.carry`), and then
    /// exchange this total with those of the blocks before it by one atomic update of the running value, which takes
    /// place in the order of the blocks (`inorder`). The old value is what the block starts from. The blocks may then
    /// be bound to the grid of a device or, with `scope: cpu`, to threads: a block waits for the totals of the blocks
    /// before it, not for the blocks (*decoupled look-back*, Merrill and Garland), and takes its number when it starts, so
    /// that those that it waits for run. Values that a block keeps are read from memory once, where `prescan` reads them
    /// twice.
    ///
    /// Legal where `prescan` is, for running values of one scalar. The order of the blocks is kept, so that the
    /// operator need not be commutative. On devices, which neighbouring totals are combined first may differ from run to
    /// run, and so may the rounding of floats; on CPUs they are combined in order. There, blocks run one after the other
    /// if a division by zero or missing memory might end one before its update. An iteration of a loop has one turn: where
    /// the blocks are inside of a loop that is bound to the same scope, bind them before it.
    ///
    /// ```lathe
    /// kernel prefix(x: i32[N]) -> (s: i32[N]) {
    ///     s[i] = scan(sum)[i](x[i])
    /// }
    /// strategy grid for prefix = split(i, 1024) ; lookback(s.acc, i.o) ; promote(s.acc, space: global) ; bind(i.o, grid)
    /// strategy threads for prefix = split(i, 16384) ; lookback(s.acc, i.o, scope: cpu)
    ///     ; promote(s.acc, space: host) ; parallel(i.o)
    /// ```
    pub static LOOKBACK = lookback, version 2, (array: one Buffer, loop: one Loop, scope: optional Word), apply,
        "one-pass scan: every block of a scan gets the total of the blocks before while they run";
}

/// The executors among whose iterations the updates may be ordered, the usual one first.
const SCOPES: [&str; 2] = ["grid", "cpu"];

fn apply(work: &mut Work, args: &Args) -> Result<(), Refusal> {
    let cursor = &work.cursor();
    let buffer = names::find_buffer(cursor, RULE, &args.path(RULE, "array", 0)?)?;
    let path = names::find_one_loop(cursor, RULE, &args.path(RULE, "loop", 1)?)?;
    let l = names::loop_at(cursor, RULE, &path)?;
    let places = cursor.at(&path).map_or(Places::none(), |s| s.places().clone());
    let no = |text: String, help: &str| refuse(RULE, codes::SHAPE, text, help, &places);
    running_value(RULE, cursor, &buffer, l, &path, &places)?;
    let around = Around::of(cursor.func, &path);
    if around.lanes().is_some() {
        return Err(no("the loop is inside of a vector loop".into(), "do this before vectorizing"));
    }
    let Some(scalar) = buffer.elem.scalar() else {
        let text = format!("`{}` holds several scalars, which no atomic updates at once", buffer.name);
        return Err(no(text, "use `prescan`"));
    };
    let scan = Scan::read(RULE, cursor, l, &buffer, &places)?;
    let (identity, relied) = scan.identity(RULE, cursor, &buffer, &places)?;
    let named = |role: Role| fresh_name(cursor.func, &role.of(&scan.label));
    let (carry, own) = (named(Role::Carry), named(Role::Run));
    let (label, first) = (named(Role::Total), named(Role::Start));
    let mut local = |name: String| {
        let (id, elem, extents) = (work.fresh_buf(), buffer.elem.clone(), Vec::new());
        Buffer::local(id, name, elem, extents, Space::Register)
    };
    let scope = args.opt_word(RULE, "scope", 2, &SCOPES)?.unwrap_or(SCOPES[0]);
    let m = Maker {
        scan: &scan,
        scope: scope.into(),
        acc: &buffer,
        l,
        around: &around,
        places: &places,
        carry: local(carry),
        own: local(own),
        label,
        first,
    };
    let new = m.make(work, scalar, &identity);
    let (total, label, array) = (m.carry.clone(), scan.label.to_string(), buffer.name.to_string());
    work.replace_storage(&path, new, Kind::Split)?;
    relied.iter().for_each(|l| work.relies_on(l));
    let help = "choose a loop of stores and reductions, such that no loop around runs on what `scope` names";
    work.decide(Claim::InputsKept { label: label.clone() }, help)?;
    work.changes_rounding(&label);
    work.decide(Claim::OnlyBy { label, array: array.clone(), within: Within::Loop }, help)?;
    let claim = Claim::StartsInOrder { array, total: total.name.to_string() };
    work.decide(claim, help)?;
    work.made(&path, &total);
    work.plays(Role::Carry, &*buffer, &*total);
    Ok(())
}

/// Makes the parts of the new loop.
struct Maker<'a> {
    scan: &'a Scan,
    scope: Name,
    acc: &'a Arc<Buffer>,
    l: &'a Loop,
    around: &'a Around,
    places: &'a Places,
    /// The total of a block, and its running value.
    carry: Arc<Buffer>,
    own: Arc<Buffer>,
    /// Labels: what is combined into the total, and the exchange of totals.
    label: String,
    first: String,
}

impl Maker<'_> {
    fn cell(b: &Buffer) -> Access {
        proved(b.id, &b.elem, Vec::new())
    }

    /// The label of an exchange; what tells its instances apart comes first.
    fn named(&self, which: i64) -> (Label, Vec<Expr>) {
        let mut instance = self.around.instance();
        instance.extend([build::index(which), build::var(&self.l.binder)]);
        (Label::new(&self.first), instance)
    }

    fn store(&self, which: i64, target: Access, value: Expr) -> Stmt {
        let (label, instance) = self.named(which);
        let store = Store::new(label, instance, target, value);
        Stmt::new(StmtKind::Store(store), self.places.clone())
    }

    fn alloc(&self, buffer: &Arc<Buffer>, body: Stmt) -> Stmt {
        Stmt::new(StmtKind::Alloc { buffer: buffer.clone(), body }, self.places.clone())
    }

    fn make(&self, work: &mut Work, scalar: Scalar, identity: &Expr) -> Stmt {
        let start = self.store(0, Self::cell(&self.carry), identity.clone());
        let kept = redirect(&work.copy_as(Role::Total, &self.scan.kept), self.acc, &Self::cell(&self.carry));
        let kept = self.scan.labelled(work.module(), &kept, &self.label);
        let before: Binder = work.fresh_scalar(&Role::Carry.of(&self.l.binder.name), scalar);
        let begin = self.store(2, Self::cell(&self.own), build::var(&before));
        let (label, instance) = self.named(1);
        let exchange = Stmt::new(
            StmtKind::Atomic(Atomic {
                label,
                instance,
                target: Self::cell(self.acc),
                op: AtomicOp::Update(self.scan.op.clone(), build::load(Self::cell(&self.carry))),
                order: MemoryOrder::InOrder,
                scope: self.scope.clone(),
                old: Some(before),
                body: begin,
            }),
            self.places.clone(),
        );
        let total = self.alloc(&self.carry, Stmt::seq([start, kept, exchange]));
        let rest = redirect(&self.l.body, self.acc, &Self::cell(&self.own));
        let body = self.alloc(&self.own, Stmt::seq([total, rest]));
        Stmt::new(StmtKind::Loop(Loop { body, ..self.l.clone() }), self.places.clone())
    }
}
