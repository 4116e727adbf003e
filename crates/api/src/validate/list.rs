//! Lists of requests.

use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ArrayBuilder, Schema};

use super::schema::Components;
use super::{Input, Node};

/// A list with so many items.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List<T, const LEAST: usize, const MOST: usize>(pub Vec<T>);

impl<T: Input, const LEAST: usize, const MOST: usize> Input for List<T, LEAST, MOST> {
    fn read(node: &Node<'_>) -> Option<Self> {
        let items = node.items()?;
        if !(LEAST..=MOST).contains(&items.len()) {
            node.wrong(format!("has {} entries: give {LEAST} to {MOST}", items.len()));
            return None;
        }
        let read: Vec<Option<T>> = items.iter().map(T::read).collect();
        read.into_iter().collect::<Option<Vec<T>>>().map(Self)
    }

    fn schema() -> RefOr<Schema> {
        ArrayBuilder::new().items(T::schema()).min_items(Some(LEAST)).max_items(Some(MOST)).into()
    }

    fn collect(components: &mut Components) {
        T::collect(components);
    }
}
