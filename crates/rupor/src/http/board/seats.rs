//! Seats of open pages: so many for one viewer, so many in all. When all are taken, whoever holds most gives one up,
//! so that nobody locks the others out.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

/// Open pages of one viewer.
const VIEWER_MAX: usize = 8;
/// Open pages at the same time.
const ALL_MAX: usize = 64;

#[derive(Debug, Default)]
pub(super) struct Seats {
    book: Mutex<Book>,
}

#[derive(Debug, Default)]
struct Book {
    next: u64,
    /// In the order in which they were taken.
    taken: Vec<Taken>,
}

#[derive(Debug)]
struct Taken {
    number: u64,
    viewer: IpAddr,
    left: Arc<Notify>,
}

/// One open page; given back when it is dropped.
#[derive(Debug)]
pub(super) struct Seat {
    seats: Arc<Seats>,
    number: u64,
    left: Arc<Notify>,
}

impl Seats {
    pub(super) fn take(self: &Arc<Self>, viewer: IpAddr) -> Option<Seat> {
        let book = &mut *self.book.lock().unwrap_or_else(PoisonError::into_inner);
        let mut counts: HashMap<IpAddr, usize> = HashMap::new();
        for taken in &book.taken {
            *counts.entry(taken.viewer).or_default() += 1;
        }
        let own = counts.get(&viewer).copied().unwrap_or_default();
        if own >= VIEWER_MAX {
            return None;
        }
        if book.taken.len() >= ALL_MAX {
            let most = counts.values().copied().max().unwrap_or_default();
            let oldest = book.taken.iter().position(|taken| counts.get(&taken.viewer) == Some(&most))?;
            if most <= own + 1 {
                return None;
            }
            book.taken.remove(oldest).left.notify_one();
        }
        let (number, left) = (book.next, Arc::new(Notify::new()));
        book.next += 1;
        book.taken.push(Taken { number, viewer, left: Arc::clone(&left) });
        Some(Seat { seats: Arc::clone(self), number, left })
    }
}

impl Seat {
    /// Notified when the seat went to somebody else.
    pub(super) fn left(&self) -> Arc<Notify> {
        Arc::clone(&self.left)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut book = self.seats.book.lock().unwrap_or_else(PoisonError::into_inner);
        book.taken.retain(|taken| taken.number != self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn viewer(n: u8) -> IpAddr {
        IpAddr::from([203, 0, 113, n])
    }

    #[tokio::test]
    async fn who_opens_many_pages_locks_nobody_out() {
        let seats = Arc::new(Seats::default());
        let greedy: Vec<Seat> = (0..20).filter_map(|_| seats.take(viewer(1))).collect();
        assert_eq!(greedy.len(), VIEWER_MAX);
        let others: Vec<Seat> = (2..9)
            .flat_map(|n| (0..VIEWER_MAX).filter_map(|_| seats.take(viewer(n))).collect::<Vec<_>>())
            .collect();
        assert_eq!(greedy.len() + others.len(), ALL_MAX);
        let newcomer = seats.take(viewer(100));
        assert!(newcomer.is_some(), "all seats are taken, and there is one for who has none");
        greedy[0].left().notified().await;
        drop(others);
        assert!(seats.take(viewer(1)).is_some(), "one of theirs is gone");
    }

    #[test]
    fn a_seat_that_is_given_back_can_be_taken_again() {
        let seats = Arc::new(Seats::default());
        for _ in 0..1_000 {
            drop(seats.take(viewer(1)).unwrap());
        }
        assert!(seats.book.lock().unwrap().taken.is_empty());
    }
}
