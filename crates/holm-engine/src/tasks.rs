//! Counts background work, so that a shutdown can wait for it.

use tokio::sync::watch;

/// A counter of running tasks.
#[derive(Debug, Clone)]
pub(crate) struct Tasks(watch::Sender<usize>);

/// One running task.
struct Guard(watch::Sender<usize>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

impl Tasks {
    pub fn new() -> Self {
        Self(watch::Sender::new(0))
    }

    /// Runs `work` in the background, counted.
    pub fn spawn<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> tokio::task::JoinHandle<T> {
        self.0.send_modify(|count| *count += 1);
        let guard = Guard(self.0.clone());
        tokio::spawn(async move {
            let _guard = guard;
            work.await
        })
    }

    /// Resolves when nothing runs.
    pub async fn idle(&self) {
        // An error cannot be: the sender is in `self`.
        let _ = self.0.subscribe().wait_for(|count| *count == 0).await;
    }
}
