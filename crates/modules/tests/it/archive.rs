//! Files of what is removed: whole, in order, never overwritten, and never half believed.

use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use backstitch::Timestamp;
use backstitch::clock::ManualClock;
use backstitch::retention::Archive as _;
use backstitch_modules::archive::Files;
use flate2::read::MultiGzDecoder;

/// A day in 2026, at noon.
fn noon() -> Arc<ManualClock> {
    Arc::new(ManualClock::at(Timestamp::from_micros(1_794_916_800_000_000)))
}

fn lines(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

/// All files of a folder, in the order of their names.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn text(file: &Path) -> String {
    let mut text = String::new();
    MultiGzDecoder::new(std::fs::File::open(file).unwrap()).read_to_string(&mut text).unwrap();
    text
}

#[tokio::test]
async fn batches_are_read_back_line_by_line_in_the_order_they_came() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("deep/er");
    let archive = Files::in_folder(&target, "node/1", noon()).unwrap();
    assert_eq!(files(&target), [] as [PathBuf; 0], "nothing is made before there is something");
    archive.keep(lines(&[r#"{"a":1}"#, r#"{"b":"ü"}"#])).await.unwrap();
    let file = files(&target).remove(0);
    assert_eq!(text(&file), "{\"a\":1}\n{\"b\":\"ü\"}\n", "it is there as soon as it is said to be");
    archive.keep(lines(&[r#"{"c":3}"#])).await.unwrap();
    assert_eq!(files(&target), std::slice::from_ref(&file));
    assert_eq!(text(&file), "{\"a\":1}\n{\"b\":\"ü\"}\n{\"c\":3}\n");
    assert!(
        file.to_string_lossy().ends_with("removed-20261117T120000000000Z-node_1-000.jsonl.gz"),
        "{file:?}"
    );
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(std::fs::metadata(&target).unwrap().permissions().mode() & 0o777, 0o700);
}

#[tokio::test]
async fn a_new_day_a_full_file_and_another_process_begin_files_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let clock = noon();
    let archive = Files::in_folder(folder.path(), "a", clock.clone()).unwrap().of_at_most(60);
    let full = format!("{:?}", (0..200).collect::<Vec<_>>());
    archive.keep(vec![full]).await.unwrap();
    archive.keep(lines(&["2"])).await.unwrap();
    assert_eq!(files(folder.path()).len(), 2, "the first one is full");
    clock.advance(Duration::from_secs(24 * 3600));
    archive.keep(lines(&["3"])).await.unwrap();
    let other = Files::in_folder(folder.path(), "a", clock.clone()).unwrap();
    other.keep(lines(&["4"])).await.unwrap();
    let all = files(folder.path());
    let texts: Vec<String> = all.iter().map(|file| text(file)).collect();
    assert_eq!(texts.len(), 4, "nobody writes into another one's: {all:?}");
    assert_eq!(texts[1..], ["2\n", "3\n", "4\n"], "names sort by time");
}

#[tokio::test]
async fn a_folder_that_cannot_be_written_to_is_refused_at_once_and_later_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let refused = Files::in_folder(&file.join("below"), "a", noon()).err().unwrap().to_string();
    assert!(refused.contains("file") && refused.contains("name a folder"), "{refused}");

    let target = folder.path().join("gone");
    let archive = Files::in_folder(&target, "a", noon()).unwrap();
    std::fs::remove_dir(&target).unwrap();
    let refused = archive.keep(lines(&["1"])).await.unwrap_err().to_string();
    assert!(refused.contains("gone") && refused.contains("see that the folder"), "{refused}");
    std::fs::create_dir(&target).unwrap();
    archive.keep(lines(&["1"])).await.unwrap();
    assert_eq!(text(&files(&target)[0]), "1\n");
}

/// A process that is killed while it writes leaves a piece of a batch: what is before it can be read.
#[tokio::test]
async fn what_stands_before_a_torn_end_can_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let archive = Files::in_folder(folder.path(), "a", noon()).unwrap();
    archive.keep(lines(&["1", "2"])).await.unwrap();
    let file = files(folder.path()).remove(0);
    let whole = std::fs::read(&file).unwrap();
    let mut torn = std::fs::OpenOptions::new().append(true).open(&file).unwrap();
    torn.write_all(&whole[..whole.len() / 2]).unwrap();
    let mut text = Vec::new();
    MultiGzDecoder::new(std::fs::File::open(&file).unwrap()).read_to_end(&mut text).unwrap_err();
    assert!(text.starts_with(b"1\n2\n"));
    let next = Files::in_folder(folder.path(), "a", noon()).unwrap();
    next.keep(lines(&["3"])).await.unwrap();
    assert_eq!(files(folder.path()).len(), 2, "the next process leaves it as it is");
}

/// There is no room for a while: the batch is refused, and once there is, the file holds whole batches only.
#[tokio::test]
async fn a_batch_that_does_not_fit_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let archive = Files::in_folder(folder.path(), "a", noon()).unwrap();
    archive.keep(lines(&["1"])).await.unwrap();
    let file = files(folder.path()).remove(0);
    // Not compressible, and more than the limit allows.
    let noise = (0_u64..40_000).fold(String::new(), |mut noise, nth| {
        noise += &nth.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_string();
        noise
    });
    let refused = {
        let _limit = FileLimit::of(20_000);
        archive.keep(vec![noise.clone()]).await.unwrap_err().to_string()
    };
    assert!(refused.contains("File too large"), "{refused}");
    assert_eq!(text(&file), "1\n");
    archive.keep(lines(&["2"])).await.unwrap();
    archive.keep(vec![noise.clone()]).await.unwrap();
    assert_eq!(text(&file), format!("1\n2\n{noise}\n"));
}

/// No file of this process grows beyond this, for a while.
struct FileLimit(u64, u64);

impl FileLimit {
    fn of(bytes: u64) -> Self {
        // Without this the first byte too many ends the process.
        let _ = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::from_raw(25)).unwrap();
        let (soft, hard) = rlimit::Resource::FSIZE.get().unwrap();
        rlimit::Resource::FSIZE.set(bytes, hard).unwrap();
        Self(soft, hard)
    }
}

impl Drop for FileLimit {
    fn drop(&mut self) {
        rlimit::Resource::FSIZE.set(self.0, self.1).unwrap();
    }
}
