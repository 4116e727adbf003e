//! What the runtime does with a saga, on the in-memory store and under time that waits for nobody.

mod support;

mod breakdowns;
mod crashes;
mod deadlines;
mod declared;
mod doubt;
mod event_handlers;
mod hooks;
mod inputs;
mod insight;
mod late_answers;
mod limits;
mod listing;
mod messages;
mod operations;
mod releases;
mod retries;
mod rollbacks;
mod shutdowns;
mod stalls;
mod starting;
mod streams;
mod withdrawals;
mod workers;
