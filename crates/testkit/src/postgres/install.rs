//! Finds the server's programs and an account to run them.

use std::path::{Path, PathBuf};
use std::{env, fs};

use super::Error;

/// Debian and its relatives install the server outside of PATH, one directory per version.
const VERSIONED_INSTALLS: &str = "/usr/lib/postgresql";

#[derive(Debug)]
pub(super) struct Binaries {
    pub(super) initdb: PathBuf,
    pub(super) postgres: PathBuf,
    /// Installed with the clients. Only a standby needs it.
    pub(super) basebackup: PathBuf,
}

impl Binaries {
    /// PATH first, as an explicit choice; then the newest installed version.
    pub(super) fn find() -> Option<Self> {
        let path = env::var_os("PATH").unwrap_or_default();
        // Links are followed: the programs of a version find each other in their own directory.
        let in_path = env::split_paths(&path)
            .filter_map(|directory| fs::canonicalize(directory.join("initdb")).ok())
            .filter_map(|initdb| initdb.parent().map(Path::to_owned));
        in_path
            .chain(newest_first(Path::new(VERSIONED_INSTALLS)))
            .find_map(|directory| Self::both_in(&directory))
    }

    fn both_in(directory: &Path) -> Option<Self> {
        let [initdb, postgres, basebackup] =
            ["initdb", "postgres", "pg_basebackup"].map(|program| directory.join(program));
        let binaries = Self { initdb, postgres, basebackup };
        (binaries.initdb.is_file() && binaries.postgres.is_file()).then_some(binaries)
    }
}

fn newest_first(installs: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(installs).into_iter().flatten().flatten();
    let mut versions: Vec<(Vec<u32>, PathBuf)> = entries
        .filter_map(|entry| {
            // Compared as numbers, because "9.6" is older than "15".
            let name = entry.file_name();
            let numbers = name.to_str()?.split('.').map(|part| part.parse::<u32>().ok());
            let version: Option<Vec<_>> = numbers.collect();
            Some((version?, entry.path().join("bin")))
        })
        .collect();
    versions.sort();
    versions.into_iter().rev().map(|(_, directory)| directory).collect()
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Account {
    pub(super) uid: u32,
    pub(super) gid: u32,
}

impl Account {
    /// `PostgreSQL`'s own account, if it exists.
    pub(super) fn unprivileged() -> Result<Self, Error> {
        let passwd = fs::read_to_string("/etc/passwd").map_err(Error::io("read /etc/passwd"))?;
        ["postgres", "nobody"].iter().find_map(|name| Self::named(name, &passwd)).ok_or(Error::NoAccount)
    }

    fn named(name: &str, passwd: &str) -> Option<Self> {
        passwd.lines().find_map(|line| {
            let mut fields = line.split(':');
            if fields.next()? != name {
                return None;
            }
            let uid = fields.nth(1)?.parse().ok()?;
            let gid = fields.next()?.parse().ok()?;
            Some(Self { uid, gid })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_comes_first() {
        let installs = tempfile::tempdir().expect("a directory");
        for version in ["9.6", "15", "17", "common"] {
            fs::create_dir_all(installs.path().join(version).join("bin")).expect("a version");
        }
        let found = newest_first(installs.path());
        assert_eq!(found, ["17", "15", "9.6"].map(|version| installs.path().join(version).join("bin")));
    }

    #[test]
    fn an_account_is_found_by_its_whole_name() {
        let passwd = "\
            root:x:0:0:root:/root:/bin/sh\n\
            postgres-exporter:x:7:7::/:\n\
            postgres:x:101:104:,,,:/var/lib/postgresql:/bin/sh\n";
        assert_eq!(Account::named("postgres", passwd), Some(Account { uid: 101, gid: 104 }));
        assert_eq!(Account::named("nobody", passwd), None);
    }
}
