//! What is removed, in files of compressed JSON lines.
//!
//! Every batch is a gzip member of its own, on disk with everything before it once [`Files::keep`] returns. A file whose
//! process was killed may end in a piece of one; what that piece tells of was not removed and is in a later file again.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use backstitch::clock::Clock;
use backstitch::retention::{Archive, NotKept};
use backstitch::{Rfc3339, Timestamp};
use flate2::Compression;
use flate2::write::GzEncoder;

/// From this size on the next batch goes into a new file.
const LARGEST: u64 = 64 << 20;
/// Tries to find a name that nobody has.
const NAMES: u32 = 1000;

/// A folder of such files, for one process at a time.
pub struct Files {
    folder: PathBuf,
    node: String,
    clock: Arc<dyn Clock>,
    largest: u64,
    current: Arc<Mutex<Option<Current>>>,
}

/// The file that is written to.
struct Current {
    file: File,
    path: PathBuf,
    /// How far it holds whole batches.
    good: u64,
    day: String,
}

impl Files {
    /// A folder, which is made if it is not there, and tried: whoever may not write there hears of it now.
    ///
    /// # Errors
    /// When the folder cannot be made or written to.
    pub fn in_folder(folder: &Path, node: &str, clock: Arc<dyn Clock>) -> Result<Self, NotKept> {
        let failed = |why: io::Error| told(folder, &why);
        DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
        let probe = tempfile::Builder::new().prefix(".backstitch-").tempfile_in(folder).map_err(failed)?;
        probe.close().map_err(failed)?;
        Ok(Self {
            folder: folder.to_owned(),
            node: tidied(node),
            clock,
            largest: LARGEST,
            current: Arc::default(),
        })
    }

    /// Begins another file at this size already.
    #[must_use]
    pub fn of_at_most(mut self, bytes: u64) -> Self {
        self.largest = bytes;
        self
    }
}

#[async_trait]
impl Archive for Files {
    async fn keep(&self, lines: Vec<String>) -> Result<(), NotKept> {
        let (folder, node, largest) = (self.folder.clone(), self.node.clone(), self.largest);
        let (now, current) = (self.clock.now(), self.current.clone());
        let write = move || {
            let mut current = current.lock().unwrap_or_else(PoisonError::into_inner);
            let day = day(now);
            if current.as_ref().is_none_or(|file| file.good >= largest || file.day != day) {
                *current = Some(Current::begin(&folder, &node, now)?);
            }
            let Some(file) = current.as_mut() else { return Ok(()) };
            let kept = file.append(&lines);
            if kept.is_err() && !file.back_to_what_is_good() {
                // Nobody knows what it holds behind there: the next batch goes into another one.
                *current = None;
            }
            kept
        };
        let cut_short = |why| NotKept(format!("the export was cut short: {why}"));
        tokio::task::spawn_blocking(write).await.map_err(cut_short)?
    }
}

impl Current {
    /// A file of a name that nobody has. Names sort by time.
    fn begin(folder: &Path, node: &str, now: Timestamp) -> Result<Self, NotKept> {
        let stamp: String = Rfc3339(now).to_string().chars().filter(char::is_ascii_alphanumeric).collect();
        for nth in 0..NAMES {
            let path = folder.join(format!("removed-{stamp}-{node}-{nth:03}.jsonl.gz"));
            match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
                Ok(file) => {
                    // A file whose name is lost is lost itself.
                    let named = File::open(folder).and_then(|folder| folder.sync_all());
                    named.map_err(|why| told(folder, &why))?;
                    return Ok(Self { file, path, good: 0, day: day(now) });
                }
                Err(why) if why.kind() == io::ErrorKind::AlreadyExists => {}
                Err(why) => return Err(told(&path, &why)),
            }
        }
        Err(NotKept(format!("{} has no name left for `{node}`: move its files away", folder.display())))
    }

    fn append(&mut self, lines: &[String]) -> Result<(), NotKept> {
        let mut write = || -> io::Result<u64> {
            let mut member = GzEncoder::new(Vec::new(), Compression::default());
            for line in lines {
                member.write_all(line.as_bytes())?;
                member.write_all(b"\n")?;
            }
            let member = member.finish()?;
            self.file.write_all(&member)?;
            self.file.sync_data()?;
            Ok(member.len() as u64)
        };
        self.good += write().map_err(|why| told(&self.path, &why))?;
        Ok(())
    }

    /// Cuts off what was written of a batch that failed; whether that worked.
    fn back_to_what_is_good(&mut self) -> bool {
        let cut = self.file.set_len(self.good);
        cut.and_then(|()| self.file.seek(SeekFrom::Start(self.good))).is_ok()
    }
}

fn day(at: Timestamp) -> String {
    Rfc3339(at).to_string().chars().take_while(|letter| *letter != 'T').collect()
}

/// A node's name as part of a file's.
fn tidied(node: &str) -> String {
    node.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '_' }).collect()
}

fn told(path: &Path, why: &io::Error) -> NotKept {
    let do_what = match why.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "make room there",
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => "let this program write there",
        io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => "name a folder",
        _ => "see that the folder can be written to",
    };
    NotKept(format!("{}: {why}: {do_what}", path.display()))
}
