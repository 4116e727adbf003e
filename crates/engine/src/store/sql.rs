//! Named SQL statements, assembled at compile time.
//!
//! A crate keeps its SQL in `sql/sqlite/TOPIC.sql` and `sql/postgres/TOPIC.sql`, one file a table or topic, with the
//! same names in both:
//!
//! ```sql
//! -- part: columns
//! id, status, owner
//!
//! -- name: load
//! -- Why the statement is as it is.
//! select {columns}, inbox_seq
//! from sagas
//! where id = $1
//! ```
//!
//! A statement goes on until the next one. Comments right below its name are left out. `{columns}` is replaced by the part
//! of this name, `{s.columns}` by a list of columns that belong to the table `s`. A statement of one dialect only says so:
//! `-- name: commit, postgres only`. An unknown name is a compile error, and at run time a statement is a constant.

/// The text of a statement in one dialect: `sql!(sqlite / sagas::load)`.
#[macro_export]
macro_rules! sql {
    ($dialect:ident / $file:ident :: $name:ident) => {
        const {
            const FILE: &str = ::core::include_str!(::core::concat!(
                ::core::env!("CARGO_MANIFEST_DIR"),
                "/sql/",
                ::core::stringify!($dialect),
                "/",
                ::core::stringify!($file),
                ".sql"
            ));
            const NAME: &str = ::core::stringify!($name);
            const TEXT: [u8; $crate::store::sql::length(FILE, NAME)] =
                $crate::store::sql::assemble(FILE, NAME);
            $crate::store::sql::text(&TEXT)
        }
    };
}

/// A statement in both dialects.
#[derive(Clone, Copy, Debug)]
pub struct Statement {
    /// For `SQLite`.
    pub sqlite: &'static str,
    /// For `PostgreSQL`.
    pub postgres: &'static str,
}

/// The text of a statement in both dialects: `statement!(sagas::load)`.
#[macro_export]
macro_rules! statement {
    ($file:ident :: $name:ident) => {
        $crate::store::sql::Statement {
            sqlite: $crate::sql!(sqlite / $file::$name),
            postgres: $crate::sql!(postgres / $file::$name),
        }
    };
}

const STATEMENT: &[u8] = b"-- name: ";
const PART: &[u8] = b"-- part: ";

/// How long the statement or part of this name is.
///
/// # Panics
/// When the file has none.
#[must_use]
pub const fn length(file: &str, name: &str) -> usize {
    write(file, name, &mut [])
}

/// The statement or part of this name, as bytes.
///
/// # Panics
/// When the file has none.
#[must_use]
pub const fn assemble<const LENGTH: usize>(file: &str, name: &str) -> [u8; LENGTH] {
    let mut text = [0; LENGTH];
    write(file, name, &mut text);
    text
}

/// Bytes of a file that is text.
///
/// # Panics
/// When they are not.
#[must_use]
pub const fn text(bytes: &[u8]) -> &str {
    match str::from_utf8(bytes) {
        Ok(text) => text,
        Err(_) => panic!("a statement is cut within a character"),
    }
}

/// Writes the statement or part of this name, as far as there is room, and says how long it is.
///
/// # Panics
/// When the file has none.
pub const fn write(file: &str, name: &str, text: &mut [u8]) -> usize {
    let (file, name) = (file.as_bytes(), name.as_bytes());
    let body = match find(file, STATEMENT, name) {
        Some(body) => body,
        None => part(file, name),
    };
    copy(file, body, text, 0)
}

/// Copies a range with its parts in place, and says where the text ends then.
const fn copy(file: &[u8], body: (usize, usize), text: &mut [u8], begin: usize) -> usize {
    let ((mut from, end), mut to) = (body, begin);
    while from < end {
        if file[from] != b'{' || !file[from + 1].is_ascii_lowercase() {
            to = put(text, to, file[from]);
            from += 1;
            continue;
        }
        let close = position(file, b'}', from, end);
        let dot = position(file, b'.', from, close);
        if dot == close {
            to = copy(file, part(file, slice(file, from + 1, close)), text, to);
        } else {
            let columns = part(file, slice(file, dot + 1, close));
            to = qualify(file, columns, slice(file, from + 1, dot), text, to);
        }
        from = close + 1;
    }
    to
}

