//! Halvings of partial results within a warp, by shuffles, as `lathe_device::shuffles` finds them.

use crate::emit::{Emitter, Result, defect};
use crate::ir::Value;
use crate::value::{Leaf, Val};
use lathe_device::shuffles::{Halving, WARP, halvings, waits};
use lathe_ir::{Scalar, Space, Stmt, Type};
use llvm_sys::LLVMIntPredicate as I;

impl Emitter<'_> {
    /// Statements of a kernel, one after the other.
    pub fn sequence(&mut self, all: &[Stmt]) -> Result<()> {
        let mut at = 0;
        while at < all.len() {
            let thread = self.device.threads.filter(|(_, threads)| *threads >= WARP);
            // Right behind a barrier nothing else waits for those that shuffles leave out.
            let rank = self.device.rank;
            let behind = |t: &(lathe_ir::VarId, i64)| at > 0 && waits(&all[at - 1], t.0, rank);
            let found = thread.filter(behind).and_then(|t| Some((t, halvings(&all[at..], t.0)?)));
            let found = found.filter(|((_, threads), (_, h))| {
                let targets = h[0].targets();
                let shared = |b| self.frame.bufs.get(&b).is_some_and(|b| b.decl.space == Space::Shared);
                (h[0].row.is_none() || threads % WARP == 0)
                    && targets.iter().all(|t| t.view.buffer().is_some_and(shared))
            });
            match found {
                Some(((thread, _), (count, halvings))) => {
                    self.shuffled(&halvings, thread)?;
                    at += count;
                }
                None => {
                    self.stmt(&all[at])?;
                    at += 1;
                }
            }
        }
        Ok(())
    }

    fn shuffled(&mut self, all: &[Halving], thread: lathe_ir::VarId) -> Result<()> {
        let ir = self.ir;
        let first = &all[0];
        let Some(Leaf::Uniform(number)) = self.frame.vars.get(&thread).copied() else {
            return Err(defect("a kernel without threads"));
        };
        let lane = first.row.map_or(number, |n| ir.urem(number, ir.i64(n)));
        // Rows within a warp: all of its threads take part.
        let within = first.row.filter(|n| *n <= WARP);
        let below = |n: i64| ir.icmp(I::LLVMIntSLT, lane, ir.i64(n));
        let (inside, after) = (self.block("warp"), self.block("halved"));
        match within {
            Some(_) => ir.br(inside),
            None => ir.cond_br(below(2 * first.half), inside, after),
        }
        ir.at_end(inside);
        self.forget();
        let types: Vec<Type> = first.targets().iter().map(|t| t.elem.clone()).collect();
        let mut places = Vec::new();
        for t in first.elements() {
            places.push(self.place(&t)?);
        }
        let mut mine: Vec<Val> = places.iter().map(|p| self.load_place(p)).collect();
        let mask = match within {
            None if 2 * first.half < WARP => (1i64 << (2 * first.half)) - 1,
            _ => 0xffff_ffff,
        };
        let clamp = (WARP - within.unwrap_or(WARP)) << 8 | 0x1f;
        for h in all {
            let mut theirs = Vec::new();
            for (v, ty) in mine.iter().zip(&types) {
                let s = ty.scalar().ok_or_else(|| defect("a shuffle of several scalars"))?;
                let v = v.first().map(|v| v.at(ir, None)).ok_or_else(|| defect("a value is missing"))?;
                let bits = self.to_bits(v, s);
                theirs.push(vec![Leaf::Uniform(
                    self.of_bits(self.of_lane_beyond(bits, s, mask, h.half, clamp), s),
                )]);
            }
            let news = self.reduce(&h.reduce.op, &types, &mine, &theirs)?;
            let takes = below(h.half);
            let pick = |(new, old): (&Val, &Val)| {
                let both = new.first().zip(old.first());
                both.map(|(n, o)| vec![Leaf::Uniform(ir.select(takes, n.at(ir, None), o.at(ir, None)))])
            };
            let picked: Option<Vec<Val>> = news.iter().zip(&mine).map(pick).collect();
            mine = picked.ok_or_else(|| defect("a value is missing"))?;
        }
        let (write, done) = (self.block("write"), self.block("written"));
        ir.cond_br(below(first.half), write, done);
        ir.at_end(write);
        for (p, v) in places.iter().zip(&mine) {
            self.store_place(p, v, false);
        }
        ir.br(done);
        ir.at_end(done);
        ir.br(after);
        ir.at_end(after);
        self.forget();
        Ok(())
    }

    /// The bits that the lane so much further has.
    pub fn of_lane_beyond(&self, bits: Value, s: Scalar, mask: i64, half: i64, clamp: i64) -> Value {
        let ir = self.ir;
        let (word, wide) = (ir.int_ty(32), ir.int_ty(64));
        let one = |v: Value| {
            let args = [ir.int(32, mask), v, ir.int(32, half), ir.int(32, clamp)];
            ir.intrinsic("llvm.nvvm.shfl.sync.down.i32", &[], &args)
        };
        match s.bytes() {
            4 => return one(bits),
            8 => {}
            _ => return ir.trunc(one(ir.zext(bits, word)), ir.type_of(bits)),
        }
        let (low, high) = (one(ir.trunc(bits, word)), one(ir.trunc(ir.lshr(bits, ir.i64(32)), word)));
        ir.or(ir.zext(low, wide), ir.shl(ir.zext(high, wide), ir.i64(32)))
    }
}
