//! How much memory the bodies of calls may take while they are read and worked on: in all, and of that one caller, so
//! that nobody who sends slowly keeps the others out. Counted as the bytes arrive: a length that is claimed proves nothing.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::body::Body;

use super::ApiError;
use super::ingest::read_counted;
use super::pace::Who;

/// Bytes of all bodies at once. What is made of a body takes as much again, twice at the worst.
const ALL_MAX: usize = 64 << 20;
/// Of them for one caller; the largest body there is fits in.
pub(super) const CALLER_MAX: usize = 32 << 20;

#[derive(Debug, Default)]
pub(super) struct Room {
    taken: Arc<Mutex<HashMap<Who, usize>>>,
}

/// What one body takes; given back when it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    taken: Arc<Mutex<HashMap<Who, usize>>>,
    who: Who,
    bytes: usize,
}

impl Room {
    /// A body, and its place for as long as anything made of it is there.
    pub(super) async fn read(
        &self,
        who: Who,
        body: Body,
        bytes_max: usize,
    ) -> Result<(Vec<u8>, Place), ApiError> {
        let mut place = self.place(who);
        let bytes = read_counted(body, bytes_max, |more| match place.grow(more) {
            true => Ok(()),
            false => Err(ApiError::crowded()),
        });
        Ok((bytes.await?, place))
    }

    pub(super) fn place(&self, who: Who) -> Place {
        Place { taken: Arc::clone(&self.taken), who, bytes: 0 }
    }
}

impl Place {
    pub(super) fn grow(&mut self, bytes: usize) -> bool {
        let mut taken = locked(&self.taken);
        let own = taken.get(&self.who).copied().unwrap_or_default();
        if own + bytes > CALLER_MAX || taken.values().sum::<usize>() + bytes > ALL_MAX {
            return false;
        }
        taken.insert(self.who, own + bytes);
        self.bytes += bytes;
        true
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = locked(&self.taken);
        if let Some(own) = taken.get_mut(&self.who) {
            *own -= self.bytes;
            if *own == 0 {
                taken.remove(&self.who);
            }
        }
    }
}

fn locked(taken: &Mutex<HashMap<Who, usize>>) -> MutexGuard<'_, HashMap<Who, usize>> {
    taken.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_caller_has_half_of_the_room_and_all_of_it_is_bounded() {
        let (room, half) = (Room::default(), CALLER_MAX);
        let (mut one, mut again) = (room.place(Who::Token(1)), room.place(Who::Token(1)));
        assert!(one.grow(half - 1) && again.grow(1));
        assert!(!again.grow(1), "one caller took more than half");
        let (mut two, mut three) = (room.place(Who::Token(2)), room.place(Who::Token(3)));
        assert!(two.grow(half), "half of the room is for the others");
        assert!(!three.grow(1), "there is no more than all");
        drop(one);
        assert!(three.grow(half - 1) && !three.grow(1));
        drop((again, two, three));
        assert!(locked(&room.taken).is_empty(), "what is over is given back");
    }
}
