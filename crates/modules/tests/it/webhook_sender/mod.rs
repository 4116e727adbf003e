//! Webhooks sent to receivers that behave, and receivers that do not.

mod answers;
mod fairness;
mod guard;
mod losses;
mod stage;
mod tls;
mod what_is_sent;
