//! Every order in which a few threads can take their turns, for tests of what stands behind one
//! lock.
//!
//! Under a lock a turn happens whole, so whatever the threads do at once, the result is that of one
//! of these orders. `loom` would find the same orders, in a model of a mutex; here the code itself
//! runs.

/// Runs each interleaving of the threads' turns. Each thread keeps the order of its own.
pub(crate) fn every_order<T: Copy>(threads: &[&[T]], mut run: impl FnMut(&[T])) {
    fn go<T: Copy>(threads: &mut [&[T]], order: &mut Vec<T>, run: &mut dyn FnMut(&[T])) {
        if threads.iter().all(|turns| turns.is_empty()) {
            return run(order);
        }
        for thread in 0..threads.len() {
            if let Some((turn, rest)) = threads[thread].split_first() {
                let turns = std::mem::replace(&mut threads[thread], rest);
                order.push(*turn);
                go(threads, order, run);
                order.pop();
                threads[thread] = turns;
            }
        }
    }
    go(&mut threads.to_vec(), &mut Vec::new(), &mut run);
}

#[test]
fn three_threads_of_two_turns_have_ninety_orders() {
    let mut orders = std::collections::BTreeSet::new();
    every_order(&[&[0, 1], &[2, 3], &[4, 5]], |order| assert!(orders.insert(order.to_vec())));
    assert_eq!(orders.len(), 90);
}
