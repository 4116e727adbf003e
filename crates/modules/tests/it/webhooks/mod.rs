//! Webhook deliveries on real databases. Tests carry the numbers of the clauses they show.

mod dead_letters;
mod delivery_workers;
mod desk;
mod failover;
mod ingest;
mod jobs;
mod late_leases;
mod machine;
mod members;
mod migrations;
mod orchestrators;
mod parked;
mod pauses;
mod plans;
mod pruned;
mod retention;
mod roles;
mod stage;
mod strays;
mod subscriptions;
mod tables;
mod two_desks;
