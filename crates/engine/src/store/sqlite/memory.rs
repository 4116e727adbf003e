//! A database in memory, which is gone with its connection.

use std::sync::{Mutex, PoisonError};

use backstitch_kernel::Timestamp;
use rusqlite::Connection;
use rusqlite::backup::Backup;

use super::fault::Fault;
use super::file::ready;
use super::schema;
use super::write_guard::allow_guarded_writes;

/// Nothing is written to a disk, so only the rules of the connection remain of [`super::WRITER_SETTINGS`].
const SETTINGS: &str = "
    pragma temp_store = memory;
    pragma trusted_schema = off;
    pragma recursive_triggers = on;
";

/// An empty database with the newest schema. Copying it takes a small part of the time that the migrations take.
static TEMPLATE: Mutex<Option<Connection>> = Mutex::new(None);

/// A new database with the newest schema.
pub(super) fn open() -> Result<Connection, Fault> {
    let mut connection = Connection::open_in_memory()?;
    copy_template(&mut connection)?;
    ready(&connection)?;
    connection.execute_batch(SETTINGS)?;
    allow_guarded_writes(&connection)?;
    Ok(connection)
}

fn copy_template(connection: &mut Connection) -> Result<(), Fault> {
    let mut template = TEMPLATE.lock().unwrap_or_else(PoisonError::into_inner);
    if template.is_none() {
        let fresh = Connection::open_in_memory()?;
        allow_guarded_writes(&fresh)?;
        schema::migrate_engine(&fresh, Timestamp::default())?;
        *template = Some(fresh);
    }
    if let Some(template) = template.as_ref() {
        Backup::new(template, connection)?.step(-1)?;
    }
    Ok(())
}