/// Copies a list of columns, each with its table.
const fn qualify(file: &[u8], columns: (usize, usize), table: &[u8], text: &mut [u8], begin: usize) -> usize {
    let ((mut from, end), mut to) = (columns, begin);
    let mut is_within = false;
    while from < end {
        let is_name = file[from].is_ascii_alphanumeric() || file[from] == b'_';
        if is_name && !is_within {
            let mut at = 0;
            while at < table.len() {
                to = put(text, to, table[at]);
                at += 1;
            }
            to = put(text, to, b'.');
        }
        is_within = is_name;
        to = put(text, to, file[from]);
        from += 1;
    }
    to
}

const fn put(text: &mut [u8], at: usize, byte: u8) -> usize {
    if at < text.len() {
        text[at] = byte;
    }
    at + 1
}

const fn part(file: &[u8], name: &[u8]) -> (usize, usize) {
    match find(file, PART, name) {
        Some(body) => body,
        None => panic!("the SQL file has no statement or part of this name"),
    }
}

/// Where the statement or part of this name is.
const fn find(file: &[u8], kind: &[u8], name: &[u8]) -> Option<(usize, usize)> {
    let mut line = 0;
    while line < file.len() {
        if begins(file, line, kind) && begins(file, line + kind.len(), name) {
            let after = line + kind.len() + name.len();
            if after < file.len() && (file[after] == b'\n' || file[after] == b',') {
                return Some(body(file, next_line(file, line)));
            }
        }
        line = next_line(file, line);
    }
    None
}

/// What follows a name, without the comments right below it and the empty lines at its end.
const fn body(file: &[u8], below: usize) -> (usize, usize) {
    let mut begin = below;
    while begins(file, begin, b"--") && !begins(file, begin, STATEMENT) && !begins(file, begin, PART) {
        begin = next_line(file, begin);
    }
    let mut end = begin;
    while end < file.len() && !begins(file, end, STATEMENT) && !begins(file, end, PART) {
        end = next_line(file, end);
    }
    while end > begin && file[end - 1].is_ascii_whitespace() {
        end -= 1;
    }
    (begin, end)
}

const fn begins(file: &[u8], at: usize, with: &[u8]) -> bool {
    if file.len() < at + with.len() {
        return false;
    }
    let mut index = 0;
    while index < with.len() {
        if file[at + index] != with[index] {
            return false;
        }
        index += 1;
    }
    true
}

const fn next_line(file: &[u8], line: usize) -> usize {
    let end = position(file, b'\n', line, file.len());
    if end < file.len() { end + 1 } else { end }
}

/// Where the byte is, or else the end.
const fn position(file: &[u8], byte: u8, from: usize, end: usize) -> usize {
    let mut at = from;
    while at < end && file[at] != byte {
        at += 1;
    }
    at
}

const fn slice(file: &[u8], from: usize, to: usize) -> &[u8] {
    file.split_at(from).1.split_at(to - from).0
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "-- Sagas.\n\n-- part: columns\nid,\n    saga_id\n\n-- name: load\n-- Why.\n-- More.\n\
                        select {columns}\nfrom sagas -- inner\nwhere a = '{}'\n\n-- name: load_all, postgres only\n\
                        select {s.columns} from {columns}";

    fn statement(name: &str) -> String {
        let mut text = vec![0; length(FILE, name)];
        write(FILE, name, &mut text);
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn statement_is_found_by_its_whole_name() {
        assert_eq!(statement("load"), "select id,\n    saga_id\nfrom sagas -- inner\nwhere a = '{}'");
    }

    #[test]
    fn columns_are_qualified_one_by_one() {
        assert_eq!(statement("load_all"), "select s.id,\n    s.saga_id from id,\n    saga_id");
    }

    #[test]
    fn part_is_read_by_its_name() {
        assert_eq!(statement("columns"), "id,\n    saga_id");
    }

    #[test]
    #[should_panic(expected = "no statement or part of this name")]
    fn unknown_name_is_refused() {
        let _ = length(FILE, "loa");
    }
}
