//! What a list of sagas is read by, and how far it is looked through for one page.

use backstitch_kernel::saga::Status;

use super::Filter;

/// Sagas that are looked at for a page. Where several conditions together find few, what is left is for the next page:
/// no page takes long, however much there is.
pub(super) const STRETCH: usize = 5_000;

/// What a page is read by. Every index ends in the id and so gives its part of the list in order.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    Id,
    Correlation,
    Attribute,
    Status,
    Definition,
}

impl By {
    pub(super) fn fewest(filter: &Filter) -> Self {
        // Sagas that came to a good end are most of the table; those in any other status are few.
        let ended_well = matches!(filter.status, Some(Status::Succeeded | Status::Compensated));
        match (filter.status, &filter.definition) {
            _ if filter.correlation_id.is_some() => Self::Correlation,
            _ if !filter.attributes.is_empty() => Self::Attribute,
            (_, Some(_)) if ended_well => Self::Definition,
            (Some(_), _) => Self::Status,
            (None, Some(_)) => Self::Definition,
            (None, None) => Self::Id,
        }
    }
}

impl Filter {
    /// Whether there is one condition at most: then a page is read by it, and whatever is read matches.
    pub(super) fn is_read_by_all_of_it(&self) -> bool {
        let Self { status, definition, correlation_id, attributes, .. } = self;
        let given = [status.is_some(), definition.is_some(), correlation_id.is_some()];
        given.into_iter().map(usize::from).sum::<usize>() + attributes.len() <= 1
    }
}
