//! Pressed buttons, until somebody answers them.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

/// A button that was pressed.
#[derive(Clone, Debug)]
pub(super) struct Pressed {
    pub bot: i64,
    pub chat: i64,
    pub mid: String,
}

/// Pressed buttons by callback id.
#[derive(Debug, Default)]
pub(super) struct Callbacks {
    pressed: Mutex<(HashMap<String, Pressed>, VecDeque<String>)>,
}

/// Beyond this the oldest are forgotten.
const CALLBACKS_MAX: usize = 100_000;

impl Callbacks {
    pub(super) fn add(&self, id: &str, pressed: Pressed) {
        let mut guard = self.pressed.lock().unwrap_or_else(PoisonError::into_inner);
        let (by_id, ages) = &mut *guard;
        if by_id.insert(id.to_owned(), pressed).is_none() {
            ages.push_back(id.to_owned());
        }
        if ages.len() > CALLBACKS_MAX
            && let Some(oldest) = ages.pop_front()
        {
            by_id.remove(&oldest);
        }
    }

    pub(super) fn get(&self, id: &str) -> Option<Pressed> {
        self.pressed.lock().unwrap_or_else(PoisonError::into_inner).0.get(id).cloned()
    }

    pub(super) fn clear(&self) {
        *self.pressed.lock().unwrap_or_else(PoisonError::into_inner) = Default::default();
    }
}
