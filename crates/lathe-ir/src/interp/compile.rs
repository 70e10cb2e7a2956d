//! Statements to instructions.

mod writes;

mod loops;

use super::code::{
    AllocCode, ArgCode, BarrierCode, CallCode, CheckCode, Declared, ForkCode, Instr, ParamCode, Pc, Reg,
    Routine, Scope, Site, leaf_count,
};
use super::{Globals, Order, codes};
use crate::buffer::{Buffer, Space};
use crate::expr::{Expr, touches_memory};
use crate::func::{Function, Param, ParamKind};
use crate::ids::{BufId, Label, VarId};
use crate::module::{External, Module};
use crate::ops::{BinOp, ReduceOp};
use crate::reduce;
use crate::stmt::{
    Arg, Atomic, AtomicOp, Effects, Enters, Executor, Loop, MemoryOrder, Reduce, Stmt, StmtKind, Store,
};
use crate::types::{Name, Scalar, Type};
use crate::visit::walk;
use lathe_diagnostics::{Diagnostic, Places};
use std::collections::{HashMap, HashSet};

/// What a run needs from its code.
#[derive(Clone, Copy, Debug)]
pub struct Flavour {
    pub order: Order,
    pub races: bool,
}

/// All functions that one run may reach; the first is the one that is run.
#[derive(Clone, Debug)]
pub struct Compiled {
    pub routines: Vec<Routine>,
    pub functions: Vec<Function>,
    /// Executors of parallel loops, and scopes of atomics, by the names that trees give them.
    pub executors: Vec<Name>,
    pub globals: Globals,
}

/// Compiles a function and all that it calls.
pub fn compile(module: &Module, func: &Function, flavour: Flavour) -> Result<Compiled, Diagnostic> {
    let mut out = Compiled {
        routines: Vec::new(),
        functions: vec![plain(module, func)],
        executors: Vec::new(),
        globals: Globals::of(module)?,
    };
    let mut numbers = HashMap::from([(func.name.clone(), 0u32)]);
    let mut executors = Vec::new();
    while out.routines.len() < out.functions.len() {
        let f = out.functions[out.routines.len()].clone();
        let compiler = Compiler::new(module, &f, flavour, (&mut numbers, &mut executors));
        let (routine, called) = compiler.function()?;
        out.routines.push(routine);
        for name in called {
            out.functions.push(plain(module, &module.functions[&name]));
        }
    }
    out.executors = executors;
    Ok(out)
}

/// A spin-wait: other strands run before each retry.
fn is_spin(s: &Stmt) -> bool {
    matches!(s.enters(0), Enters::While(_)) && s.effects().contains(Effects::ATOMIC)
}

/// An update that waits for those of earlier iterations.
fn is_turn(s: &Stmt) -> bool {
    matches!(s.kind(), StmtKind::Atomic(a) if a.order == MemoryOrder::InOrder)
}

/// The function without functions of mathematics that have a meaning in simpler terms, and without such loops.
fn plain(module: &Module, func: &Function) -> Function {
    crate::lower::inscan::expand_function(module, &crate::math::expand_function(func))
}

pub struct Compiler<'m> {
    module: &'m Module,
    func: &'m Function,
    flavour: Flavour,
    /// Numbers of routines by name; extended by every call.
    numbers: &'m mut HashMap<Name, u32>,
    executors: &'m mut Vec<Name>,
    called: Vec<Name>,
    pub(super) routine: Routine,
    pub(super) vars: HashMap<VarId, Reg>,
    pub(super) bufs: HashMap<BufId, u32>,
    pub(super) spaces: HashMap<u32, Space>,
    pub(super) scopes: Vec<Scope>,
    pub(super) access_keys: HashMap<(u32, Vec<Reg>, Type), u32>,
    pub(super) safe: HashMap<usize, bool>,
    /// Keeps expressions alive whose addresses are in a memo table.
    pub(super) keep: Vec<Expr>,
    next: Reg,
    /// Registers that outlive the statement that took them: constants.
    fixed: HashSet<Reg>,
    constants: HashMap<u64, Reg>,
    site: u32,
    /// Instance vectors to compile at the end: site and expressions.
    instances: Vec<(u32, Vec<Expr>)>,
    loops: Vec<(Name, Reg)>,
    /// Those among them whose iterations hold values of their own: all that are concurrent but for lanes.
    pub(super) holders: Vec<(Name, Reg)>,
    /// Distributed arrays by slot, and how many holders are around them.
    pub(super) distributed: HashMap<u32, (std::sync::Arc<Buffer>, usize)>,
    /// Enclosing parallel loops whose iterations are tasks, innermost last.
    forked: Vec<VarId>,
    /// Tokens of this strand, whose registers are known.
    tokens: HashMap<VarId, Reg>,
    /// Whether tasks exist at all, so that a random order may switch between statements.
    has_tasks: bool,
    next_synthetic: u32,
}

