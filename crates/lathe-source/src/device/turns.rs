//! Updates in the order of blocks: decoupled look-back (Merrill and Garland, NVR-2016-002).
//!
//! A block takes its number when it starts, so that the blocks before it run or have run. It publishes the value that it
//! adds, combines what the blocks before have published, back to one that knows all before it, and publishes the sum.
//! A value of up to 32 bits and what it is are one word of 64; a larger one has words of its own, which are written
//! before the word that says so.

use super::language::Language;
use crate::atomics::Element;
use crate::emit::{Emitter, Result, Turns, Var, ill_formed};
use crate::helpers::memory_type;
use crate::writer::bare;
use lathe_device::turns::of_first_thread;
use lathe_diagnostics::Places;
use lathe_ir::Stmt;
use lathe_ir::stmt::{Atomic, AtomicOp};

/// Threads of a warp.
const WARP: i64 = 32;

/// What a word says: nothing yet (0), the value of the block, the value of all blocks up to it.
const OWN: u32 = 1;
const ALL: u32 = 2;

impl Emitter<'_> {
    /// Takes the number of the block; C text of it.
    pub(super) fn ticket(&mut self, language: Language) -> String {
        let (ticket, block) = (self.names.fresh("ticket"), self.names.fresh("block"));
        let (_, thread) = language.numbers();
        let (space, take) = match language {
            Language::Cuda => ("__shared__ ", "atomicAdd((unsigned int *)lathe_turns, 1u)"),
            Language::OpenCl => ("__local ", "atomic_inc((volatile __global uint *)lathe_turns)"),
        };
        self.line(format!("{space}uint32_t {ticket};"));
        self.line(format!("if ({thread} == 0) {ticket} = {take};"));
        self.line(language.barrier());
        self.line(format!("const int64_t {block} = (int64_t){ticket};"));
        self.turns = Some(Turns { block: block.clone(), words: 0 });
        block
    }

    /// The update in order that the first thread makes, and nothing else, where all of its warp are there.
    pub(crate) fn is_turn_of_warp<'s>(&self, s: &'s Stmt) -> Option<&'s Atomic> {
        let d = self.device.filter(|d| d.language == Language::Cuda && d.threads >= WARP)?;
        of_first_thread(s, d.thread).filter(|_| self.turns.is_some())
    }

    /// The update that the first thread makes, by its warp.
    pub(crate) fn turn_of_warp(&mut self, a: &Atomic) -> Result<()> {
        let d = self.device.ok_or_else(|| ill_formed("a warp without a device"))?;
        let thread = self.vars.get(&d.thread).map(|v| v.name.clone());
        let thread = thread.ok_or_else(|| ill_formed("a kernel without threads"))?;
        self.open(format!("if ({thread} < {WARP}) {{"));
        // All lanes compute what the first one adds.
        let first = |e: &mut Self, name: &str| {
            e.vars.get_mut(&d.thread).into_iter().for_each(|v| v.name = name.to_string());
        };
        first(self, "INT64_C(0)");
        let (e, values, _) = self.touched(a, &Places::none())?;
        first(self, &thread);
        let turn = self.turn(a, &e, &values[0])?;
        self.open(format!("if ({} > 0) {{", turn.block));
        self.line(format!("if ({thread} == 0) {{ {} }}", turn.publish(OWN, &turn.mine)));
        let (u, before) = (e.unsigned(), &turn.before);
        self.line("int lathe_any = 0;");
        self.open(format!("for (int64_t lathe_last = {} - 1;; lathe_last -= {WARP}) {{", turn.block));
        self.line(format!("const int64_t lathe_at = lathe_last - {thread};"));
        self.line("uint64_t lathe_word;");
        self.line("uint32_t lathe_there, lathe_whole;");
        self.open("do {");
        self.line(format!("lathe_word = lathe_at < 0 ? 0 : {};", turn.word("lathe_at")));
        self.line(format!("lathe_there = __ballot_sync(0xffffffffu, {} != 0);", turn.says()));
        self.line(format!("lathe_whole = __ballot_sync(0xffffffffu, {} == {ALL});", turn.says()));
        self.close(
            "} while (~lathe_there & (lathe_whole != 0 ? (lathe_whole & -lathe_whole) - 1 : 0xffffffffu));",
        );
        self.line("const int lathe_first = lathe_whole != 0 ? __ffs(lathe_whole) - 1 : 31;");
        self.line(format!("{u} lathe_seen = 0;"));
        self.line(format!("if ({thread} <= lathe_first) {{ {} }}", turn.read("lathe_at")));
        self.line("#pragma unroll");
        self.open("for (int lathe_step = 1; lathe_step < 32; lathe_step *= 2) {");
        // What shuffles take has 32 or 64 bits.
        let wide = if e.bits() == 64 { "unsigned long long" } else { "unsigned int" };
        self.line(format!(
            "const {u} lathe_other = ({u})__shfl_down_sync(0xffffffffu, ({wide})lathe_seen, lathe_step);"
        ));
        self.open(format!("if ({thread} + lathe_step <= lathe_first) {{"));
        self.both(a, &e, "lathe_other", "lathe_seen", "lathe_seen")?;
        self.close("}");
        self.close("}");
        self.open("if (lathe_any) {");
        self.both(a, &e, "lathe_seen", before, before)?;
        self.close("} else {");
        self.line(format!("{before} = lathe_seen;"));
        self.close("}");
        self.line("lathe_any = 1;");
        self.line("if (lathe_whole != 0) break;");
        self.close("}");
        self.close("}");
        self.open(format!("if ({thread} == 0) {{"));
        self.end_turn(a, &e, &turn)?;
        self.close("}");
        self.close("}");
        Ok(())
    }

    /// The update, by the one thread that is here.
    pub(crate) fn turn_of_thread(&mut self, a: &Atomic, e: &Element, value: &str) -> Result<()> {
        let turn = self.turn(a, e, value)?;
        let (u, before) = (e.unsigned(), &turn.before);
        self.open(format!("if ({} > 0) {{", turn.block));
        self.line(turn.publish(OWN, &turn.mine));
        self.line("int lathe_any = 0;");
        self.open(format!("for (int64_t lathe_at = {} - 1;; --lathe_at) {{", turn.block));
        self.line("uint64_t lathe_word;");
        self.line(format!("do lathe_word = {}; while ({} == 0);", turn.word("lathe_at"), turn.says()));
        self.line(format!("{u} lathe_seen;"));
        self.line(turn.read("lathe_at"));
        self.open("if (lathe_any) {");
        self.both(a, e, "lathe_seen", before, before)?;
        self.close("} else {");
        self.line(format!("{before} = lathe_seen;"));
        self.close("}");
        self.line("lathe_any = 1;");
        self.line(format!("if ({} == {ALL}) break;", turn.says()));
        self.close("}");
        self.close("}");
        self.end_turn(a, e, &turn)
    }

    /// Begins an update: the value as bits, and a variable for what all blocks before have, which the first block reads.
    fn turn(&mut self, a: &Atomic, e: &Element, value: &str) -> Result<Turn> {
        let language =
            self.device.map(|d| d.language).ok_or_else(|| ill_formed("a turn without a device"))?;
        let known = self
            .turns
            .as_mut()
            .ok_or_else(|| ill_formed(format!("`{}` where no block has a number", a.label)))?;
        let words = if e.bits() <= 32 { 1 } else { 3 };
        let (block, first) = (known.block.clone(), known.words);
        known.words += words;
        let (turns, mine, before) =
            (self.names.fresh("turns"), self.names.fresh("mine"), self.names.fresh("before"));
        let space = if language == Language::OpenCl { "__global " } else { "" };
        let blocks = language.blocks();
        self.line(format!(
            "volatile {space}uint64_t *{turns} = lathe_turns + 1 + {first} * (int64_t){blocks};"
        ));
        let u = e.unsigned();
        let bits = self.bits_of(e, value);
        self.line(format!("const {u} {mine} = {bits};"));
        self.line(format!("{u} {before} = 0;"));
        self.line(format!("if ({block} == 0) {before} = *(const volatile {space}{u} *){};", e.at));
        let value = value.to_string();
        Ok(Turn { turns, block, blocks, fence: language.fence(), space, words, value, mine, before })
    }

    /// `to = far ⊕ near`, all as bits.
    fn both(&mut self, a: &Atomic, e: &Element, far: &str, near: &str, to: &str) -> Result<()> {
        let AtomicOp::Update(op, _) = &a.op else { return Err(ill_formed("an order of what is no update")) };
        let t = memory_type(e.s);
        let (x, y) = (self.names.fresh("far"), self.names.fresh("near"));
        let (far, near) = (self.of_bits(e, far), self.of_bits(e, near));
        self.line(format!("const {t} {x} = {far};"));
        self.line(format!("const {t} {y} = {near};"));
        let new = self.combined(a, op, e.s, (&x, &y))?;
        let bits = self.bits_of(e, &new);
        self.line(format!("{to} = {bits};"));
        Ok(())
    }

    /// Publishes what all blocks up to this one have; the last block leaves it in the element. What was there before is
    /// bound for the rest.
    fn end_turn(&mut self, a: &Atomic, e: &Element, turn: &Turn) -> Result<()> {
        let AtomicOp::Update(op, _) = &a.op else { return Err(ill_formed("an order of what is no update")) };
        let (t, u, found) = (memory_type(e.s), e.unsigned(), self.names.fresh("found"));
        let memory = self.of_bits(e, &turn.before);
        self.line(format!("const {t} {found} = {memory};"));
        let new = self.combined(a, op, e.s, (&found, &turn.value))?;
        let (bits, after) = (self.bits_of(e, &new), self.names.fresh("after"));
        self.line(format!("const {u} {after} = {};", bare(&bits)));
        self.line(turn.publish(ALL, &after));
        self.line(format!(
            "if ({} == (int64_t){} - 1) *(volatile {}{u} *){} = {after};",
            turn.block, turn.blocks, turn.space, e.at
        ));
        if let Some(binder) = &a.old {
            let frame = self.frames.len() - 1;
            self.vars.insert(binder.id, Var { name: found, ty: e.s, frame, lanes: false });
        }
        self.stmt(&a.body)
    }
}

