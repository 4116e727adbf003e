//! Faults of files.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use backstitch::store::{Backend as _, Commit, Cursor, Error, Filter, SagaStore as _, Verdict};
use backstitch_testkit::conformance::make::{appended, apply, loaded, saga, seqs, started, verdict};
use futures::executor::block_on;

use super::support::{Place, now, open, refusal};
use crate::repository;

/// Longer than the store waits for a lock.
const FOR_EVER: Duration = Duration::from_secs(30);
/// The variable with the directory for the process that may not write there.
const UNWRITABLE: &str = "BACKSTITCH_TEST_UNWRITABLE";
/// The variable with the directory for the process that opens a file by another name.
const LINKED: &str = "BACKSTITCH_TEST_LINKED";
/// An account without rights.
const NOBODY: u32 = 65_534;

#[tokio::test]
async fn a_second_engine_is_refused_until_the_first_is_gone() {
    let place = Place::new();
    let first = place.open();
    apply(&first, started(saga(1), now())).await;
    let refused = refusal(&place.path());
    assert!(matches!(&refused, Error::InUse(path) if path.ends_with("sagas.db")), "{refused}");
    apply(&first, started(saga(2), now())).await;
    drop(first);
    assert_eq!(seqs(&place.open(), saga(2)).await, [1]);
}

#[test]
fn a_second_way_to_write_the_path_does_not_get_round_the_lock() {
    let place = Place::new();
    let _first = place.open();
    let link = place.folder().join("link.db");
    symlink(place.path(), &link).unwrap();
    assert!(matches!(refusal(&link), Error::InUse(_)));
    let name = place.folder().file_name().unwrap();
    let roundabout = place.folder().join("..").join(name).join("sagas.db");
    assert!(matches!(refusal(&roundabout), Error::InUse(_)));
}

#[test]
fn hard_link_admits_no_second_engine() {
    let place = Place::new();
    let first = place.open();
    let link = place.folder().join("link.db");
    fs::hard_link(place.path(), &link).unwrap();
    assert!(matches!(refusal(&link), Error::InUse(_)));
    drop(first);
    fs::remove_file(&link).unwrap();
    place.open();
}

#[test]
fn file_with_a_hard_link_is_refused_before_it_is_opened() {
    let place = Place::new();
    drop(place.open());
    let link = place.folder().join("link.db");
    fs::hard_link(place.path(), &link).unwrap();
    for path in [&link, &place.path()] {
        let refused = refusal(path);
        assert!(matches!(&refused, Error::Refused(why) if why.contains("hard link")), "{refused}");
    }
    assert!(!place.folder().join("link.db-wal").exists(), "nothing was written");
    fs::remove_file(&link).unwrap();
    place.open();
}

#[test]
fn hard_link_admits_no_engine_of_another_process() {
    let place = Place::new();
    let _first = place.open();
    fs::hard_link(place.path(), place.folder().join("linked.db")).unwrap();
    let other = Command::new(std::env::current_exe().unwrap());
    run_one(other, "sqlite_store::faults::linked_file_of_another_process_is_in_use", LINKED, place.folder());
}

/// The part of the test above that runs in another process.
#[test]
fn linked_file_of_another_process_is_in_use() {
    let Some(folder) = std::env::var_os(LINKED) else {
        return;
    };
    let refused = refusal(&Path::new(&folder).join("linked.db"));
    assert!(matches!(refused, Error::InUse(_)), "{refused}");
}

#[tokio::test]
async fn moved_file_refuses_writes_until_it_is_back() {
    for ending in ["", "-wal"] {
        let place = Place::new();
        let store = place.open();
        apply(&store, started(saga(1), now())).await;
        let file = place.folder().join(format!("sagas.db{ending}"));
        let elsewhere = place.folder().join("elsewhere");
        fs::rename(&file, &elsewhere).unwrap();
        let refused = store.commit(&[started(saga(2), now())]).await.unwrap_err();
        assert!(matches!(&refused, Error::Unavailable(why) if why.contains("deleted or moved")), "{refused}");
        store.check_identity().unwrap_err();
        fs::rename(&elsewhere, &file).unwrap();
        apply(&store, started(saga(2), now())).await;
        store.check_identity().unwrap();
        assert_eq!(seqs(&store, saga(2)).await, [1]);
    }
}

#[tokio::test]
async fn replaced_file_refuses_writes_and_new_readers() {
    let place = Place::new();
    let store = place.open();
    apply(&store, started(saga(1), now())).await;
    let copy = place.folder().join("copy.db");
    fs::copy(place.path(), &copy).unwrap();
    fs::rename(&copy, place.path()).unwrap();
    let refused = store.commit(&[started(saga(2), now())]).await.unwrap_err();
    assert!(matches!(&refused, Error::Unavailable(why) if why.contains("took the place")), "{refused}");
    let read = store.load(&[saga(1)]).await.unwrap_err();
    assert!(matches!(read, Error::Unavailable(_)), "no reader was open: {read}");
}

