//! Shared parts of throwaway servers, which leave nothing behind even if their test is killed.

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Waits for the pipe from its parent to close, which happens even when the parent is killed, then cleans up. `$1` is
/// the server,
/// `$2` its directory.
const WATCHDOG: &str = r#"
read -r _
kill -QUIT "$1"
kill -CONT "$1"
for _ in 1 2 3 4 5 6 7 8 9 10; do
    kill -0 "$1" || break
    sleep 1
done
kill -KILL "$1"
rm -rf -- "$2"
"#;

/// Starts a watchdog that ends the server and removes its directory if this process dies.
pub(crate) fn watch_over(server: &Child, directory: &Path) -> io::Result<Child> {
    Command::new("sh")
        .args(["-c", WATCHDOG, "watchdog", &server.id().to_string()])
        .arg(directory)
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
}

/// A free loopback port.
pub(crate) fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}