impl<'m> Compiler<'m> {
    fn new(
        module: &'m Module,
        func: &'m Function,
        flavour: Flavour,
        (numbers, executors): (&'m mut HashMap<Name, u32>, &'m mut Vec<Name>),
    ) -> Compiler<'m> {
        let mut has_tasks = false;
        walk(&func.body, &mut |s, _| {
            has_tasks |= s.own_effects().contains(Effects::SYNCHRONIZES);
            true
        });
        Compiler {
            module,
            func,
            flavour,
            numbers,
            executors,
            called: Vec::new(),
            routine: Routine::default(),
            vars: HashMap::new(),
            bufs: HashMap::new(),
            spaces: HashMap::new(),
            scopes: vec![Scope::default()],
            access_keys: HashMap::new(),
            safe: HashMap::new(),
            keep: Vec::new(),
            next: 0,
            fixed: HashSet::new(),
            constants: HashMap::new(),
            site: 0,
            instances: Vec::new(),
            loops: Vec::new(),
            holders: Vec::new(),
            distributed: HashMap::new(),
            forked: Vec::new(),
            tokens: HashMap::new(),
            has_tasks,
            next_synthetic: u32::MAX,
        }
    }

    fn function(mut self) -> Result<(Routine, Vec<Name>), Diagnostic> {
        let func = self.func;
        self.routine.name = Some(func.name.clone());
        self.enter_site(None, "the function", &[], &Places::none());
        for b in &func.sizes {
            let r = self.bind(b.id, 1);
            self.routine.sizes.push(r);
        }
        for p in &func.params {
            match &p.kind {
                ParamKind::Scalar(b) => {
                    let r = self.bind(b.id, 1);
                    self.routine.params.push(ParamCode::Scalar(r));
                }
                ParamKind::Array(b) => {
                    let slot = self.new_slot(&b.name, b.space);
                    self.bufs.insert(b.id, slot);
                    self.routine.params.push(ParamCode::Array(slot));
                }
            }
        }
        match &func.result {
            Some(e) => {
                if touches_memory(e) {
                    self.name_instance();
                }
                let r = self.expr(e)?;
                self.routine.result = Some((r, leaf_count(e.ty())));
            }
            None => self.stmt(&func.body)?,
        }
        self.emit(Instr::Return);
        self.instance_code()?;
        self.routine.constants = self.constants.iter().map(|(bits, r)| (*r, *bits)).collect();
        Ok((self.routine, self.called))
    }

    /// The code of instance vectors, after the function's, in registers of its own.
    fn instance_code(&mut self) -> Result<(), Diagnostic> {
        let mark = self.routine.registers;
        for (site, exprs) in std::mem::take(&mut self.instances) {
            self.site = site;
            self.next = mark;
            self.fresh_scope();
            let start = self.here();
            let regs = exprs.iter().map(|e| self.expr(e)).collect::<Result<Vec<_>, _>>()?;
            self.emit(Instr::EndInstance);
            let s = &mut self.routine.sites[site as usize];
            (s.start, s.instance) = (start, regs);
        }
        Ok(())
    }

    // Registers, slots, code.

    pub(super) fn alloc(&mut self, n: u32) -> Reg {
        while (self.next..self.next + n).any(|r| self.fixed.contains(&r)) {
            self.next += 1;
        }
        let r = self.next;
        self.next += n;
        self.routine.registers = self.routine.registers.max(self.next);
        r
    }

    pub(super) fn bind(&mut self, id: VarId, n: u32) -> Reg {
        let r = self.alloc(n);
        self.vars.insert(id, r);
        r
    }

    pub(super) fn constant(&mut self, bits: u64) -> Reg {
        if let Some(r) = self.constants.get(&bits) {
            return *r;
        }
        // A register that no code before this has written: in a loop that code runs again.
        let r = self.routine.registers;
        self.routine.registers += 1;
        self.fixed.insert(r);
        self.constants.insert(bits, r);
        r
    }

    /// A variable that stands for registers in expressions made here.
    pub(super) fn stand_in(&mut self, ty: &Type, r: Reg) -> Expr {
        let id = VarId(self.next_synthetic);
        self.next_synthetic -= 1;
        self.vars.insert(id, r);
        Expr::new(crate::expr::ExprKind::Var(id), ty.clone())
    }

    pub(super) fn new_slot(&mut self, name: &Name, space: Space) -> u32 {
        let slot = self.routine.slots;
        self.routine.slots += 1;
        self.routine.slot_names.push(name.clone());
        self.spaces.insert(slot, space);
        slot
    }

    pub(super) fn here(&self) -> Pc {
        self.routine.code.len() as Pc
    }

    pub(super) fn emit(&mut self, i: Instr) -> Pc {
        self.routine.code.push(i);
        self.routine.site_of.push(self.site);
        self.here() - 1
    }

    /// Lets a jump that was emitted before go to here.
    pub(super) fn patch(&mut self, at: Pc) {
        let here = self.here();
        match &mut self.routine.code[at as usize] {
            Instr::Jump { to }
            | Instr::JumpIf { to, .. }
            | Instr::JumpUnless { to, .. }
            | Instr::JumpGe { to, .. }
            | Instr::Draw { to, .. } => *to = here,
            _ => {}
        }
    }

    pub(super) fn fresh_scope(&mut self) {
        self.scopes = vec![Scope::default()];
        self.access_keys.clear();
        self.safe.clear();
        self.keep.clear();
    }

    pub(super) fn enter_site(
        &mut self,
        label: Option<&Label>,
        what: &'static str,
        instance: &[Expr],
        places: &Places,
    ) -> u32 {
        let id = self.routine.sites.len() as u32;
        self.routine.sites.push(Site {
            label: label.cloned(),
            what,
            start: 0,
            instance: Vec::new(),
            loops: self.loops.clone(),
            places: places.clone(),
        });
        if !instance.is_empty() {
            self.instances.push((id, instance.to_vec()));
        }
        self.site = id;
        id
    }

    /// Names the instance that the next accesses belong to, where races are looked for.
    pub(super) fn name_instance(&mut self) {
        if self.flavour.races {
            let site = self.site;
            self.emit(Instr::Instance { site });
        }
    }

    /// The number of the routine that a call runs, with the parameters and what is declared of the function. An
    /// external one is run by what it means.
    pub(super) fn routine_of(
        &mut self,
        name: &str,
    ) -> Result<(u32, &'m [Param], Option<Declared>), Diagnostic> {
        let Some(callee) = self.module.callee(name) else {
            return Err(self.malformed("a call of a function that the module does not have"));
        };
        let runs = match self.module.externals.get(name).filter(|_| !self.module.functions.contains_key(name))
        {
            None => name,
            Some(External { meaning: Some(f), .. }) => f,
            Some(_) => {
                let what = format!("the external function `{name}`");
                let help =
                    "`meaning f` after its effects names a function of the module with the same meaning";
                return Err(self.unsupported(&what, help));
            }
        };
        let Some((key, _)) = self.module.functions.get_key_value(runs) else {
            return Err(self.malformed("an external function whose meaning the module does not have"));
        };
        let number = match self.numbers.get(runs) {
            Some(n) => *n,
            None => {
                let n = self.numbers.len() as u32;
                self.numbers.insert(key.clone(), n);
                self.called.push(key.clone());
                n
            }
        };
        let run = &self.module.functions[key];
        let summary = callee.summary.map(|s| {
            let own = s.renamed((callee.sizes, callee.params), (&run.sizes, &run.params));
            (callee.name.clone(), own)
        });
        Ok((number, callee.params, summary))
    }

    pub(super) fn malformed(&self, what: &str) -> Diagnostic {
        self.at_site(Diagnostic::error(
            codes::UNSUPPORTED,
            format!("function `{}` has {what}", self.func.name),
        ))
        .help("the verifier gives more detail about invalid trees")
    }

    pub(super) fn unsupported(&self, what: &str, help: &str) -> Diagnostic {
        self.at_site(Diagnostic::error(codes::UNSUPPORTED, format!("the interpreter does not run {what}")))
            .help(help)
    }

    fn at_site(&self, d: Diagnostic) -> Diagnostic {
        let Some(site) = self.routine.sites.get(self.site as usize) else { return d };
        let d = d.at_places(&site.places, "here");
        match &site.label {
            Some(l) => d.note(format!("in statement `{l}`")),
            None => d,
        }
    }

    // Statements.

    fn stmt(&mut self, s: &Stmt) -> Result<(), Diagnostic> {
        let mark = self.next;
        self.stmt_inner(s)?;
        self.next = mark;
        Ok(())
    }

    fn stmt_inner(&mut self, s: &Stmt) -> Result<(), Diagnostic> {
        match s.kind() {
            StmtKind::Seq(stmts) => {
                for s in stmts {
                    if self.has_tasks && matches!(self.flavour.order, Order::Seed(_)) {
                        self.emit(Instr::Yield);
                    }
                    self.stmt(s)?;
                }
                Ok(())
            }
            StmtKind::Let { binder, value, body } => {
                self.begin_plain("a `let`", &[value], s.places());
                let r = self.expr(value)?;
                self.vars.insert(binder.id, r);
                self.stmt(body)
            }
            StmtKind::Store(st) => self.store_stmt(st, s.places()),
            StmtKind::Reduce(r) => self.reduce_stmt(r, s.places()),
            StmtKind::Atomic(a) => self.atomic_stmt(a, s.places()),
            StmtKind::Loop(l) => self.loop_stmt(l, s.places()),
            StmtKind::If { cond, then, other } => {
                self.begin_plain("the condition of `if`", &[cond], s.places());
                let c = self.expr(cond)?;
                let skip = self.emit(Instr::JumpUnless { c, to: 0 });
                self.stmt(then)?;
                if let Some(other) = other {
                    let end = self.emit(Instr::Jump { to: 0 });
                    self.patch(skip);
                    self.stmt(other)?;
                    self.patch(end);
                } else {
                    self.patch(skip);
                }
                Ok(())
            }
            StmtKind::While { cond, body } => {
                let head = self.here();
                self.begin_plain("the condition of `while`", &[cond], s.places());
                self.emit(Instr::Step);
                let c = self.expr(cond)?;
                let exit = self.emit(Instr::JumpUnless { c, to: 0 });
                self.stmt(body)?;
                if is_spin(s) {
                    self.emit(Instr::Spin);
                }
                self.emit(Instr::Jump { to: head });
                self.patch(exit);
                Ok(())
            }
            StmtKind::Alloc { buffer, body } => {
                let extents: Vec<&Expr> = buffer.extents.iter().collect();
                self.begin_plain("an allocation", &extents, s.places());
                let extents = extents.into_iter().map(|e| self.expr(e)).collect::<Result<Vec<_>, _>>()?;
                let slot = self.new_slot(&buffer.name, buffer.space);
                self.bufs.insert(buffer.id, slot);
                if self.flavour.races && buffer.layout.is_distributed() {
                    self.distributed.insert(slot, (buffer.clone(), self.holders.len()));
                }
                let (name, elem, space) = (buffer.name.clone(), buffer.elem.clone(), buffer.space);
                self.routine.allocs.push(AllocCode { slot, name, elem, extents, space });
                let alloc = self.routine.allocs.len() as u32 - 1;
                self.emit(Instr::Alloc { alloc });
                self.stmt(body)?;
                self.emit(Instr::Free { slot });
                Ok(())
            }
            StmtKind::Check { cond, code, message } => {
                self.check(cond, "a `check`", Some(code.clone()), message, s.places())
            }
            StmtKind::Assume { fact, provenance } => {
                self.check(fact, "an `assume`", None, provenance, s.places())
            }
            StmtKind::Prefetch(_) => Ok(()),
            StmtKind::Barrier { of, spaces } => {
                self.begin_plain("a barrier", &[], s.places());
                if !self.forked.contains(of) {
                    return Err(self.bad_barrier("it is not inside a parallel loop"));
                }
                let all = (1 << Space::ALL.len()) - 1;
                let bit = |s: &Space| 1u8 << Space::ALL.iter().position(|x| x == s).unwrap_or(0);
                let named = spaces.iter().map(bit).fold(0, |a, b| a | b);
                let spaces = if spaces.is_empty() { all } else { named };
                self.routine.barriers.push(BarrierCode { of: *of, spaces });
                let barrier = self.routine.barriers.len() as u32 - 1;
                self.emit(Instr::Barrier { barrier });
                Ok(())
            }
            StmtKind::Token { token, body } => {
                self.begin_plain("a token", &[], s.places());
                let r = self.bind(token.id, 1);
                self.emit(Instr::OpenToken { token: r });
                self.tokens.insert(token.id, r);
                let site = self.site;
                self.stmt(body)?;
                self.site = site;
                self.emit(Instr::Wait { token: r, pending: 0 });
                self.emit(Instr::CloseToken { token: r });
                Ok(())
            }
            StmtKind::Async { token, body } => {
                self.begin_plain("an `async`", &[], s.places());
                let r = self.token(*token)?;
                let spawn = self.emit(Instr::Spawn { token: r, body: 0 });
                let over = self.emit(Instr::Jump { to: 0 });
                let body_at = self.here();
                self.routine.code[spawn as usize] = Instr::Spawn { token: r, body: body_at };
                // An asynchronous body is not an iteration of the loops around: it cannot wait for them.
                let forked = std::mem::take(&mut self.forked);
                self.in_strand(|c| c.stmt(body))?;
                self.forked = forked;
                self.emit(Instr::EndTask);
                self.patch(over);
                Ok(())
            }
            StmtKind::Wait { token, pending } => {
                self.begin_plain("a `wait`", &[], s.places());
                let token = self.token(*token)?;
                self.emit(Instr::Wait { token, pending: *pending });
                Ok(())
            }
            StmtKind::Call { function, args } => {
                let values: Vec<&Expr> = s.exprs();
                self.begin_plain("a call", &values, s.places());
                let (routine, params, summary) = self.routine_of(function)?;
                let mut code = Vec::new();
                for (n, a) in args.iter().enumerate() {
                    code.push(match a {
                        Arg::Value(e) => ArgCode::Value(self.expr(e)?, e.ty().clone()),
                        Arg::View(v) => {
                            let elem = params.get(n).and_then(|p| p.array()).map(|b| &b.elem);
                            ArgCode::Slot(self.view_slot(v, elem.unwrap_or(&Type::BOOL))?)
                        }
                    });
                }
                self.routine.calls.push(CallCode { routine, args: code, result: None, summary });
                let call = self.routine.calls.len() as u32 - 1;
                self.emit(Instr::Call { call });
                Ok(())
            }
            StmtKind::Compute(c) => self.compute_stmt(c, s.places()),
        }
    }

    fn token(&self, token: VarId) -> Result<Reg, Diagnostic> {
        let found = self.tokens.get(&token).copied();
        found.ok_or_else(|| {
            self.malformed("an `async` or a `wait` with a token that is not this strand's own")
        })
    }

    /// Compiles what runs beside what is around it, and has tokens of its own.
    pub(super) fn in_strand(
        &mut self,
        body: impl FnOnce(&mut Self) -> Result<(), Diagnostic>,
    ) -> Result<(), Diagnostic> {
        let tokens = std::mem::take(&mut self.tokens);
        body(self)?;
        self.tokens = tokens;
        Ok(())
    }

    /// The number of an executor, or of a scope, by its name.
    pub(super) fn executor(&mut self, name: &str) -> u32 {
        let known = self.executors.iter().position(|n| **n == *name);
        let number = known.unwrap_or_else(|| {
            self.executors.push(name.into());
            self.executors.len() - 1
        });
        number as u32
    }

    /// Starts a statement that has no label.
    fn begin_plain(&mut self, what: &'static str, exprs: &[&Expr], places: &Places) {
        self.fresh_scope();
        self.enter_site(None, what, &[], places);
        if exprs.iter().any(|e| touches_memory(e)) {
            self.name_instance();
        }
    }

    fn check(
        &mut self,
        cond: &Expr,
        what: &'static str,
        code: Option<Name>,
        text: &Name,
        places: &Places,
    ) -> Result<(), Diagnostic> {
        self.begin_plain(what, &[cond], places);
        let c = self.expr(cond)?;
        self.routine.checks.push(CheckCode { code, text: text.clone() });
        let check = self.routine.checks.len() as u32 - 1;
        self.emit(Instr::Check { c, check });
        Ok(())
    }
}
