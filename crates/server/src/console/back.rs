//! Where somebody goes from a page that cannot be shown, or from a form that came to nothing.

use std::sync::LazyLock;

use axum::http::Method;

use crate::auth::Access;
use crate::routes::assemble;

/// The paths of all pages, as their routes have them.
static PAGES: LazyLock<Vec<String>> = LazyLock::new(|| {
    let access = assemble().access;
    let pages = access
        .all()
        .filter(|(_, method, rule)| **method == Method::GET && matches!(rule.access, Access::Page(_)));
    pages.map(|(path, ..)| path.to_owned()).collect()
});

/// The nearest page that a path is part of.
pub(super) fn back_from(path: &str) -> String {
    // Machines are looked at where their lifecycles are.
    let path = match path.strip_prefix("/machines/") {
        Some(machine) => format!("/lifecycles/{machine}"),
        None => path.to_owned(),
    };
    let mut place = path.trim_end_matches('/');
    while let Some((above, _)) = place.rsplit_once('/') {
        place = above;
        if PAGES.iter().any(|page| fits(page, place)) {
            return place.to_owned();
        }
    }
    "/".to_owned()
}

fn fits(page: &str, place: &str) -> bool {
    let (mut expected, mut given) = (page.split('/'), place.split('/'));
    loop {
        match (expected.next(), given.next()) {
            (None, None) => return true,
            (Some(expected), Some(given)) if expected == given || expected.starts_with('{') => {}
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_part_of_the_nearest_page_above_it() {
        for (place, page) in [
            ("/sagas/7/cancel", "/sagas/7"),
            ("/sagas/7/steps/pay/resolve", "/sagas/7"),
            ("/sagas/7", "/sagas"),
            ("/sagas", "/"),
            ("/", "/"),
            ("/alerts/7/acknowledge", "/alerts"),
            ("/orders/services/apply", "/orders"),
            ("/webhooks/subscriptions/7", "/webhooks"),
            ("/webhooks/dead-letters/7/requeue", "/webhooks/dead-letters"),
            ("/machines/parcel/apply", "/lifecycles/parcel"),
            ("/lifecycles/parcel/p-1/start", "/lifecycles/parcel/p-1"),
            ("/nothing/of/this", "/"),
        ] {
            assert_eq!(back_from(place), page, "{place}");
        }
    }
}
