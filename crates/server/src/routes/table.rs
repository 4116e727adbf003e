//! Routes together with who may use them.

use axum::Router;
use axum::http::Method;
use axum::routing::MethodRouter;
use utoipa::openapi::extensions::Extensions;
use utoipa::openapi::path::{Operation, PathItem};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{Components, OpenApi};
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouter};

use super::common;
use crate::app::App;
use crate::auth::{Access, Role, Rule, Table, is_limited};

/// The member of the description that names the role a route needs.
const ROLE: &str = "x-role";
/// The member that says whether it is recorded who used it.
const AUDITED: &str = "x-audited";
/// The name of the security scheme.
const KEY: &str = "api_key";

/// Routes that each state who may use them.
pub(crate) struct Routes {
    router: OpenApiRouter<App>,
    access: Table,
}

impl Routes {
    pub(super) fn new(description: OpenApi) -> Self {
        Self { router: OpenApiRouter::with_openapi(description), access: Table::default() }
    }

    /// Routes that anybody may use.
    pub(super) fn open(self, routes: UtoipaMethodRouter<App>) -> Self {
        self.with(Rule { access: Access::Public, audited: false }, routes)
    }

    /// Routes for keys of this role.
    pub(super) fn needs(self, role: Role, routes: UtoipaMethodRouter<App>) -> Self {
        self.with(Rule { access: Access::Needs(role), audited: false }, routes)
    }

    /// The same for changes that somebody may have to account for: who asked for them is recorded.
    pub(super) fn audited(self, role: Role, routes: UtoipaMethodRouter<App>) -> Self {
        self.with(Rule { access: Access::Needs(role), audited: true }, routes)
    }

    /// Routes for keys of this role, and for whoever has the stream token of the saga in the path.
    pub(super) fn needs_or_token(self, role: Role, routes: UtoipaMethodRouter<App>) -> Self {
        self.with(Rule { access: Access::NeedsOrToken(role), audited: false }, routes)
    }

    /// A page of the console, for whoever has signed in with a key of this role; `None`: for anybody.
    pub(crate) fn page(self, role: Option<Role>, path: &str, page: MethodRouter<App>) -> Self {
        self.of_console(Method::GET, Rule { access: Access::Page(role), audited: false }, path, page)
    }

    /// A form of the console. Who sent it is recorded.
    pub(crate) fn form(self, role: Role, path: &str, taken: MethodRouter<App>) -> Self {
        self.of_console(Method::POST, Rule { access: Access::Page(Some(role)), audited: true }, path, taken)
    }

    /// A form that changes nothing but who is signed in.
    pub(crate) fn unrecorded_form(self, role: Option<Role>, path: &str, taken: MethodRouter<App>) -> Self {
        self.of_console(Method::POST, Rule { access: Access::Page(role), audited: false }, path, taken)
    }

    /// What people look at is no part of the API's description.
    fn of_console(mut self, method: Method, rule: Rule, path: &str, routed: MethodRouter<App>) -> Self {
        self.access.insert(path, method, rule);
        self.router = self.router.route(path, routed);
        self
    }

    fn with(mut self, rule: Rule, (schemas, mut paths, router): UtoipaMethodRouter<App>) -> Self {
        for (path, item) in &mut paths.paths {
            for (method, operation) in operations(item) {
                operation.operation_id = Some(name(&method, path));
                self.access.insert(path, method, rule);
                describe(operation, rule, is_limited(path));
            }
        }
        self.router = self.router.routes((schemas, paths, router));
        self
    }

    pub(super) fn into_parts(self) -> (Router<App>, Table, String) {
        let (router, mut description) = self.router.split_for_parts();
        let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).bearer_format("bsk_…").build();
        let components = description.components.get_or_insert_with(Components::new);
        components.add_security_scheme(KEY, SecurityScheme::Http(bearer));
        common::describe(components);
        // Cannot fail: everything in it is text.
        (router, self.access, description.to_json().unwrap_or_default())
    }
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = (Method, &mut Operation)> {
    [
        (Method::GET, &mut item.get),
        (Method::PUT, &mut item.put),
        (Method::POST, &mut item.post),
        (Method::DELETE, &mut item.delete),
        (Method::PATCH, &mut item.patch),
    ]
    .into_iter()
    .filter_map(|(method, operation)| Some((method, operation.as_mut()?)))
}

/// Handlers of different routes share names, and clients that are made from the description need one for each.
fn name(method: &Method, path: &str) -> String {
    let words = path.split(|char: char| !char.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.fold(method.as_str().to_ascii_lowercase(), |name, word| name + "_" + word)
}

fn describe(operation: &mut Operation, rule: Rule, limited: bool) {
    let access = rule.access;
    let extensions = operation.extensions.get_or_insert_with(Extensions::default);
    extensions.insert(ROLE.to_owned(), access.as_str().into());
    if rule.audited {
        extensions.insert(AUDITED.to_owned(), true.into());
    }
    if access != Access::Public {
        let none: [&str; 0] = [];
        operation.security = Some(vec![SecurityRequirement::new(KEY, none)]);
    }
    common::complete(operation, access, limited);
}