#[test]
fn a_newer_schema_is_refused_and_left_alone() {
    let place = Place::new();
    drop(place.open());
    place
        .beside()
        .execute(
            "insert into backstitch_product_migrations (product, version, name, applied_at)
             values ('engine', 999, 'new', 0)",
            [],
        )
        .unwrap();
    let migrations =
        repository::files_under(&repository::root().join("crates/engine/migrations/sqlite")).len();
    let refused = refusal(&place.path());
    let Error::NewerSchema { found: 999, known } = refused else { panic!("{refused}") };
    assert_eq!(usize::try_from(known), Ok(migrations));
    place.beside().execute("delete from backstitch_product_migrations where version = 999", []).unwrap();
    place.open();
}

#[test]
fn a_file_that_is_no_database_is_refused_and_left_alone() {
    let place = Place::new();
    let letter = "Dear Sir or Madam, ".repeat(500);
    fs::write(place.path(), &letter).unwrap();
    let refused = refusal(&place.path());
    assert!(matches!(refused, Error::Refused(_)), "{refused}");
    assert!(refused.to_string().contains("give the path of a Backstitch file"), "{refused}");
    assert_eq!(fs::read_to_string(place.path()).unwrap(), letter);
}

#[test]
fn a_path_that_cannot_be_a_file_is_refused_with_advice() {
    let place = Place::new();
    let refused = refusal(&place.folder().join("nowhere").join("sagas.db")).to_string();
    assert!(refused.contains("create the folder first"), "{refused}");
    let refused = refusal(place.folder());
    assert!(matches!(refused, Error::Refused(_)), "{refused}");
}

#[test]
fn the_file_may_hold_tables_of_its_owner() {
    let place = Place::new();
    place.beside().execute_batch("create table orders (id integer); pragma user_version = 42").unwrap();
    drop(place.open());
    let theirs: i64 = place.beside().query_row("pragma user_version", [], |row| row.get(0)).unwrap();
    assert_eq!(theirs, 42);
    place.open();
}

#[test]
fn a_file_that_may_not_be_written_is_refused() {
    let place = Place::new();
    drop(place.open());
    fs::remove_file(place.folder().join("sagas.db.lock")).unwrap();
    set_mode(&place.path(), 0o444);
    set_mode(place.folder(), 0o777);
    run_unprivileged(place.folder(), "sqlite_store::faults::read_only_file_is_reported");
}

#[test]
fn a_folder_that_may_not_be_written_is_refused() {
    let place = Place::new();
    set_mode(place.folder(), 0o555);
    run_unprivileged(place.folder(), "sqlite_store::faults::read_only_file_is_reported");
    set_mode(place.folder(), 0o755);
}

/// The part of the two tests above that runs without privileges.
#[test]
fn read_only_file_is_reported() {
    let Some(folder) = std::env::var_os(UNWRITABLE) else {
        return;
    };
    let refused = refusal(&Path::new(&folder).join("sagas.db"));
    assert!(matches!(refused, Error::ReadOnly(_)), "{refused}");
    assert!(refused.to_string().contains("check the permissions"), "{refused}");
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Runs one test of this program in a separate process. Root ignores permissions, so it runs the test as another
/// account from a
/// readable copy.
fn run_unprivileged(folder: &Path, test: &str) {
    let copy = Place::new();
    let program = copy.folder().join("test");
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    set_mode(&program, 0o755);
    set_mode(copy.folder(), 0o755);
    let mut command = Command::new(program);
    if fs::metadata(copy.folder()).unwrap().uid() == 0 {
        command.uid(NOBODY).gid(NOBODY);
    }
    run_one(command, test, UNWRITABLE, folder);
}

/// Runs one test of a program with the directory in this variable.
fn run_one(mut program: Command, test: &str, variable: &str, folder: &Path) {
    let output = program.args(["--exact", test]).env(variable, folder).output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && told.contains("1 passed"), "{output:?}");
}

#[test]
fn a_write_waits_for_another_programs_transaction() {
    let place = Place::new();
    let store = place.open();
    let other = place.beside();
    other.execute_batch("begin immediate").unwrap();
    let (done, verdicts) = mpsc::channel();
    let writer = thread::spawn(move || {
        done.send(block_on(store.commit(&[started(saga(1), now())]))).unwrap();
    });
    let early = verdicts.recv_timeout(Duration::from_millis(200));
    assert_eq!(early.err(), Some(mpsc::RecvTimeoutError::Timeout), "the lock was not felt");
    other.execute_batch("commit").unwrap();
    let verdicts = verdicts.recv_timeout(FOR_EVER).unwrap().unwrap();
    assert_eq!(verdicts, [Verdict::Applied]);
    writer.join().unwrap();
}

