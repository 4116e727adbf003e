//! A disk that really fills up: a small one in memory, visible to the tested server only.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::path::Path;
use std::process::Command;

use serde_json::json;
use tempfile::TempDir;

use crate::doctor::stage::{Open, open_by};
use crate::support::program::command_within;
use crate::support::within;

const MIB: usize = 1 << 20;
/// Of the disk.
const SIZE: usize = 48;
/// Mounting needs root, or root in a user namespace.
const WAYS: [&[&str]; 2] = [&["unshare", "--user", "--map-root-user", "--mount"], &["unshare", "--mount"]];
/// Mounts it on the first argument, and becomes the rest.
const MOUNT: &str = "mount -t tmpfs -o size=48m none \"$0\" && exec \"$@\"";

/// A server on a disk of its own, in this folder.
async fn open_on_small_disk(folder: &Path, variables: &[(&str, &str)]) -> Open {
    let folder = folder.to_str().unwrap();
    let mounts = |way: &&&[&str]| {
        let tried = Command::new(way[0]).args(&way[1..]).args(["sh", "-c", MOUNT, folder, "true"]).status();
        tried.is_ok_and(|status| status.success())
    };
    let Some(way) = WAYS.iter().find(mounts) else {
        panic!(
            "a small disk is mounted in a namespace of its own: run this as root, or let users make namespaces"
        );
    };
    let around = [*way, &["sh", "-c", MOUNT, folder]].concat();
    let db = format!("sqlite:{folder}/backstitch.db");
    open_by(command_within(&around, &["serve", "--db", &db, "--listen", "127.0.0.1:0"]), variables).await
}

/// Something else on the disk.
struct Ballast(File);

impl Ballast {
    fn on(disk: &Path) -> Self {
        Self(OpenOptions::new().create(true).append(true).open(disk.join("ballast")).unwrap())
    }

    /// Grows until so much is left of the disk.
    fn leave(&mut self, disk: &Path, left: usize) {
        while let free @ 1.. = free_on(disk).saturating_sub(left) {
            let written = self.0.write_all(&vec![1; free.min(MIB)]);
            if let Err(why) = written {
                assert_eq!(why.kind(), ErrorKind::StorageFull, "{why}");
                return;
            }
        }
    }
}

fn free_on(disk: &Path) -> usize {
    usize::try_from(fs4::available_space(disk).unwrap()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn filling_disk_is_a_warning_then_an_error() {
    let folder = TempDir::new().unwrap();
    let limits = [
        ("BACKSTITCH_DOCTOR_DISK_WARNING_BYTES", (12 * MIB).to_string()),
        ("BACKSTITCH_DOCTOR_DISK_ERROR_BYTES", (4 * MIB).to_string()),
    ];
    let limits = limits.each_ref().map(|(name, bytes)| (*name, bytes.as_str()));
    let open = open_on_small_disk(folder.path(), &limits).await;
    let (disk, subject) = (open.inside(folder.path()), folder.path().join("backstitch.db"));
    let subject = subject.to_str().unwrap();
    assert!(free_on(&disk) < SIZE * MIB, "it is the small one");
    assert_eq!(open.found("disk_space").await, []);
    open.declare().await;
    let mut ballast = Ballast::on(&disk);
    ballast.leave(&disk, 8 * MIB);
    let finding = open.finds("disk_space", "warning", subject).await;
    assert!(finding["message"].as_str().unwrap().contains("left of 48"), "{finding}");
    ballast.leave(&disk, MIB);
    open.finds("disk_space", "error", subject).await;
    assert_eq!(open.found("writes").await, [], "there is room for a while");

    ballast.leave(&disk, 0);
    // What is free in the file and in its log is used up first.
    let large = json!({ "definition": "parcel", "input": "x".repeat(100_000) });
    let refused = within(async {
        loop {
            let answer = open.client.post("/v1/sagas", &large).await;
            if answer.status != 202 {
                return answer;
            }
        }
    })
    .await;
    assert_eq!((refused.status, refused.problem().as_str()), (503, "unavailable"), "{refused:?}");
    within(async {
        while open.found("writes").await != [("error".to_owned(), String::new())] {
            open.client.post("/v1/sagas", &large).await;
        }
    })
    .await;
    std::fs::remove_file(disk.join("ballast")).unwrap();
    drop(ballast);
    open.is_well("writes").await;
    open.is_well("disk_space").await;
    open.start().await;
}
