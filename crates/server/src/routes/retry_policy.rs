//! Retry policies of declarations, for the description. What a policy may say depends on its shape, and on what is retried.

use backstitch::kernel::mistakes::MAX_RETRIES;
use backstitch_modules::declaration::MAX_JITTER;
use utoipa::openapi::schema::{ArrayBuilder, ObjectBuilder, OneOfBuilder, RefBuilder, Type};

use backstitch_api::validate::schema::{Components, closed, collect, described, named, of, whole_number};
use backstitch_api::validate::{DurationText, WaitText};

/// The policies of one kind of work.
pub(super) struct RetryPolicies {
    name: &'static str,
    about: &'static str,
    /// The shape of a policy that names none and lists no waits.
    usual: &'static str,
    /// Whether `within` may bound all attempts.
    bounded: bool,
}

/// Policies of an action that a service performs, and of all actions in a state.
pub(super) const ACTION: RetryPolicies = RetryPolicies {
    name: "DefinitionRetry",
    about: "How often an action is tried again: attempts after the first, or a policy.",
    usual: FIXED,
    bounded: true,
};
/// Policies of a step that a worker performs.
pub(super) const WORKER_ACTION: RetryPolicies = RetryPolicies {
    name: "DefinitionWorkerRetry",
    about: "How often a worker's action is tried again: attempts after the first, or a policy.",
    usual: FIXED,
    bounded: false,
};
/// Policies of a compensation that a service performs.
pub(super) const COMPENSATION: RetryPolicies = RetryPolicies {
    name: "CompensationRetry",
    about: "How often a compensation is tried again: attempts after the first, or a policy.",
    usual: EXPONENTIAL,
    bounded: true,
};
/// Policies of a compensation that a worker performs.
pub(super) const WORKER_COMPENSATION: RetryPolicies = RetryPolicies {
    name: "CompensationWorkerRetry",
    about: "How often a worker's compensation is tried again: attempts after the first, or a policy.",
    usual: EXPONENTIAL,
    bounded: false,
};

const FIXED: &str = "fixed";
const EXPONENTIAL: &str = "exponential";
const LIST: &str = "list";

const COUNT: &str = "Attempts after the first.";

impl RetryPolicies {
    pub(super) fn reference(&self) -> RefBuilder {
        named(self.name)
    }

    pub(super) fn collect(&self, components: &mut Components) {
        let policies = OneOfBuilder::new()
            .description(Some(self.about))
            .item(count(MAX_RETRIES))
            .item(
                self.counted("The same wait each time.", FIXED)
                    .property("delay", described::<WaitText>("The wait.")),
            )
            .item(
                self.counted("Waits that double.", EXPONENTIAL)
                    .property("delay", described::<WaitText>("The first wait."))
                    .property("max_delay", described::<WaitText>("The longest wait.")),
            )
            .item(
                self.list(
                    "These waits in turn; the last one serves whatever comes after.",
                    waits().min_items(Some(1)),
                )
                .property("count", count(MAX_RETRIES))
                .required("count"),
            )
            // As many retries as there are waits.
            .item(self.list(
                "A retry after each of these waits.",
                waits().min_items(Some(1)).max_items(usize::try_from(MAX_RETRIES).ok()),
            ))
            .item(self.list("No retries.", waits().max_items(Some(0))).property("count", count(0)))
            .examples([
                serde_json::json!({ "count": 2, "delay": "1s", "backoff": EXPONENTIAL, "max_delay": "30s" }),
            ]);
        components.push((self.name.to_owned(), policies.into()));
        collect::<DurationText>(components);
        collect::<WaitText>(components);
    }

    fn list(&self, about: &str, waits: ArrayBuilder) -> ObjectBuilder {
        self.shape(about, LIST).property("delays", waits).required("delays")
    }

    /// A shape that has a usual count.
    fn counted(&self, about: &str, backoff: &str) -> ObjectBuilder {
        self.shape(about, backoff).property("count", count(MAX_RETRIES))
    }

    /// What policies of every shape may say.
    fn shape(&self, about: &str, backoff: &str) -> ObjectBuilder {
        let jitter = "Waits are longer by up to this many percent.";
        let shape = closed(about)
            .property("backoff", ObjectBuilder::new().schema_type(Type::String).enum_values(Some([backoff])))
            .property("jitter", whole_number(jitter, 0, MAX_JITTER.into()));
        let shape = if self.bounded {
            shape.property(
                "within",
                described::<DurationText>("All attempts and waits together; no limit unless given."),
            )
        } else {
            shape
        };
        // A list is told by its waits.
        if [self.usual, LIST].contains(&backoff) { shape } else { shape.required("backoff") }
    }
}

fn count(most: u32) -> ObjectBuilder {
    whole_number(COUNT, 0, most)
}

fn waits() -> ArrayBuilder {
    ArrayBuilder::new().items(of::<WaitText>())
}
