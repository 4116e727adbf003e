//! What each route asks of whoever calls it.

use std::collections::HashMap;

use axum::http::Method;

use super::role::Role;

/// What a route asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Nothing.
    Public,
    /// A key of this role.
    Needs(Role),
    /// A key of this role, or the stream token of the saga in the path.
    NeedsOrToken(Role),
    /// A page of the console, for whoever has signed in with a key of this role; `None`: for anybody.
    Page(Option<Role>),
}

impl Access {
    /// Its name in the API description.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Public | Self::Page(None) => "public",
            Self::Needs(role) | Self::NeedsOrToken(role) | Self::Page(Some(role)) => role.as_str(),
        }
    }
}

/// What holds for a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    pub(crate) access: Access,
    /// Whether it is recorded who used it.
    pub(crate) audited: bool,
}

/// What every route asks for. A route that is not in here is closed to everybody.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table(HashMap<String, Vec<(Method, Rule)>>);

impl Table {
    pub(crate) fn insert(&mut self, path: &str, method: Method, rule: Rule) {
        self.0.entry(path.to_owned()).or_default().push((method, rule));
    }

    pub(crate) fn get(&self, path: &str, method: &Method) -> Option<Rule> {
        // What answers GET answers HEAD.
        let method = if method == Method::HEAD { &Method::GET } else { method };
        let methods = self.0.get(path)?;
        methods.iter().find(|(known, _)| known == method).map(|(_, rule)| *rule)
    }

    /// The methods that this path answers, as in an `Allow` header.
    pub(crate) fn methods(&self, path: &str) -> String {
        let methods = self.0.get(path).map(Vec::as_slice).unwrap_or_default();
        methods.iter().map(|(method, _)| method.as_str()).collect::<Vec<_>>().join(", ")
    }

    /// Every route there is.
    #[cfg(test)]
    pub(crate) fn all(&self) -> impl Iterator<Item = (&str, &Method, Rule)> {
        self.0.iter().flat_map(|(path, methods)| {
            methods.iter().map(move |(method, rule)| (path.as_str(), method, *rule))
        })
    }
}
