//! A map from intervals to values: a partition of `0..len` into pieces, split where a part is changed and merged where
//! neighbours are equal.

use std::ops::Range;

/// Values over `0..len`; never empty pieces, never two equal neighbours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pieces<T> {
    /// Where each piece ends, increasing; the last is `len`.
    pieces: Vec<(u64, T)>,
}

impl<T: Clone + PartialEq> Pieces<T> {
    /// One piece, or none where `len` is 0.
    pub fn new(len: u64, value: T) -> Pieces<T> {
        Pieces { pieces: if len == 0 { Vec::new() } else { vec![(len, value)] } }
    }

    pub fn len(&self) -> u64 {
        self.pieces.last().map_or(0, |p| p.0)
    }

    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// How many pieces there are.
    pub fn count(&self) -> usize {
        self.pieces.len()
    }

    /// The pieces that meet a range, cut to it, in order.
    pub fn of(&self, range: &Range<u64>) -> impl Iterator<Item = (Range<u64>, &T)> {
        let range = range.start..range.end.min(self.len());
        let first = self.pieces.partition_point(|p| p.0 <= range.start);
        let mut start = range.start;
        self.pieces[first..].iter().map_while(move |(end, value)| {
            let piece = start..(*end).min(range.end);
            start = piece.end;
            (piece.start < piece.end).then_some((piece, value))
        })
    }

    /// Changes the values of a range, piece by piece; the rest stays.
    pub fn change(&mut self, range: &Range<u64>, mut change: impl FnMut(Range<u64>, &mut T)) {
        let range = range.start..range.end.min(self.len());
        if range.start >= range.end {
            return;
        }
        let first = self.cut(range.start);
        let last = self.cut(range.end);
        let mut start = range.start;
        for (end, value) in &mut self.pieces[first..last] {
            change(start..*end, value);
            start = *end;
        }
        self.merge(first.saturating_sub(1), last);
    }

    /// Makes a boundary at a place; the number of the piece that begins there.
    fn cut(&mut self, at: u64) -> usize {
        let n = self.pieces.partition_point(|p| p.0 <= at);
        let begins = n.checked_sub(1).map_or(0, |m| self.pieces[m].0);
        if at == begins || n == self.pieces.len() {
            return n;
        }
        let value = self.pieces[n].1.clone();
        self.pieces.insert(n, (at, value));
        n + 1
    }

    /// Makes equal neighbours from one piece to another one piece.
    fn merge(&mut self, first: usize, last: usize) {
        let mut kept = first;
        let end = (last + 1).min(self.pieces.len());
        for n in first + 1..end {
            if self.pieces[n].1 == self.pieces[kept].1 {
                self.pieces[kept].0 = self.pieces[n].0;
            } else {
                kept += 1;
                self.pieces.swap(kept, n);
            }
        }
        if kept + 1 < end {
            self.pieces.drain(kept + 1..end);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(p: &Pieces<u8>) -> Vec<(Range<u64>, u8)> {
        p.of(&(0..p.len())).map(|(r, v)| (r, *v)).collect()
    }

    #[test]
    fn pieces_are_cut_and_merged() {
        let mut p = Pieces::new(10, 0u8);
        p.change(&(2..5), |_, v| *v = 1);
        p.change(&(5..7), |_, v| *v = 1);
        assert_eq!(all(&p), [(0..2, 0), (2..7, 1), (7..10, 0)]);
        p.change(&(0..99), |_, v| *v = 3);
        assert_eq!(all(&p), [(0..10, 3)]);
        p.change(&(4..4), |_, _| panic!("nothing is in an empty range"));
        assert_eq!(p.of(&(3..3)).count(), 0);
        assert!(p.of(&(9..12)).map(|x| x.0).eq(std::iter::once(9..10)));
        assert!(Pieces::new(0, 0u8).is_empty());
    }

    /// Against an array with a value for each place.
    #[test]
    fn random_changes_agree_with_an_array() {
        use rand::{Rng, SeedableRng};
        let mut r = rand_chacha::ChaCha8Rng::seed_from_u64(1);
        for _ in 0..300 {
            let len = r.gen_range(0..20u64);
            let (mut p, mut array) = (Pieces::new(len, 0u8), vec![0u8; len as usize]);
            for _ in 0..12 {
                let (a, b, v) = (r.gen_range(0..=len), r.gen_range(0..=len), r.gen_range(0..3u8));
                let range = a.min(b)..a.max(b);
                p.change(&range, |_, x| *x = (*x + v) % 3);
                array[range.start as usize..range.end as usize].iter_mut().for_each(|x| *x = (*x + v) % 3);
                let seen = all(&p);
                let flat: Vec<u8> =
                    seen.iter().flat_map(|(r, v)| vec![*v; (r.end - r.start) as usize]).collect();
                assert_eq!(flat, array);
                assert!(seen.windows(2).all(|w| w[0].1 != w[1].1), "equal neighbours: {seen:?}");
            }
        }
    }
}
