//! Whether a run ended as it should.

use backstitch_kernel::StepId;
use backstitch_kernel::saga::{Definition, Phase, Status, audit};

use super::Report;
use super::calls::Called;
use super::scenario::Plot;

/// Everything that is wrong with a run.
pub(super) fn problems(definition: &Definition, report: &Report) -> Vec<String> {
    let mut problems = wrong_end(report);
    if problems.is_empty() {
        problems.extend(wrong_calls(definition, report));
        let violations = audit(definition, &report.log);
        problems.extend(violations.iter().map(ToString::to_string));
    }
    problems
}

/// The run, told by its log and its calls.
pub(super) fn story(report: &Report) -> String {
    let events = report.log.iter().map(|recorded| {
        let step = recorded.event.step().map(|step| format!(" {step}")).unwrap_or_default();
        format!("  {:>3} {}{step}", recorded.seq, recorded.event.name())
    });
    let calls = report.calls.iter();
    let calls =
        calls.map(|call| format!("  {} {}, attempt {}", call.phase.as_str(), call.step, call.attempt));
    let events: Vec<_> = events.collect();
    let calls: Vec<_> = calls.collect();
    format!("what happened:\n{}\ncalls:\n{}", events.join("\n"), calls.join("\n"))
}

fn wrong_end(report: &Report) -> Vec<String> {
    let ended = &report.ended;
    let expected = match report.scenario.plot {
        Plot::Succeeds => Status::Succeeded,
        Plot::RefusedAt(_) | Plot::AnswerLostAt(_) => Status::Compensated,
    };
    let mut problems = Vec::new();
    if ended.status != expected {
        problems.push(format!("it ends `{}` instead of `{expected}`", ended.status));
        let error = ended.error.as_ref().filter(|_| expected == Status::Succeeded);
        problems.extend(error.map(|error| format!("its error is: {error}")));
        for step in &ended.steps {
            if let Some(error) = &step.compensation_error {
                problems.push(format!("the compensation of step `{}` fails: {error}", step.id));
            }
        }
    } else if ended.failed_step.as_ref() != report.scenario.plot.failing_step() {
        let failed = ended.failed_step.as_ref().map_or("none", StepId::as_str);
        problems.push(format!("the step that failed is {failed}"));
    }
    problems
}

fn wrong_calls(definition: &Definition, report: &Report) -> Vec<String> {
    let mut problems = Vec::new();
    let calls = &report.calls;
    let first = |step: &StepId, phase: Phase| calls.iter().position(|call| is(call, step, phase));
    let last = |step: &StepId, phase: Phase| calls.iter().rposition(|call| is(call, step, phase));
    let first_undo = calls.iter().position(|call| call.phase == Phase::Undo);
    let last_do = calls.iter().rposition(|call| call.phase == Phase::Do);
    if let (Some(undo), Some(action)) = (first_undo, last_do)
        && undo < action
    {
        problems.push(format!("step `{}` is run after the rollback began", calls[action].step));
    }
    for step in definition.steps() {
        for &before in &step.depends_on {
            let before = &definition.steps()[before].id;
            if first(&step.id, Phase::Do)
                .is_some_and(|run| first(before, Phase::Do).is_none_or(|it| it > run))
            {
                problems.push(format!("step `{}` is run before step `{before}`", step.id));
            }
        }
        for &after in &step.successors {
            let after = &definition.steps()[after].id;
            if let (Some(undone), Some(before)) = (first(&step.id, Phase::Undo), last(after, Phase::Undo))
                && undone < before
            {
                problems.push(format!("step `{}` is undone before step `{after}`", step.id));
            }
        }
    }
    if report.scenario.crash.is_none() {
        problems.extend(wrong_undoing(definition, report));
    }
    problems
}

fn is(call: &Called, step: &StepId, phase: Phase) -> bool {
    call.step == *step && call.phase == phase
}

/// Without a crash it is known exactly what is undone: what had succeeded, and what is in doubt.
fn wrong_undoing(definition: &Definition, report: &Report) -> Vec<String> {
    let Some(failing) = report.scenario.plot.failing_step() else {
        return Vec::new();
    };
    let in_doubt = matches!(report.scenario.plot, Plot::AnswerLostAt(_));
    let Some(position) = definition.position(failing) else {
        return vec![format!("there is no step `{failing}`")];
    };
    let mut problems = Vec::new();
    for (other, step) in definition.steps().iter().enumerate() {
        let undone = report.calls.iter().any(|call| is(call, &step.id, Phase::Undo));
        let came_after = definition.steps()[position].successors.contains(&other);
        let came_before = step.successors.contains(&position);
        let owed = step.compensation.is_some() && (came_before || (other == position && in_doubt));
        let free = came_after || (other == position && !in_doubt);
        if owed && !undone {
            problems.push(format!("step `{}` is not undone", step.id));
        } else if free && undone {
            problems.push(format!("step `{}` is undone though there is nothing to undo", step.id));
        }
    }
    problems
}