/// The names of one update.
struct Turn {
    /// The words of all blocks.
    turns: String,
    block: String,
    blocks: &'static str,
    fence: &'static str,
    space: &'static str,
    /// Words of a block.
    words: u64,
    /// What is added, and its bits.
    value: String,
    mine: String,
    /// The bits of what all blocks before have.
    before: String,
}

impl Turn {
    /// The word of a block that says what there is.
    fn word(&self, block: &str) -> String {
        match self.words {
            1 => format!("{}[{block}]", self.turns),
            n => format!("{}[{n} * {block}]", self.turns),
        }
    }

    /// What a word says.
    fn says(&self) -> &'static str {
        if self.words == 1 { "(lathe_word >> 32)" } else { "lathe_word" }
    }

    /// Reads the value of a block whose word is known.
    fn read(&self, block: &str) -> String {
        match self.words {
            1 => "lathe_seen = (uint32_t)lathe_word;".to_string(),
            n => format!("{} lathe_seen = {}[{n} * {block} + lathe_word];", self.fence, self.turns),
        }
    }

    /// Lets the blocks behind see a value of this block.
    fn publish(&self, what: u32, bits: &str) -> String {
        let Turn { turns, block, fence, .. } = self;
        match self.words {
            1 => format!("{turns}[{block}] = (uint64_t){what} << 32 | (uint32_t){bits};"),
            n => {
                format!("{turns}[{n} * {block} + {what}] = {bits}; {fence} {turns}[{n} * {block}] = {what};")
            }
        }
    }
}
