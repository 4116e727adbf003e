//! Sagas, as people look at them and change their course.

pub(super) mod bulk;
mod graph;
pub(super) mod list;
pub(super) mod operate;
mod place;
pub(super) mod saga;
mod seen;
mod timeline;
mod wanted;
pub(super) mod whole;

pub(super) use place::of as place;
