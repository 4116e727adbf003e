//! The delivery runtime: everything that is sent to a receiver, at least once, goes through it.
//!
//! ```text
//!  wake-up, poll interval                                     what is durable frees what waited behind it
//!          │ ┌──────────────────────────────────────────────────────────────────────────┐
//!          ▼ ▼                                                                          │
//!   poll scheduler ─► claimer ──────────────► partition queues ─► attempts ─► settlement │
//!   which partitions  ├ membership: our share  workers that make   timeout,   batches,   ┘
//!   now, which later  ├ limiter: places, rate, attempts, so many   panics     kept until
//!                     │ concurrency, breaker   of each partition               durable;
//!                     └ lease, until when      at once                         rejected ones
//!                                                                              are isolated
//! ```
//!
//! A [`DeliveryPolicy`] says what is delivered: how to claim ([`ClaimPolicy`]), what an attempt is, what its outcome means for the
//! item (done, retried after a backoff, dead-lettered) and for the receiver, and how to settle it. There are two: the outbox, whose
//! partitions are topics, and webhooks, whose partitions are endpoints. The runtime knows neither (ADR 18).
//!
//! An item is this node's until its lease expires. An attempt begins only if it ends before that; otherwise its item is given back.
//! A result is kept in memory until it is durable or the lease has expired. So an item is delivered at least once, and twice only after a
//! crash, or when the store takes no result for as long as the lease lasts.

mod claim;
pub mod limiter;
pub mod membership;
mod partition_queue;
mod policy;
mod poll_scheduler;
mod runtime;
mod settlement;

pub use claim::{
    Ask, Claim, ClaimBatch, Claimed, Claimer, LeaseBatch, PartitionPage, PollScope, PollSummary,
};
pub use policy::{
    AttemptEnd, AttemptTimes, ClaimPolicy, DeliveryPolicy, Outcome, PartitionKey, Schedule, Unsettled,
};
pub use runtime::DeliveryRuntime;
