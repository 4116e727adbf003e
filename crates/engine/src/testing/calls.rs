//! Which actions and compensations were called.

use std::sync::{Arc, Mutex, PoisonError};

use backstitch_kernel::StepId;
use backstitch_kernel::saga::Phase;

use crate::call::Call;

/// A call of an action or a compensation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Called {
    /// The step.
    pub step: StepId,
    /// Action or compensation.
    pub phase: Phase,
    /// Which attempt it was, from 1.
    pub attempt: u32,
}

/// The calls of all lives of a saga.
#[derive(Clone, Default)]
pub(super) struct Calls(Arc<Mutex<Vec<Called>>>);

impl Calls {
    pub(super) fn note(&self, call: &Call) {
        let called = Called { step: call.step().clone(), phase: call.phase, attempt: call.attempt };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(called);
    }

    pub(super) fn all(&self) -> Vec<Called> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
