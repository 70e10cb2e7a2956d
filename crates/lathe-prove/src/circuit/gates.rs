//! Gates, shared, with constants folded.

use std::collections::HashMap;
use std::ops::Not;

/// A wire or its complement; two of them are constant.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) struct Wire(u32);

impl Wire {
    pub const FALSE: Wire = Wire(0);
    pub const TRUE: Wire = Wire(1);

    pub fn constant(v: bool) -> Wire {
        if v { Wire::TRUE } else { Wire::FALSE }
    }

    pub fn is_constant(self) -> bool {
        self.0 < 2
    }

    pub fn not(self) -> Wire {
        Wire(self.0 ^ 1)
    }

    /// The number of the gate that drives it; 0 for constants.
    pub fn gate(self) -> usize {
        (self.0 >> 1) as usize
    }

    pub fn is_complement(self) -> bool {
        self.0 & 1 == 1
    }
}

impl Not for Wire {
    type Output = Wire;

    fn not(self) -> Wire {
        Wire::not(self)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Gate {
    /// Number 0, or a free input.
    Input,
    And(Wire, Wire),
    Xor(Wire, Wire),
    /// `c ? a : b`
    Choose(Wire, Wire, Wire),
}

/// Gates by number; number 0 is the constant.
pub(crate) struct Gates {
    all: Vec<Gate>,
    known: HashMap<Gate, Wire>,
}

impl Default for Gates {
    fn default() -> Gates {
        Gates { all: vec![Gate::Input], known: HashMap::new() }
    }
}

impl Gates {
    pub fn len(&self) -> usize {
        self.all.len()
    }

    pub fn get(&self, n: usize) -> Gate {
        self.all[n]
    }

    pub fn input(&mut self) -> Wire {
        self.all.push(Gate::Input);
        Wire((self.all.len() as u32 - 1) << 1)
    }

    fn gate(&mut self, g: Gate) -> Wire {
        if let Some(w) = self.known.get(&g) {
            return *w;
        }
        let w = self.input();
        self.all[w.gate()] = g;
        self.known.insert(g, w);
        w
    }

    pub fn and(&mut self, a: Wire, b: Wire) -> Wire {
        let (a, b) = (a.min(b), a.max(b));
        match () {
            () if a == Wire::FALSE || a == b.not() => Wire::FALSE,
            () if a == Wire::TRUE || a == b => b,
            () => self.gate(Gate::And(a, b)),
        }
    }

    pub fn or(&mut self, a: Wire, b: Wire) -> Wire {
        self.and(a.not(), b.not()).not()
    }

    pub fn xor(&mut self, a: Wire, b: Wire) -> Wire {
        // Complements come out.
        let flip = a.is_complement() != b.is_complement();
        let plain = |w: Wire| if w.is_complement() { w.not() } else { w };
        let (a, b) = (plain(a).min(plain(b)), plain(a).max(plain(b)));
        let out = match () {
            () if a == b => Wire::FALSE,
            () if a == Wire::FALSE => b,
            () => self.gate(Gate::Xor(a, b)),
        };
        if flip { out.not() } else { out }
    }

    pub fn choose(&mut self, c: Wire, a: Wire, b: Wire) -> Wire {
        let (c, a, b) = if c.is_complement() { (c.not(), b, a) } else { (c, a, b) };
        match () {
            () if c == Wire::FALSE => b,
            () if a == b => a,
            () if a == b.not() => self.xor(c, b),
            () if a.is_constant() || a == c || a == c.not() => {
                // c ? 1 : b is c or b; c ? 0 : b is not c and b.
                let high = a == Wire::TRUE || a == c;
                if high { self.or(c, b) } else { self.and(c.not(), b) }
            }
            () if b.is_constant() || b == c || b == c.not() => {
                let high = b == Wire::TRUE || b == c.not();
                if high { self.or(c.not(), a) } else { self.and(c, a) }
            }
            () => self.gate(Gate::Choose(c, a, b)),
        }
    }
}
