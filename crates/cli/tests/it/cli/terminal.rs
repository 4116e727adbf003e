//! A real pseudo-terminal and its screen.

use std::num::NonZeroU16;
use std::process::ExitStatus;

use pty_process::{Command, Pty, Size};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Child;

use crate::support::program::BINARY;
use crate::support::within;

fn lines(number: u16) -> NonZeroU16 {
    NonZeroU16::new(number).unwrap()
}

pub(crate) struct Terminal {
    pty: Pty,
    screen: vt100::Parser,
    child: Child,
    /// Everything that was written, as it came.
    pub(crate) written: Vec<u8>,
}

impl Terminal {
    /// Runs the program in a terminal of this size.
    pub(crate) fn run((rows, columns): (u16, u16), arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        let (pty, pts) = pty_process::open().unwrap();
        pty.resize(Size::new(rows, columns)).unwrap();
        let mut command = Command::new(BINARY).args(arguments).kill_on_drop(true);
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("BACKSTITCH_")) {
            command = command.env_remove(name);
        }
        let command =
            command.env("TERM", "xterm-256color").env_remove("NO_COLOR").envs(variables.iter().copied());
        let child = command.spawn(pts).unwrap();
        Self {
            pty,
            screen: vt100::Parser::new(lines(rows), lines(columns), 1000),
            child,
            written: Vec::new(),
        }
    }

    pub(crate) fn screen(&self) -> String {
        self.screen.screen().contents()
    }

    /// Reads on; false at the end.
    async fn read(&mut self) -> bool {
        let mut bytes = [0; 4096];
        match within(self.pty.read(&mut bytes)).await {
            // A terminal whose program has ended answers with an error.
            Ok(0) | Err(_) => false,
            Ok(length) => {
                self.screen.process(&bytes[..length]);
                self.written.extend_from_slice(&bytes[..length]);
                true
            }
        }
    }

    /// Waits until the screen shows this.
    pub(crate) async fn shows(&mut self, wanted: &str) {
        while !self.screen().contains(wanted) {
            assert!(self.read().await, "the screen never showed {wanted:?}: {}", self.screen());
        }
    }

    pub(crate) fn resize(&mut self, (rows, columns): (u16, u16)) {
        self.pty.resize(Size::new(rows, columns)).unwrap();
        self.screen.screen_mut().set_size(lines(rows), lines(columns));
    }

    pub(crate) async fn press(&mut self, keys: &[u8]) {
        self.pty.write_all(keys).await.unwrap();
    }

    /// Reads to the end and gives the exit code.
    pub(crate) async fn end(&mut self) -> i32 {
        while self.read().await {}
        let status: ExitStatus = within(self.child.wait()).await.unwrap();
        status.code().unwrap()
    }
}
