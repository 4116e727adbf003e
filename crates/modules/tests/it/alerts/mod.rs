//! Alerts on a real engine: to a real mail server, to a webhook, to a file and to the log.

mod ages;
mod channels;
mod failover;
mod listing;
mod mail;
mod retention;
mod retries;
mod stage;
