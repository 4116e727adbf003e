//! The schema of a `PostgreSQL` database that an engine lives in.

use std::fmt::{self, Display};
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Roles and channels are called after the schema, and names have at most 63 bytes.
const LONGEST: usize = 40;

/// The schema of a `PostgreSQL` database that an engine lives in: `backstitch` by default. Engines in different schemas share
/// a database without sharing anything else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SchemaName(Arc<str>);

/// Why a name cannot be the name of an engine's schema.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` cannot be a schema: use a lower-case letter and then up to 39 lower-case letters, digits and underscores, and neither \
     `public`, `information_schema` nor a name that begins with `pg_`"
)]
pub struct InvalidSchemaName(String);

impl SchemaName {
    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// A text of SQL that says `$schema` where it means this schema.
    #[must_use]
    pub fn qualify(&self, sql: &str) -> String {
        sql.replace("$schema", &self.0)
    }
}

impl Default for SchemaName {
    fn default() -> Self {
        Self("backstitch".into())
    }
}

impl Display for SchemaName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for SchemaName {
    type Err = InvalidSchemaName;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let is_word = name.starts_with(|first: char| first.is_ascii_lowercase())
            && name.chars().all(|it| it.is_ascii_lowercase() || it.is_ascii_digit() || it == '_');
        let is_taken = name.starts_with("pg_") || ["public", "information_schema"].contains(&name);
        if !is_word || is_taken || name.len() > LONGEST {
            return Err(InvalidSchemaName(name.to_owned()));
        }
        Ok(Self(name.into()))
    }
}

impl TryFrom<String> for SchemaName {
    type Error = InvalidSchemaName;

    fn try_from(name: String) -> Result<Self, Self::Error> {
        name.parse()
    }
}

impl From<SchemaName> for String {
    fn from(name: SchemaName) -> Self {
        name.0.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schema_name_is_a_word_that_needs_no_quotes() {
        for good in ["backstitch", "tenant_7", "a", &"a".repeat(LONGEST)] {
            assert_eq!(good.parse::<SchemaName>().unwrap().as_str(), good);
        }
        let long = "a".repeat(LONGEST + 1);
        for bad in
            ["", "7a", "A", "a-b", "a.b", "a\"; drop", "é", "pg_mine", "public", "information_schema", &long]
        {
            let refused = bad.parse::<SchemaName>().unwrap_err().to_string();
            assert!(refused.starts_with(&format!("`{bad}` cannot be a schema: use")), "{refused}");
        }
    }

    #[test]
    fn text_is_qualified_wherever_it_names_the_schema() {
        let schema: SchemaName = "tenant".parse().unwrap();
        assert_eq!(
            schema.qualify("from $schema.jobs where $1 = '$schema_x'"),
            "from tenant.jobs where $1 = 'tenant_x'"
        );
    }
}
