//! Halvings of partial results within one warp, by shuffles, as `lathe_device::shuffles` finds them.

use super::Language;
use crate::emit::{Device, Emitter, Result, Var, ill_formed};
use crate::helpers::memory_type;
use crate::writer::bare;
use lathe_device::shuffles::{Halving, WARP, halvings, waits};
use lathe_ir::build::var;
use lathe_ir::reduce::combine;
use lathe_ir::{Access, Binder, Expr, Scalar, Space, Stmt, VarId};
use lathe_lower::addresses;

impl Emitter<'_> {
    /// Statements of a kernel, one after the other.
    pub(crate) fn device_sequence(&mut self, all: &[Stmt]) -> Result<()> {
        let mut at = 0;
        while at < all.len() {
            let thread = self.device.filter(|d| d.language == Language::Cuda && d.threads >= WARP);
            // Right behind a barrier nothing else waits for those that shuffles leave out.
            let behind = |d: &Device| at > 0 && waits(&all[at - 1], d.thread, d.rank);
            let found = thread.filter(behind).and_then(|d| halvings(&all[at..], d.thread));
            let found = found.filter(|(_, h)| {
                let shared = |t: &Access| {
                    let b = addresses::buffer(t).and_then(|b| self.bufs.get(&b));
                    b.is_some_and(|b| b.decl.space == Space::Shared)
                };
                let full = h[0].row.is_none() || thread.is_some_and(|d| d.threads % WARP == 0);
                full && h[0].reduce.targets.iter().all(shared)
            });
            match (found, thread) {
                (Some((count, halvings)), Some(d)) => {
                    self.shuffled(&halvings, d.thread)?;
                    at += count;
                }
                _ => {
                    self.stmt(&all[at])?;
                    at += 1;
                }
            }
        }
        Ok(())
    }

    fn shuffled(&mut self, all: &[Halving], thread: VarId) -> Result<()> {
        let first = &all[0];
        let name = self.vars.get(&thread).map(|v| v.name.clone());
        let thread = name.ok_or_else(|| ill_formed("a kernel without threads"))?;
        let lane = first.row.map_or(thread.clone(), |n| format!("({thread} % {n})"));
        let mut elements = Vec::new();
        // Rows within a warp: all of its threads take part.
        let within = first.row.filter(|n| *n <= WARP);
        match within {
            Some(_) => self.open("{"),
            None => self.open(format!("if ({lane} < {}) {{", 2 * first.half)),
        }
        let mut mine = Vec::new();
        for (target, indices) in first.reduce.targets.iter().zip(&first.indices) {
            let b = self.buf_of(target)?;
            self.begin(&indices.iter().collect::<Vec<_>>());
            let element = self.element(&b, indices)?;
            let v = self.value_in_register(target, "mine");
            self.line(format!("{} {} = {element};", memory_type(v.ty), self.name_of(&v)));
            elements.push(element);
            mine.push(v);
        }
        let mask = match within {
            None if 2 * first.half < WARP => format!("{:#x}u", (1u64 << (2 * first.half)) - 1),
            _ => "0xffffffffu".to_string(),
        };
        let width = within.map_or(String::new(), |n| format!(", {n}"));
        for h in all {
            self.open("{");
            let mut theirs = Vec::new();
            for (target, v) in h.reduce.targets.iter().zip(&mine) {
                let other = self.value_in_register(target, "theirs");
                let (ty, name, v) = (memory_type(other.ty), self.name_of(&other), self.name_of(v));
                self.line(format!("const {ty} {name} = __shfl_down_sync({mask}, {v}, {}{width});", h.half));
                theirs.push(other);
            }
            self.open(format!("if ({lane} < {}) {{", h.half));
            let (olds, values): (Vec<Expr>, Vec<Expr>) =
                (mine.iter().map(var).collect(), theirs.iter().map(var).collect());
            let news = combine(self.module, &h.reduce.op, &olds, &values)
                .ok_or_else(|| ill_formed(format!("`{}` is not defined here", h.reduce.op)))?;
            self.begin(&news.iter().collect::<Vec<_>>());
            let mut texts = Vec::new();
            for (n, v) in news.iter().zip(&mine) {
                let text = self.uniform(n)?;
                let name = self.names.fresh("new");
                self.line(format!("const {} {name} = {};", memory_type(v.ty), bare(&text)));
                texts.push(name);
            }
            for (v, text) in mine.iter().zip(texts) {
                let name = self.name_of(v);
                self.line(format!("{name} = {text};"));
            }
            self.close("}");
            self.close("}");
        }
        self.open(format!("if ({lane} < {}) {{", first.half));
        for (element, v) in elements.iter().zip(&mine) {
            let name = self.name_of(v);
            self.line(format!("{element} = {name};"));
        }
        self.close("}");
        self.close("}");
        for v in &mine {
            self.vars.remove(&v.id);
        }
        Ok(())
    }

    /// A variable of the kernel for an element.
    fn value_in_register(&mut self, of: &Access, hint: &str) -> Binder {
        let ty = of.elem.scalar().unwrap_or(Scalar::F32);
        let id = VarId(self.next_id);
        self.next_id += 1;
        let name = self.names.fresh(hint);
        let frame = self.frames.len() - 1;
        self.vars.insert(id, Var { name: name.clone(), ty, frame, lanes: false });
        Binder { id, name: name.into(), ty }
    }

    fn name_of(&self, b: &Binder) -> String {
        self.vars.get(&b.id).map_or_else(|| b.name.to_string(), |v| v.name.clone())
    }
}
