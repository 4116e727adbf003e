//! A saga played through without services, with the kernel's own decisions.

use backstitch::kernel::saga::{
    Decision, Definition, Effect, Input, Now, Outcome, Start, State, decide, start,
};
use backstitch::{Event, Payload, Phase, SagaId, StepError, StepId, Timestamp};
use uuid::Uuid;

/// Nothing waits, so it is always the same moment.
const NOW: Timestamp = Timestamp::from_micros(0);

pub(super) struct Rehearsal<'a> {
    definition: &'a Definition,
    state: State,
    running: Vec<Running>,
}

/// An attempt in flight.
struct Running {
    step: StepId,
    phase: Phase,
    attempt: u32,
}

impl<'a> Rehearsal<'a> {
    pub(super) fn begin(definition: &'a Definition) -> Self {
        let decision = start(definition, Start::default(), Now::at(NOW));
        let mut play = Self { definition, state: decision.state.clone(), running: Vec::new() };
        play.take(decision);
        play
    }

    pub(super) fn state(&self) -> &State {
        &self.state
    }

    /// Lets everything succeed until nothing is left but the one that is held up. Gives what ran, stage by stage.
    pub(super) fn play_on(&mut self, held_up: Option<&StepId>) -> Vec<Vec<StepId>> {
        let mut stages = Vec::new();
        loop {
            let running = std::mem::take(&mut self.running);
            let (held, stage): (Vec<_>, Vec<_>) =
                running.into_iter().partition(|running| Some(&running.step) == held_up);
            self.running = held;
            if stage.is_empty() {
                return stages;
            }
            stages.push(stage.iter().map(|running| running.step.clone()).collect());
            for running in stage {
                self.end(running, Outcome::Succeeded(Payload::null()));
            }
        }
    }

    /// Lets the one that was held up fail.
    pub(super) fn fail(&mut self, step: &StepId, error: StepError) {
        if let Some(at) = self.running.iter().position(|running| running.step == *step) {
            let running = self.running.remove(at);
            self.end(running, Outcome::Failed(error));
        }
    }

    fn end(&mut self, Running { step, phase, attempt }: Running, outcome: Outcome) {
        self.say(Input::Finished { step, phase, attempt, outcome });
    }

    fn say(&mut self, input: Input) {
        // Who asks for room may have got it by an earlier answer; everything else fits.
        if let Ok(decision) = decide(self.definition, SagaId(Uuid::nil()), &self.state, input, Now::at(NOW)) {
            self.take(decision);
        }
    }

    fn take(&mut self, decision: Decision) {
        self.state = decision.state;
        // Told by the events: what goes to an outside worker has no effect here.
        self.running.extend(decision.events.into_iter().filter_map(|recorded| match recorded.event {
            Event::StepStarted { step, attempt, .. } => Some(Running { step, phase: Phase::Do, attempt }),
            Event::StepCompensating { step, attempt, .. } => {
                Some(Running { step, phase: Phase::Undo, attempt })
            }
            _ => None,
        }));
        for effect in decision.effects {
            if let Effect::Admit { position } = effect {
                let step = self.definition.steps()[position].id.clone();
                self.say(Input::Admitted { step });
            }
        }
    }
}
