//! A line for few seats in which workspaces take turns: who brings a thousand pictures stands in it once, like who brings one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use domain::ids::WorkspaceId;
use tokio::sync::{AcquireError, Semaphore, SemaphorePermit};

#[derive(Debug)]
pub(super) struct Line {
    seats: Semaphore,
    /// Who may stand in the line for each workspace; as long as the list of workspaces.
    turns: Mutex<HashMap<WorkspaceId, Arc<Semaphore>>>,
}

impl Line {
    pub(super) fn new(seats: usize) -> Line {
        Line { seats: Semaphore::new(seats), turns: Mutex::default() }
    }

    pub(super) async fn seat(&self, workspace: WorkspaceId) -> Result<SemaphorePermit<'_>, AcquireError> {
        let turn = {
            let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(turns.entry(workspace).or_insert_with(|| Arc::new(Semaphore::new(1))))
        };
        // Given up with the seat, so that the next one of this workspace stands behind those of the others.
        let _turn = turn.acquire().await?;
        self.seats.acquire().await
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn who_brings_many_pictures_stands_in_the_line_once() {
        let (line, many, one) = (Line::new(1), WorkspaceId(1), WorkspaceId(2));
        let held = line.seat(many).await.unwrap();
        let mut waiting: Vec<_> = (0..9).map(|_| Box::pin(line.seat(many))).collect();
        assert!(waiting.iter_mut().all(|seat| seat.now_or_never().is_none()));
        let mut other = Box::pin(line.seat(one));
        assert!((&mut other).now_or_never().is_none());
        drop(held);
        let next = (&mut waiting[0]).now_or_never().expect("the first of them is served");
        assert!((&mut other).now_or_never().is_none());
        assert!((&mut waiting[1]).now_or_never().is_none(), "the second stands behind the other workspace");
        drop(next);
        assert!((&mut other).now_or_never().is_some(), "the other workspace is next, not ninth");
    }
}
