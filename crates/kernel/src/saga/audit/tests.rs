//! For every invariant, a log that keeps it and logs that violate it.

mod attempts;
mod ends;
mod logs;
mod order;
mod places;
