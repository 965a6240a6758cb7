//! One life of the server. What runs in it ends with it, in the middle of whatever it was doing.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use tokio::task::JoinSet;

use crate::journal::lock;

#[derive(Clone, Default)]
pub(super) struct Life {
    work: Arc<Mutex<JoinSet<()>>>,
    running: Arc<Mutex<HashMap<u64, u32>>>,
}

impl Life {
    pub(super) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let mut all = lock(&self.work);
        while all.try_join_next().is_some() {}
        all.spawn(work);
    }

    /// Dead is dead: nothing of this life may act in the next. There is one thread, so what is
    /// aborted here does not run any more.
    pub(super) async fn end(self) {
        let mut work = std::mem::take(&mut *lock(&self.work));
        work.shutdown().await;
    }

    /// Marks an operation as under way, as long as the mark lives.
    pub(super) fn mark(&self, operation: u64) -> Running {
        *lock(&self.running).entry(operation).or_default() += 1;
        Running { life: self.clone(), operation }
    }

    pub(super) fn is_running(&self, operation: u64) -> bool {
        lock(&self.running).contains_key(&operation)
    }
}

/// hyper's HTTP/2 server spawns a task for each stream.
impl<F: Future<Output = ()> + Send + 'static> hyper::rt::Executor<F> for Life {
    fn execute(&self, future: F) {
        self.spawn(future);
    }
}

pub(super) struct Running {
    life: Life,
    operation: u64,
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut running = lock(&self.life.running);
        if let Some(copies) = running.get_mut(&self.operation) {
            *copies -= 1;
            if *copies == 0 {
                running.remove(&self.operation);
            }
        }
    }
}
