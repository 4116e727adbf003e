//! A key in a file beside the database, made when it is first needed.

use std::fs::{File, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use crate::randomness::{NoRandomness, Randomness};

/// Bytes of a key.
pub const LENGTH: usize = 32;

/// A key, gone from memory once it is dropped.
pub type Key = Zeroizing<[u8; LENGTH]>;

/// The key in a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read or made.
    #[error("{path}: {why}")]
    Unusable {
        /// The file.
        path: PathBuf,
        /// Why not.
        why: io::Error,
    },
    /// Somebody besides its owner may read the file.
    #[error("{0}: others may read it: chmod 600 it")]
    TooOpen(PathBuf),
    /// The file holds something else.
    #[error("{path}: it has been changed: it holds {found} bytes, and a key is {LENGTH}")]
    WrongLength {
        /// The file.
        path: PathBuf,
        /// How many bytes it holds; beyond twice a key's length they are not counted.
        found: usize,
    },
    /// No key can be made.
    #[error(transparent)]
    NoRandomness(#[from] NoRandomness),
}

/// The file beside this database: its name, and this ending.
#[must_use]
pub fn beside(database: &Path, ending: &str) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

/// The key in this file, which is made if it is not there. A file that is there is never written to.
///
/// # Errors
/// When the file is not a key that its owner alone can read.
pub fn read_or_make(path: &Path, randomness: &dyn Randomness) -> Result<Key, Error> {
    match read(path) {
        Err(Error::Unusable { why, .. }) if why.kind() == io::ErrorKind::NotFound => {
            let mut key = Key::default();
            randomness.fill(&mut *key)?;
            make(path, &key).map_err(|why| Error::Unusable { path: path.to_owned(), why })?;
            // Another process may have come first, and its key is the one that counts.
            read(path)
        }
        read => read,
    }
}

fn read(path: &Path) -> Result<Key, Error> {
    let unusable = |why| Error::Unusable { path: path.to_owned(), why };
    let file = File::open(path).map_err(unusable)?;
    if file.metadata().map_err(unusable)?.permissions().mode() & 0o077 != 0 {
        return Err(Error::TooOpen(path.to_owned()));
    }
    let mut kept = Zeroizing::new(Vec::with_capacity(2 * LENGTH));
    file.take(2 * LENGTH as u64).read_to_end(&mut kept).map_err(unusable)?;
    let key = <[u8; LENGTH]>::try_from(kept.as_slice());
    key.map(Zeroizing::new).map_err(|_| Error::WrongLength { path: path.to_owned(), found: kept.len() })
}

/// Writes the file whole or not at all; whoever comes second keeps what the first one wrote.
fn make(path: &Path, key: &Key) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let mut draft = tempfile::Builder::new()
        .prefix(".backstitch-key-")
        .permissions(Permissions::from_mode(0o600))
        .tempfile_in(folder.unwrap_or(Path::new(".")))?;
    draft.write_all(&**key)?;
    draft.as_file().sync_all()?;
    match draft.persist_noclobber(path) {
        Ok(_) => Ok(()),
        Err(why) if why.error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(why) => Err(why.error),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::randomness::SystemRandomness;

    struct None;

    impl Randomness for None {
        fn fill(&self, _: &mut [u8]) -> Result<(), NoRandomness> {
            Err(NoRandomness("it is dry".to_owned()))
        }
    }

    fn read_or_make(path: &Path) -> Result<Key, Error> {
        super::read_or_make(path, &SystemRandomness)
    }

    fn kept(bytes: usize, mode: u32) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = beside(&folder.path().join("sagas.db"), ".key");
        fs::write(&path, vec![7; bytes]).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        (folder, path)
    }

    #[test]
    fn a_key_is_made_once_and_only_its_owner_may_read_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = beside(&folder.path().join("sagas.db"), ".key");
        let first = read_or_make(&path).unwrap();
        assert_eq!(super::read_or_make(&path, &None).unwrap(), first, "nothing is made a second time");
        assert_eq!(
            fs::metadata(folder.path().join("sagas.db.key")).unwrap().permissions().mode() & 0o777,
            0o600
        );
        let other = read_or_make(&beside(&folder.path().join("other.db"), ".key")).unwrap();
        assert_ne!(other, first);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "no draft is left behind");
    }

    #[test]
    fn a_key_that_others_may_read_is_refused() {
        for mode in [0o644, 0o640, 0o604, 0o620] {
            let (_folder, path) = kept(LENGTH, mode);
            let why = read_or_make(&path).unwrap_err().to_string();
            assert!(why.contains("chmod 600") && why.contains("sagas.db.key"), "{why}");
        }
    }

    #[test]
    fn a_file_that_holds_no_key_is_refused_and_left_as_it_is() {
        for bytes in [0, 1, LENGTH - 1, LENGTH + 1, 10_000] {
            let (_folder, path) = kept(bytes, 0o600);
            let why = read_or_make(&path).unwrap_err().to_string();
            assert!(why.contains("a key is 32"), "{why}");
            assert_eq!(fs::read(&path).unwrap(), vec![7; bytes]);
        }
    }

    #[test]
    fn a_key_that_cannot_be_made_is_told_with_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let nowhere = folder.path().join("nowhere/sagas.db.key");
        assert!(read_or_make(&nowhere).unwrap_err().to_string().contains("nowhere/sagas.db.key"));
        let directory = folder.path().join("sagas.db.key");
        fs::create_dir(&directory).unwrap();
        fs::set_permissions(&directory, Permissions::from_mode(0o700)).unwrap();
        assert!(matches!(read_or_make(&directory), Err(Error::Unusable { .. })));
        assert!(matches!(
            super::read_or_make(&folder.path().join("dry"), &None),
            Err(Error::NoRandomness(_))
        ));
        assert!(!folder.path().join("dry").exists());
    }
}
