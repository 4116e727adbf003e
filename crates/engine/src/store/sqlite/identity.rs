//! Which file a path named when it was opened, and which files are held by an engine.

use std::collections::BTreeMap;
use std::fs::{self, File, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::store::Error;

/// Device and inode: the same for every path of a file, and different for a file that takes its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    #[cfg(unix)]
    fn of(metadata: &Metadata) -> Self {
        use std::os::unix::fs::MetadataExt as _;
        Self { device: metadata.dev(), inode: metadata.ino() }
    }

    /// Other systems refuse to delete or replace an open file, so the path is enough.
    #[cfg(not(unix))]
    fn of(_: &Metadata) -> Self {
        Self { device: 0, inode: 0 }
    }
}

/// A file that a connection has open, by the path that named it then.
#[derive(Clone, Debug)]
pub struct OpenedFile {
    path: PathBuf,
    id: FileId,
}

impl OpenedFile {
    /// The file that this path names now.
    ///
    /// # Errors
    /// When the path names none.
    pub fn at(path: &Path) -> io::Result<Self> {
        Ok(Self { path: path.to_owned(), id: FileId::of(&fs::metadata(path)?) })
    }

    /// Checks that the path still names this file. A connection would go on to write a file that has lost its name, and
    /// everything in it is lost when the process ends.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when the file was deleted, moved or replaced.
    pub fn check(&self) -> Result<(), Error> {
        let path = self.path.display();
        match fs::metadata(&self.path) {
            Ok(now) if FileId::of(&now) == self.id => Ok(()),
            Ok(_) => Err(Error::Unavailable(format!(
                "another file took the place of `{path}` while it was open: put the first one back, or stop the engine \
                 and start it on the file that is there"
            ))),
            Err(why) if why.kind() == io::ErrorKind::NotFound => Err(Error::Unavailable(format!(
                "`{path}` was deleted or moved while it was open: put it back, or stop the engine and restore a backup"
            ))),
            Err(why) => Err(Error::Unavailable(format!("`{path}`: {why}"))),
        }
    }
}

/// Refuses a file that has other names. `SQLite` names the write-ahead log after the path: opened by another name, the file
/// seems to lack everything in the log of the first one, and what is written then damages it.
///
/// # Errors
/// [`Error::Refused`] when the file has several hard links.
pub fn refuse_hard_links(path: &Path) -> Result<(), Error> {
    match fs::metadata(path) {
        Ok(found) if links(&found) > 1 => {
            let path = path.display();
            Err(Error::Refused(format!(
                "`{path}` has another name (a hard link), and opening a database by several names loses data: remove the \
                 other link, or copy the file with `VACUUM INTO`"
            )))
        }
        // A file that is not there yet has no other name.
        _ => Ok(()),
    }
}

#[cfg(unix)]
fn links(metadata: &Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::nlink(metadata)
}

#[cfg(not(unix))]
fn links(_: &Metadata) -> u64 {
    1
}

/// Files that this process has opened to hold them. A file that the program itself has open too stays open here after it is
/// released: closing any descriptor of a file drops the locks of `SQLite` on that file for the whole process, also those of the
/// program's own connections.
static HELD: Mutex<BTreeMap<FileId, Hold>> = Mutex::new(BTreeMap::new());

struct Hold {
    file: File,
    is_held: bool,
}

/// Keeps every other engine away from a file, whatever path it uses.
pub(super) struct FileLock {
    id: FileId,
}

/// Why a file cannot be held.
pub(super) enum NotHeld {
    /// Another engine holds it.
    InUse,
    /// It cannot be opened or locked.
    Unusable(io::Error),
}

impl From<io::Error> for NotHeld {
    fn from(why: io::Error) -> Self {
        Self::Unusable(why)
    }
}

impl FileLock {
    /// Holds the file, which exists, until this value is dropped.
    pub(super) fn take(path: &Path) -> Result<Self, NotHeld> {
        let id = FileId::of(&fs::metadata(path)?);
        if cfg!(not(unix)) {
            return Ok(Self { id });
        }
        let mut files = held();
        files.retain(|id, hold| hold.is_held || is_open_elsewhere(*id));
        let id = if files.contains_key(&id) { id } else { open(path, &mut files)? };
        let hold = files.get_mut(&id).filter(|hold| !hold.is_held).ok_or(NotHeld::InUse)?;
        lock(&hold.file)?;
        hold.is_held = true;
        Ok(Self { id })
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        let mut files = held();
        if let Some(hold) = files.get_mut(&self.id) {
            // What cannot be unlocked is unlocked when it is closed.
            let _ = hold.file.unlock();
            hold.is_held = false;
        }
        if !is_open_elsewhere(self.id) {
            files.remove(&self.id);
        }
    }
}

/// Opens a file to hold it. For writing: an overlay file system gives the file another inode when it is first written.
fn open(path: &Path, files: &mut BTreeMap<FileId, Hold>) -> io::Result<FileId> {
    let file = File::options().read(true).write(true).open(path)?;
    let id = FileId::of(&file.metadata()?);
    files.entry(id).or_insert(Hold { file, is_held: false });
    Ok(id)
}

fn held() -> MutexGuard<'static, BTreeMap<FileId, Hold>> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether this process has the file open besides the descriptor that holds the lock; true where this is unknown.
fn is_open_elsewhere(id: FileId) -> bool {
    let Ok(descriptors) = fs::read_dir("/proc/self/fd") else { return true };
    let leads_there = |descriptor: &io::Result<fs::DirEntry>| {
        let target = descriptor.as_ref().ok().and_then(|descriptor| fs::metadata(descriptor.path()).ok());
        target.is_some_and(|target| FileId::of(&target) == id)
    };
    descriptors.filter(leads_there).count() > 1
}

/// Only Linux keeps this lock apart from those that `SQLite` takes on the same file. Elsewhere the lock file keeps others away.
#[cfg(target_os = "linux")]
fn lock(file: &File) -> Result<(), NotHeld> {
    use std::fs::TryLockError;
    file.try_lock().map_err(|why| match why {
        TryLockError::WouldBlock => NotHeld::InUse,
        TryLockError::Error(why) => NotHeld::Unusable(why),
    })
}

#[cfg(not(target_os = "linux"))]
fn lock(_: &File) -> Result<(), NotHeld> {
    Ok(())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn released_file_stays_open_while_the_program_has_it_open() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sagas.db");
        let programs_own = File::create(&path).unwrap();
        let id = FileId::of(&programs_own.metadata().unwrap());
        let take = || FileLock::take(&path).unwrap_or_else(|_| panic!("another engine has the file"));
        drop(take());
        assert!(held().contains_key(&id), "closing it would drop the program's locks");
        let again = take();
        assert!(matches!(FileLock::take(&path), Err(NotHeld::InUse)));
        drop(programs_own);
        drop(again);
        assert!(!held().contains_key(&id));
    }
}
