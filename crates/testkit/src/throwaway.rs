//! What throwaway servers have in common: they leave nothing behind, even if the test that started them is killed.

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Waits for the pipe from its parent to close, which happens even when the parent is killed, and
/// then clears away what the parent no longer can. `$1` is the server, `$2` its directory.
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

/// Starts what ends the server and removes its directory, should this process die.
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

/// A port of the loopback interface that nobody listens on just now.
pub(crate) fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}
