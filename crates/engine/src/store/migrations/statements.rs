//! The statements of an SQL text. Each is sent by itself: distributed `PostgreSQL` refuses several in one string.

/// The statements of a text in `PostgreSQL`'s dialect, without the semicolons between them. A semicolon counts outside of
/// strings, quoted names, dollar quotes and comments. Bodies in `begin atomic` are not known: write them in dollar quotes.
pub(in crate::store) fn statements(sql: &str) -> impl Iterator<Item = &str> {
    let mut rest = sql;
    std::iter::from_fn(move || {
        loop {
            if rest.is_empty() {
                return None;
            }
            let (statement, behind) = rest.split_at(end_of_first(rest));
            rest = behind.strip_prefix(';').unwrap_or(behind);
            if !is_blank(statement) {
                return Some(statement.trim());
            }
        }
    })
}

/// Where the first statement ends: at its semicolon, or at the end of the text.
fn end_of_first(sql: &str) -> usize {
    let mut at = 0;
    while let Some(next) = sql[at..].chars().next() {
        if next == ';' {
            return at;
        }
        at += token(&sql[..at], &sql[at..]);
    }
    sql.len()
}

/// Whether there is nothing but space and comments.
fn is_blank(sql: &str) -> bool {
    let mut at = 0;
    while let Some(next) = sql[at..].chars().next() {
        let length = token(&sql[..at], &sql[at..]);
        if !next.is_whitespace() && !is_comment(&sql[at..]) {
            return false;
        }
        at += length;
    }
    true
}

fn is_comment(sql: &str) -> bool {
    sql.starts_with("--") || sql.starts_with("/*")
}

/// The length of what a text begins with: a string, a quoted name, a dollar quote or a comment as a whole, or one character.
fn token(before: &str, sql: &str) -> usize {
    let first = sql.chars().next().map_or(0, char::len_utf8);
    match sql.as_bytes() {
        [b'\'', ..] => quoted(sql, '\'', is_escape_string(before)),
        [b'"', ..] => quoted(sql, '"', false),
        [b'-', b'-', ..] => sql.find('\n').unwrap_or(sql.len()),
        [b'/', b'*', ..] => block_comment(sql),
        [b'$', ..] if !before.ends_with(is_in_name) => dollar_quoted(sql).unwrap_or(first),
        _ => first,
    }
}

/// Whether a string that begins here has backslash escapes: `E'…'`.
fn is_escape_string(before: &str) -> bool {
    let before = before.strip_suffix(['e', 'E']);
    before.is_some_and(|before| !before.ends_with(is_in_name))
}

fn is_in_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '$'
}

/// The length of a string or a quoted name. A doubled quote is two of them in a row, which comes to the same.
fn quoted(sql: &str, quote: char, has_escapes: bool) -> usize {
    let mut is_escaped = false;
    for (at, c) in sql.char_indices().skip(1) {
        if is_escaped {
            is_escaped = false;
        } else if has_escapes && c == '\\' {
            is_escaped = true;
        } else if c == quote {
            return at + c.len_utf8();
        }
    }
    sql.len()
}

/// The length of `$tag$…$tag$`, if it is one: `$1` is not.
fn dollar_quoted(sql: &str) -> Option<usize> {
    let tag = &sql[..sql[1..].find('$')? + 2];
    let name = &tag[1..tag.len() - 1];
    let is_tag = !name.starts_with(|c: char| c.is_ascii_digit()) && name.chars().all(is_in_name);
    let end = |body: &str| body.find(tag).map_or(sql.len(), |at| at + 2 * tag.len());
    is_tag.then(|| end(&sql[tag.len()..]))
}

/// The length of a comment, which may have comments within it.
fn block_comment(sql: &str) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while at < sql.len() {
        let rest = &sql[at..];
        if rest.starts_with("/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if rest.starts_with("*/") {
            (depth, at) = (depth - 1, at + 2);
            if depth == 0 {
                return at;
            }
        } else {
            at += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
    sql.len()
}

#[cfg(test)]
mod tests {
    use super::super::ENGINE;
    use super::*;

    fn split(sql: &str) -> Vec<&str> {
        statements(sql).collect()
    }

    #[test]
    fn statements_end_at_semicolons_and_at_the_end() {
        assert_eq!(split("select 1; select 2 ;\n\nselect 3"), ["select 1", "select 2", "select 3"]);
        assert_eq!(split(""), [""; 0]);
        assert_eq!(split(" ; -- nothing\n;/* nor; here */"), [""; 0]);
    }

    #[test]
    fn semicolons_in_strings_and_names_are_part_of_them() {
        for statement in [
            "select 'a;b', 'it''s; so'",
            r"select E'a\';b', e'\\'",
            r#"select 1 as "a;""b""#,
            r"select 'a\'",
            "select 'größer; ü'",
            "select * from the'a;'",
        ] {
            assert_eq!(split(&format!("{statement};select 2")), [statement, "select 2"]);
        }
    }

    #[test]
    fn semicolons_in_dollar_quotes_are_part_of_them() {
        for statement in [
            "do $$ begin perform 1; end; $$",
            "do $body$ select '$$;'; $body$",
            "do $ü$ ; $other$ ; $ü$",
            "select a$b, c$ from t",
        ] {
            assert_eq!(split(&format!("{statement};select 2")), [statement, "select 2"]);
        }
        assert_eq!(split("select $1; select $2"), ["select $1", "select $2"]);
    }

    #[test]
    fn semicolons_in_comments_are_part_of_them() {
        for statement in ["-- a; b\nselect 1", "select /* a; /* b; */ c; */ 1", "select 1 - -1, 4 / 2"] {
            assert_eq!(split(&format!("{statement};select 2")), [statement, "select 2"]);
        }
    }

    #[test]
    fn text_that_ends_within_something_is_one_statement() {
        for statement in ["select 'a;", "do $$ ;", "select 1 /* ;", "select \"a;", "-- a;\nselect E'\\"] {
            assert_eq!(split(statement), [statement]);
        }
    }

    #[test]
    fn no_statement_of_the_engine_is_cut() {
        for migration in ENGINE.migrations {
            for statement in statements(migration.postgres) {
                assert_eq!(statement.matches("$$").count() % 2, 0, "{}: {statement}", migration.name);
                let begins = [
                    "create", "alter", "drop", "insert", "update", "delete", "do", "--", "comment", "grant",
                    "revoke",
                ];
                let lower = statement.to_lowercase();
                assert!(begins.iter().any(|it| lower.starts_with(it)), "{}: {statement}", migration.name);
            }
        }
    }
}
