//! Scheduling of tasks: groups of iterations, barriers, tokens.
//!
//! The reference run takes iterations in order, runs an asynchronous body where it is, and
//! switches only at barriers and waits: ready tasks form a stack. A random order takes any of them.

use super::Order;
use super::failure::{Failure, Trap};
use super::groups::{AsyncBody, Group, TaskId, Token, trips};
use super::machine::{Machine, Pause, Task};
use super::race::{Kind, Level};
use super::turns::{Turns, Which};

impl Machine<'_> {
    /// Runs the root task, and all that it starts, to the end.
    pub fn run(&mut self, root: Task) -> Result<(), Failure> {
        let id = self.add(root);
        self.ready.push(id);
        while let Some(id) = self.pick() {
            self.current = Some(id);
            let mut t = std::mem::take(&mut self.tasks[id]);
            let result = match self.advance(&mut t) {
                Ok(pause) => self.handle(id, &mut t, pause),
                Err(trap) => Err(trap),
            };
            if let Err(trap) = result {
                return Err(self.fail(&mut t, trap));
            }
            self.tasks[id] = t;
        }
        // Nothing can go on: if something has not ended, it waits forever.
        let at_barrier = self.groups.iter().find_map(|g| g.waiting.first()).map(|w| w.0);
        let at_token = self.bodies.iter().find_map(|b| b.waiter);
        let at_turn = self.groups.iter().find_map(|g| g.turns.stuck());
        if let Some(id) = at_barrier.or(at_token).or(at_turn) {
            let mut t = std::mem::take(&mut self.tasks[id]);
            t.pc = t.pc.saturating_sub(u32::from(at_barrier.is_some()));
            let why = Trap::Barrier("it waits for something that can never happen");
            return Err(self.fail(&mut t, why));
        }
        Ok(())
    }

    fn add(&mut self, t: Task) -> TaskId {
        match self.free_tasks.pop() {
            Some(id) => {
                self.tasks[id] = t;
                id
            }
            None => {
                self.tasks.push(t);
                self.tasks.len() - 1
            }
        }
    }

    fn pick(&mut self) -> Option<TaskId> {
        if matches!(self.order, Order::Seed(_)) && self.ready.len() > 1 {
            let k = self.random_below(self.ready.len());
            return Some(self.ready.swap_remove(k));
        }
        self.ready.pop()
    }

    /// A random number below `n` (splitmix64).
    pub fn random_below(&mut self, n: usize) -> usize {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) % n.max(1) as u64) as usize
    }

    fn handle(&mut self, id: TaskId, t: &mut Task, pause: Pause) -> Result<(), Trap> {
        match pause {
            Pause::Done => self.end(id, t),
            Pause::Fork(fork) => self.fork(id, t, fork),
            Pause::Yield => {
                self.ready.push(id);
                Ok(())
            }
            Pause::Spin => {
                self.ready.insert(0, id);
                Ok(())
            }
            Pause::Wait => Ok(()),
            Pause::Spawn { token, body } => {
                let number = self.bodies.len();
                self.bodies.push(AsyncBody::default());
                self.tokens[t.reg(token) as usize].push(number);
                if let Some(last) = t.path_mut().last_mut() {
                    last.steps += 1;
                }
                let mut child = t.branch(body);
                child.completes = Some(number);
                if let Some(races) = &mut self.races {
                    let (strand, kind) = (races.new_strand(), Kind::Async(number as u32));
                    child.path_mut().push(Level::new(strand, kind, u32::MAX));
                }
                let child = self.add(child);
                self.ready.push(id);
                self.ready.push(child);
                Ok(())
            }
            Pause::Barrier { of, spaces } => {
                let mut group = t.group;
                while let Some(g) = group {
                    if self.groups[g].of == of {
                        break;
                    }
                    group = self.groups[g].parent;
                }
                let Some(g) = group else {
                    return Err(Trap::Barrier("it is not inside a running iteration of its loop"));
                };
                self.groups[g].waiting.push((id, spaces));
                self.groups[g].open -= 1;
                // The task itself is not stored yet: its level is advanced here, the others' later.
                self.release_if_complete(g, Some((id, t)))
            }
        }
    }

    fn ancestors(&self, mut group: Option<usize>) -> Vec<usize> {
        let mut out = Vec::new();
        while let Some(g) = group {
            out.push(g);
            group = self.groups[g].parent;
        }
        out
    }

    fn fork(&mut self, id: TaskId, t: &mut Task, fork: u32) -> Result<(), Trap> {
        let compiled = self.compiled;
        let f = &compiled.routines[t.routine as usize].forks[fork as usize];
        let (lo, hi) = (t.reg(f.lo) as i64, t.reg(f.hi) as i64);
        let n = trips(lo, hi, f.step);
        if n == 0 {
            self.ready.push(id);
            return Ok(());
        }
        // Each iteration has registers of its own.
        let registers = u64::from(compiled.routines[t.routine as usize].registers).max(16);
        if (n as u64).saturating_mul(registers * 8) > self.heap.left {
            return Err(Trap::Memory { name: f.name.clone() });
        }
        let instance = self.races.as_mut().map_or(0, |r| r.new_instance());
        let size = n as usize;
        let g = self.groups.len();
        let (parent, waiting) = (t.group, Vec::new());
        self.groups.push(Group {
            of: f.of,
            executor: f.executor,
            turns: Turns::of(size),
            parent,
            owner: id,
            instance,
            open: size,
            left: size,
            size,
            waiting,
        });
        for a in self.ancestors(t.group) {
            self.groups[a].open += size;
            self.groups[a].open -= 1;
        }
        let mut made = Vec::with_capacity(size);
        for k in 0..n {
            let mut child = t.branch(f.body);
            child.group = Some(g);
            child.iteration = made.len();
            child.set_reg(f.i, (lo + k * f.step) as u64);
            if let Some(races) = &mut self.races {
                let (strand, kind) = (races.new_strand(), Kind::Iteration(instance));
                child.path_mut().push(Level::new(strand, kind, f.executor));
            }
            made.push(self.add(child));
        }
        self.ready.extend(made.into_iter().rev());
        Ok(())
    }

    fn end(&mut self, id: TaskId, t: &mut Task) -> Result<(), Trap> {
        if let Some(body) = t.completes {
            self.bodies[body].done = true;
            self.ready.extend(self.bodies[body].waiter.take());
        }
        if let Some(g) = t.group {
            let around = self.ancestors(Some(g));
            for a in &around {
                self.groups[*a].open -= 1;
            }
            self.groups[g].left -= 1;
            let woken = self.groups[g].turns.end(t.iteration);
            self.ready.extend(woken);
            if self.groups[g].left == 0 {
                let owner = self.groups[g].owner;
                // Barriers of outer loops that were passed inside count for the owner too.
                let n = self.tasks[owner].path.len();
                if n > 0 {
                    let prefix = t.path[..n].to_vec();
                    *self.tasks[owner].path_mut() = prefix;
                }
                for a in &around[1..] {
                    self.groups[*a].open += 1;
                }
                self.ready.push(owner);
            } else {
                for a in around {
                    self.release_if_complete(a, None)?;
                }
            }
        }
        self.free_tasks.push(id);
        Ok(())
    }

    /// Releases the tasks at a barrier of a group once all have reached it.
    fn release_if_complete(&mut self, g: usize, current: Option<(TaskId, &mut Task)>) -> Result<(), Trap> {
        if self.groups[g].open > 0 || self.groups[g].waiting.is_empty() {
            return Ok(());
        }
        let waiting = std::mem::take(&mut self.groups[g].waiting);
        let instance = self.groups[g].instance;
        let uneven = Trap::Barrier("other iterations finished without reaching this barrier");
        let mut current = current;
        for (id, spaces) in &waiting {
            let t = match &mut current {
                Some((now, t)) if now == id => &mut **t,
                _ => &mut self.tasks[*id],
            };
            let mut inner = t.group;
            while let Some(h) = inner {
                if self.groups[h].left < self.groups[h].size {
                    return Err(uneven);
                }
                inner = if h == g { None } else { self.groups[h].parent };
            }
            for level in t.path_mut().iter_mut().filter(|l| l.kind == Kind::Iteration(instance)) {
                for (k, phase) in level.phases.iter_mut().enumerate() {
                    *phase += u32::from(spaces >> k & 1);
                }
            }
        }
        self.groups[g].open = waiting.len();
        self.ready.extend(waiting.into_iter().map(|w| w.0).rev());
        Ok(())
    }

    pub fn open_token(&mut self) -> usize {
        self.free_tokens.pop().unwrap_or_else(|| {
            self.tokens.push(Token::new());
            self.tokens.len() - 1
        })
    }

    pub fn close_token(&mut self, token: usize) {
        self.free_tokens.push(token);
    }

    /// Whether all bodies of a token are complete but for the `pending` latest; if not, the task is woken when one
    /// of them is.
    pub fn await_token(&mut self, t: &mut Task, token: usize, pending: usize) -> bool {
        let n = self.tokens[token].len().saturating_sub(pending);
        if let Some(body) = self.tokens[token][..n].iter().find(|b| !self.bodies[**b].done) {
            self.bodies[*body].waiter = self.current;
            return false;
        }
        let awaited: Vec<usize> = self.tokens[token].drain(..n).collect();
        if let Some(races) = &mut self.races {
            let at = t.position();
            awaited.iter().for_each(|b| races.join(*b as u32, &at));
            if let Some(last) = t.path_mut().last_mut() {
                last.steps += 1;
            }
        }
        true
    }

    /// Whether it is this task's turn; if not, the task is woken when it is. `scope`: the executor of the loops.
    pub fn take_turn(&mut self, t: &Task, scope: u32, which: Which) -> Result<bool, Trap> {
        let Some(me) = self.current else { return Ok(true) };
        let mut around = Vec::new();
        let (mut group, mut iteration) = (t.group, t.iteration);
        while let Some(g) = group {
            let here = &self.groups[g];
            if here.executor == scope {
                around.push((g, iteration));
            }
            iteration = self.tasks[here.owner].iteration;
            group = here.parent;
        }
        let Some(((inner, mine), outer)) = around.split_first() else { return Ok(true) };
        for (g, k) in outer {
            if self.groups[*g].turns.waits_outside(*k, me) {
                return Ok(false);
            }
        }
        let Some(woken) = self.groups[*inner].turns.take(which, *mine, me)? else { return Ok(false) };
        self.ready.extend(woken);
        Ok(true)
    }
}
