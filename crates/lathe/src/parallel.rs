//! Work on many items by as many threads as there are processors.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::channel;
use std::thread::Builder;

/// Trees are walked by recursion, and a chain of local arrays nests as deep as it is long. Only what is touched of a
/// stack takes memory.
pub const STACK: usize = 512 << 20;

/// Threads of this process that help others, so that work within work takes no more than there are processors.
static HELPERS: AtomicUsize = AtomicUsize::new(0);

/// A thread that helps, until it is dropped.
struct Helper;

impl Helper {
    /// One more, if there is a processor for it.
    fn new() -> Option<Helper> {
        let most = std::thread::available_parallelism().map_or(1, usize::from) - 1;
        HELPERS.fetch_update(Relaxed, Relaxed, |n| (n < most).then_some(n + 1)).ok().map(|_| Helper)
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        HELPERS.fetch_sub(1, Relaxed);
    }
}

/// The results of `f` on all items, in their order.
pub fn each<T: Sync, R: Send>(items: &[T], f: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let mut out = Vec::with_capacity(items.len());
    in_order(items, f, |r| out.push(r));
    out
}

/// Gives the results of `f` on all items to `then`, in their order and as soon as they are there; `then` runs on this
/// thread.
///
/// # Panics
/// If `f` does for an item.
pub fn in_order<T: Sync, R: Send>(items: &[T], f: impl Fn(&T) -> R + Sync, mut then: impl FnMut(R)) {
    let next = AtomicUsize::new(0);
    let one = || {
        let n = next.fetch_add(1, Relaxed);
        Some((n, f(items.get(n)?)))
    };
    let (one, (sender, found)) = (&one, channel());
    std::thread::scope(|scope| {
        let help = |helper: Helper| {
            let sender = sender.clone();
            let work = move || {
                let _helper = helper;
                // Nobody listens any more only where `then` panicked.
                std::iter::from_fn(one).for_each(|r| drop(sender.send(r)));
            };
            // What no thread could be had for is done by this one.
            Builder::new().stack_size(STACK).spawn_scoped(scope, work).ok()
        };
        let helpers: Vec<_> = (1..items.len()).map_while(|_| Helper::new()).filter_map(help).collect();
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
        found.iter().for_each(|r| give(&mut std::iter::once(r)));
        for h in helpers {
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
    }

    #[test]
    fn a_panic_is_passed_on() {
        let items: Vec<u64> = (0..20).collect();
        let done = std::panic::catch_unwind(|| each(&items, |n| assert_ne!(*n, 13, "unlucky")));
        assert!(done.is_err());
    }
}
