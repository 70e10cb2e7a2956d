//! Work on many items by as many threads as there are processors.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::channel;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;

/// Trees are walked by recursion, and a chain of local arrays nests as deep as it is long. Only what is touched of a
/// stack takes memory.
pub const STACK: usize = 512 << 20;

/// How many threads of this process help others, so that work within work takes no more than there are processors.
static HELPERS: Mutex<usize> = Mutex::new(0);
/// One of them is done, or there is nothing left to help with.
static CHANGED: Condvar = Condvar::new();

/// So many help at most, beside the one that they help.
fn most_helpers() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from) - 1
}

fn helpers() -> MutexGuard<'static, usize> {
    HELPERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A thread that helps, until it is dropped.
struct Helper;

impl Helper {
    /// One more, as soon as there is a processor for it; none, if there is nothing left to help with.
    fn new(left: impl Fn() -> bool) -> Option<Helper> {
        let most = most_helpers();
        let busy = CHANGED.wait_while(helpers(), |n| left() && *n >= most);
        let mut busy = busy.unwrap_or_else(PoisonError::into_inner);
        left().then(|| {
            *busy += 1;
            Helper
        })
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        *helpers() -= 1;
        CHANGED.notify_all();
    }
}

/// Who gives out items, until it has none left, or panicked.
struct Giving<'a> {
    next: &'a AtomicUsize,
    items: usize,
}

impl Drop for Giving<'_> {
    fn drop(&mut self) {
        self.next.fetch_max(self.items, Relaxed);
        // Who waits to help has looked before, or sees it now.
        drop(helpers());
        CHANGED.notify_all();
    }
}

/// The results of `f` on all items, in their order.
pub fn each<T: Sync, R: Send>(items: &[T], f: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let mut out = Vec::with_capacity(items.len());
    in_order(items, f, |r| out.push(r));
    out
}

/// The results of `f` on all items, in their order: those that `f` would have had one item after the other, each with what the ones
/// before had left of the work that may be done ([`lathe_analysis::within_work`]).
pub fn each_in_turn<T: Sync, R: Send>(items: &[T], f: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let (most, mut out) = (lathe_analysis::left(), Vec::with_capacity(items.len()));
    if items.len() < 2 || most_helpers() == 0 {
        return items.iter().map(f).collect();
    }
    let begin = |item: &T| lathe_analysis::apart(most, || f(item));
    in_order(items, begin, |(found, work)| {
        // Hardly ever so little is left that it would have come to something else.
        let in_turn = items.get(out.len()).filter(|_| !work.taken());
        out.push(in_turn.map_or(found, &f));
    });
    out
}

/// Gives the results of `f` on all items to `then`, in their order and as soon as they are there; `then` runs on this
/// thread. What isl answers one of the threads, it has answered all.
///
/// # Panics
/// If `f` does for an item.
pub fn in_order<T: Sync, R: Send>(items: &[T], f: impl Fn(&T) -> R + Sync, mut then: impl FnMut(R)) {
    let next = AtomicUsize::new(0);
    let one = || {
        let n = next.fetch_add(1, Relaxed);
        Some((n, f(items.get(n)?)))
    };
    let (one, next, (sender, found)) = (&one, &next, channel());
    let answers = lathe_analysis::answers();
    std::thread::scope(|scope| {
        let giving = Giving { next, items: items.len() };
        // Helpers of others come when they are done there.
        let help = |_| {
            let (sender, answers) = (sender.clone(), answers.clone());
            let work = move || {
                let Some(_helper) = Helper::new(|| next.load(Relaxed) < items.len()) else { return };
                answers.share();
                // Nobody listens any more only where `then` panicked.
                std::iter::from_fn(one).for_each(|r| drop(sender.send(r)));
            };
            // What no thread could be had for is done by this one.
            Builder::new().stack_size(STACK).spawn_scoped(scope, work).ok()
        };
        let helping: Vec<_> =
            (0..most_helpers().min(items.len().saturating_sub(1))).filter_map(help).collect();
        drop(sender);
        let (mut early, mut at) = (BTreeMap::new(), 0);
        let mut give = |results: &mut dyn Iterator<Item = (usize, R)>| {
            early.extend(results);
            while let Some(r) = early.remove(&at) {
                then(r);
                at += 1;
            }
        };
        while let Some(own) = one() {
            give(&mut std::iter::once(own).chain(found.try_iter()));
        }
        drop(giving);
        found.iter().for_each(|r| give(&mut std::iter::once(r)));
        for h in helping {
            h.join().unwrap_or_else(|p| std::panic::resume_unwind(p));
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_order_also_from_work_within_work() {
        let items: Vec<u64> = (0..40).collect();
        let inner = |n: &u64| each(&items[..*n as usize], |m| m * n).iter().sum::<u64>();
        let mut got = Vec::new();
        in_order(&items, inner, |r| got.push(r));
        let want: Vec<u64> = items.iter().map(|n| n * (0..*n).sum::<u64>()).collect();
        assert_eq!(got, want);
        assert_eq!(each(&[] as &[u64], |n| *n), [0; 0]);
        let left = |n: &u64| lathe_analysis::within_work(100 - n, || (*n, lathe_analysis::left()));
        let within = |most| lathe_analysis::within_work(most, || each_in_turn(&items, left));
        assert_eq!(within(1000), items.iter().map(|n| (*n, 100 - n)).collect::<Vec<_>>());
    }

    #[test]
    fn a_panic_is_passed_on() {
        let items: Vec<u64> = (0..20).collect();
        let done = std::panic::catch_unwind(|| each(&items, |n| assert_ne!(*n, 13, "unlucky")));
        assert!(done.is_err());
        let within = |n: &u64| each(&items, |m| assert_ne!(n + m, 30, "unlucky")).len();
        assert!(std::panic::catch_unwind(|| each(&items, within)).is_err());
    }
}
