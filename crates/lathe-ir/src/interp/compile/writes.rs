//! Stores, reductions and atomics to instructions.

use super::*;
use crate::interp::code::AtomicCode;
use crate::stmt::MemoryOrder;

impl Compiler<'_> {
    pub(in crate::interp) fn store_stmt(&mut self, st: &Store, places: &Places) -> Result<(), Diagnostic> {
        self.fresh_scope();
        self.enter_site(Some(&st.label), "a store", &st.instance, places);
        self.name_instance();
        let value = self.expr(&st.value)?;
        let target = self.access(&st.target)?;
        self.store(target, &st.target.elem, value);
        Ok(())
    }

    pub(in crate::interp) fn reduce_stmt(&mut self, r: &Reduce, places: &Places) -> Result<(), Diagnostic> {
        self.fresh_scope();
        self.enter_site(Some(&r.label), "a reduction", &r.instance, places);
        self.name_instance();
        if r.contract
            && let ([target], [value]) = (&r.targets[..], &r.values[..])
            && reduce::adds_products(value)
        {
            let access = self.access(target)?;
            let old = self.load_through(access, &target.elem);
            let old = self.stand_in(&target.elem, old);
            let new = self.expr(&reduce::contracted(old, value))?;
            self.store(access, &target.elem, new);
            return Ok(());
        }
        let values = r.values.iter().map(|v| self.expr(v)).collect::<Result<Vec<_>, _>>()?;
        let accesses = r.targets.iter().map(|t| self.access(t)).collect::<Result<Vec<_>, _>>()?;
        if values.len() != accesses.len() {
            return Err(self.malformed("a reduction with more values than targets, or fewer"));
        }
        let types: Vec<Type> = r.targets.iter().map(|t| t.elem.clone()).collect();
        let old: Vec<Reg> = accesses.iter().zip(&types).map(|(a, t)| self.load_through(*a, t)).collect();
        let new = self.combined(&r.op, &types, &old, &values)?;
        for ((access, ty), n) in accesses.into_iter().zip(&types).zip(new) {
            self.store(access, ty, n);
        }
        Ok(())
    }

    /// The registers of `a ⊕ b`.
    pub(in crate::interp) fn combined(
        &mut self,
        op: &ReduceOp,
        types: &[Type],
        a: &[Reg],
        b: &[Reg],
    ) -> Result<Vec<Reg>, Diagnostic> {
        let a: Vec<Expr> = types.iter().zip(a).map(|(t, r)| self.stand_in(t, *r)).collect();
        let b: Vec<Expr> = types.iter().zip(b).map(|(t, r)| self.stand_in(t, *r)).collect();
        let Some(sum) = reduce::combine(self.module, op, &a, &b) else {
            return Err(self.malformed(&format!("a reduction `{op}` on types that it is not defined on")));
        };
        sum.iter().map(|e| self.expr(&crate::math::expand_expr(e))).collect()
    }

    pub(in crate::interp) fn atomic_stmt(&mut self, a: &Atomic, places: &Places) -> Result<(), Diagnostic> {
        self.fresh_scope();
        self.enter_site(Some(&a.label), "an atomic", &a.instance, places);
        self.name_instance();
        let mut values = Vec::new();
        a.op.for_each_expr(&mut |e| values.push(self.expr(e)));
        let values = values.into_iter().collect::<Result<Vec<Reg>, _>>()?;
        // An access of its own: loads of the same element in the values are not atomic.
        self.access_keys.clear();
        let access = self.access(&a.target)?;
        let scope = self.executor(&a.scope);
        let fresh = matches!(a.op, AtomicOp::Store(_));
        self.routine.accesses[access as usize].atomic = Some(AtomicCode { order: a.order, scope, fresh });
        if a.order == MemoryOrder::InOrder {
            let site = self.site;
            self.emit(Instr::Turn { scope, site });
        }
        let elem = &a.target.elem;
        let old = match a.op {
            AtomicOp::Store(_) if a.old.is_none() => None,
            _ => Some(self.load_through(access, elem)),
        };
        match (&a.op, &values[..], old) {
            (AtomicOp::Load, ..) => {}
            (AtomicOp::Store(_) | AtomicOp::Exchange(_), [new], _) => self.store(access, elem, *new),
            (AtomicOp::CompareExchange { .. }, [expected, desired], Some(old)) => {
                self.exchange_if_same(access, elem, [*expected, *desired, old])?;
            }
            (AtomicOp::Update(op, _), [value], Some(old)) => {
                let new = self.combined(op, std::slice::from_ref(elem), &[old], &[*value])?;
                self.store(access, elem, new[0]);
            }
            _ => return Err(self.malformed("an atomic with a wrong number of values")),
        }
        if let (Some(binder), Some(old)) = (&a.old, old) {
            self.vars.insert(binder.id, old);
        }
        self.stmt(&a.body)
    }

    /// Stores the desired value where the old one has the bits of the expected one.
    fn exchange_if_same(
        &mut self,
        access: u32,
        elem: &Type,
        [expected, desired, old]: [Reg; 3],
    ) -> Result<(), Diagnostic> {
        let mut skips = Vec::new();
        for k in 0..elem.leaves().len() {
            // Registers hold bits; those of a NaN are equal to themselves.
            let d = self.alloc(1);
            let (a, b) = (expected + k as u32, old + k as u32);
            self.emit(Instr::Binary { op: BinOp::Eq, ty: Scalar::U64, d, a, b });
            let c = d;
            skips.push(self.emit(Instr::JumpUnless { c, to: 0 }));
        }
        self.store(access, elem, desired);
        skips.into_iter().for_each(|s| self.patch(s));
        Ok(())
    }
}