#[test]
fn write_behind_a_long_lock_fails_and_can_be_retried() {
    let place = Place::new();
    let store = place.open();
    let other = place.beside();
    other.execute_batch("begin immediate").unwrap();
    let refused = block_on(store.commit(&[started(saga(1), now())])).unwrap_err();
    assert!(matches!(refused, Error::Unavailable(_)), "{refused}");
    other.execute_batch("rollback").unwrap();
    assert_eq!(block_on(store.commit(&[started(saga(1), now())])).unwrap(), [Verdict::Applied]);
}

#[tokio::test]
async fn readers_do_not_wait_for_a_writer() {
    let place = Place::new();
    let store = place.open();
    apply(&store, started(saga(1), now())).await;
    let other = place.beside();
    other.execute_batch("begin immediate; update sagas set failed_step = 'x'").unwrap();
    let stored = loaded(&store, saga(1)).await;
    assert_eq!(stored.summary.failed_step, None, "what is not committed is not seen");
    let page = store.list(&Filter::default(), &Cursor { before: None, limit: 10 }).await.unwrap();
    assert_eq!(page.items.len(), 1);
    other.execute_batch("rollback").unwrap();
}

#[tokio::test]
async fn writer_does_not_wait_for_readers() {
    let place = Place::new();
    let store = place.open();
    apply(&store, started(saga(1), now())).await;
    let other = place.beside();
    other.execute_batch("begin").unwrap();
    let count = |sql| other.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!(count("select count(*) from sagas"), 1);
    apply(&store, started(saga(2), now())).await;
    assert_eq!(count("select count(*) from sagas"), 1, "a reader sees one moment");
    assert_eq!(seqs(&store, saga(2)).await, [1]);
}

#[tokio::test]
async fn acknowledged_write_survives_a_crash() {
    let place = Place::new();
    let store = place.open();
    for number in 1..=20 {
        apply(&store, started(saga(number), now())).await;
        apply(&store, appended(saga(number), 2, now())).await;
    }
    let after = unclean_end(&place);
    let reopened = after.open();
    for number in 1..=20 {
        assert_eq!(seqs(&reopened, saga(number)).await, [1, 2]);
    }
    assert_eq!(verdict(&reopened, appended(saga(1), 2, now())).await, Verdict::Fenced);
    apply(&reopened, appended(saga(1), 3, now())).await;
}

#[tokio::test]
async fn torn_wal_loses_only_whole_last_transactions() {
    let place = Place::new();
    let store = place.open();
    let pair = |number| {
        let mut commit = started(saga(number), now());
        commit.events.extend(appended(saga(number), 2, now()).events);
        commit
    };
    for number in 1..=10 {
        let batch: [Commit; 2] = [pair(2 * number - 1), pair(2 * number)];
        assert_eq!(store.commit(&batch).await.unwrap(), [Verdict::Applied, Verdict::Applied]);
    }
    let whole = fs::metadata(place.folder().join("sagas.db-wal")).unwrap().len();
    let mut survivors = Vec::new();
    for cut in [whole, whole - 1, whole / 2 + 17, whole / 3, 40, 0] {
        let after = unclean_end(&place);
        let log = fs::OpenOptions::new().write(true).open(after.folder().join("sagas.db-wal")).unwrap();
        log.set_len(cut).unwrap();
        let Ok(reopened) = open(&after.path()) else {
            panic!("a log of {cut} bytes was refused");
        };
        let page = reopened.list(&Filter::default(), &Cursor { before: None, limit: 100 }).await.unwrap();
        let count = u64::try_from(page.items.len()).unwrap();
        assert_eq!(count % 2, 0, "half a batch of a log of {cut} bytes");
        for number in 1..=count {
            assert_eq!(seqs(&reopened, saga(number)).await, [1, 2], "a log of {cut} bytes");
        }
        survivors.push(count);
    }
    assert!(survivors.is_sorted_by(|more, fewer| more >= fewer), "{survivors:?}");
    assert_eq!((survivors.first(), survivors.last()), (Some(&20), Some(&0)));
}

/// A copy of the files at this moment, as after a power failure.
fn unclean_end(place: &Place) -> Place {
    let after = Place::new();
    for name in ["sagas.db", "sagas.db-wal"] {
        fs::copy(place.folder().join(name), after.folder().join(name)).unwrap();
    }
    after
}
