//! Numbers for equal keys: the first key gets 0, each new one the next.

const EMPTY: u32 = u32::MAX;

/// Open addressing over numbers; the keys lie with the caller.
pub(crate) struct Interner {
    slots: Vec<u32>,
    hashes: Vec<u64>,
}

impl Interner {
    pub fn new() -> Interner {
        Interner { slots: vec![EMPTY; 64], hashes: Vec::new() }
    }

    /// The number of the key with this hash that `same` accepts, or a new one; and whether it is new.
    pub fn number(&mut self, hash: u64, same: impl Fn(u32) -> bool) -> (u32, bool) {
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        loop {
            let id = self.slots[at];
            if id == EMPTY {
                break;
            }
            if self.hashes[id as usize] == hash && same(id) {
                return (id, false);
            }
            at = (at + 1) & mask;
        }
        let id = self.hashes.len() as u32;
        self.hashes.push(hash);
        self.slots[at] = id;
        if self.hashes.len() * 2 > self.slots.len() {
            self.grow();
        }
        (id, true)
    }

    fn grow(&mut self) {
        let size = self.slots.len() * 4;
        self.slots = vec![EMPTY; size];
        for (id, hash) in self.hashes.iter().enumerate() {
            let mut at = *hash as usize & (size - 1);
            while self.slots[at] != EMPTY {
                at = (at + 1) & (size - 1);
            }
            self.slots[at] = id as u32;
        }
    }
}

/// A hash of words (the multiply and rotate scheme of FxHash, with a last mix because low bits are used).
pub(crate) fn hash(words: &[u32], seed: u64) -> u64 {
    const K: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut h = seed ^ (words.len() as u64).wrapping_mul(K);
    for w in words {
        h = (h.rotate_left(5) ^ u64::from(*w)).wrapping_mul(K);
    }
    h ^ (h >> 29)
}

/// Numbers for keys of a fixed number of words, each word below its limit.
pub(crate) struct Keys<'a> {
    width: usize,
    /// All keys, one after the other.
    pub words: Vec<u32>,
    table: Table<'a>,
}

enum Table<'a> {
    /// Few combinations: a number for each.
    Direct {
        limits: Vec<u32>,
        numbers: Vec<u32>,
    },
    Hashed(Interner),
    /// The caller never asks for the same key twice.
    New,
    /// Keys that are alike have one number.
    Signed {
        of: Box<Signer<'a>>,
        width: usize,
        signs: Vec<u32>,
        interner: Interner,
    },
}

/// Appends what tells keys apart.
pub(crate) type Signer<'a> = dyn Fn(&[u32], &mut Vec<u32>) + 'a;

impl<'a> Keys<'a> {
    pub fn new(limits: Vec<u32>) -> Keys<'a> {
        let combinations = limits.iter().try_fold(1u64, |n, l| n.checked_mul(u64::from(*l)));
        let width = limits.len();
        let table = match combinations {
            Some(n) if n <= 1 << 16 => Table::Direct { limits, numbers: vec![EMPTY; n as usize] },
            _ => Table::Hashed(Interner::new()),
        };
        Keys { width, words: Vec::new(), table }
    }

    /// Keys of which none is asked for twice.
    pub fn all_new(width: usize) -> Keys<'a> {
        Keys { width, words: Vec::new(), table: Table::New }
    }

    /// Keys of which alike ones get the number of the first.
    pub fn signed(width: usize, of: Box<Signer<'a>>) -> Keys<'a> {
        let table = Table::Signed { of, width: 0, signs: Vec::new(), interner: Interner::new() };
        Keys { width, words: Vec::new(), table }
    }

    pub fn number(&mut self, key: &[u32]) -> u32 {
        let (words, width) = (&mut self.words, self.width);
        let (id, new) = match &mut self.table {
            Table::Direct { limits, numbers } => {
                let at = key.iter().zip(limits.iter()).fold(0, |at, (k, l)| at * *l as usize + *k as usize);
                let new = numbers[at] == EMPTY;
                if new {
                    numbers[at] = words.len().checked_div(width).unwrap_or(0) as u32;
                }
                (numbers[at], new)
            }
            Table::Hashed(interner) => {
                let same = |id: u32| &words[id as usize * width..(id as usize + 1) * width] == key;
                interner.number(hash(key, 0), same)
            }
            Table::New => (words.len().checked_div(width).unwrap_or(0) as u32, true),
            Table::Signed { of, width, signs, interner } => {
                let known = signs.len();
                of(key, signs);
                *width = signs.len() - known;
                let (old, sign) = signs.split_at(known);
                let at = |id: u32| &old[id as usize * *width..(id as usize + 1) * *width];
                let found = interner.number(hash(sign, 0), |id| at(id) == sign);
                if !found.1 {
                    signs.truncate(known);
                }
                found
            }
        };
        if new {
            words.extend_from_slice(key);
        }
        id
    }

    /// How many keys there are; with keys of no words one at most.
    pub fn len(&self) -> usize {
        if let Some(n) = self.words.len().checked_div(self.width) {
            return n;
        }
        match &self.table {
            Table::Direct { numbers, .. } => numbers.iter().filter(|n| **n != EMPTY).count(),
            Table::Hashed(interner) | Table::Signed { interner, .. } => interner.hashes.len(),
            Table::New => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_keys_have_equal_numbers() {
        for limits in [vec![10, 20], vec![100_000, 100_000], vec![]] {
            let w = limits.len();
            let mut keys = Keys::new(limits);
            let key = |i: u32| vec![i % 10, i / 10].into_iter().take(w).collect::<Vec<u32>>();
            let first: Vec<u32> = (0..200).map(|i| keys.number(&key(i))).collect();
            let again: Vec<u32> = (0..200).map(|i| keys.number(&key(i))).collect();
            assert_eq!(first, again);
            assert_eq!(keys.len(), if w == 0 { 1 } else { 200 });
        }
    }
}
