//! A `saga-node` process: its acknowledgements, and faults for it.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::check::Acknowledged;
use crate::postgres::{Signal, send_signal};

const POLL_EVERY: Duration = Duration::from_millis(2);

/// The settings of a node.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The program `saga-node`.
    pub program: PathBuf,
    /// The store's address.
    pub address: String,
    /// The directory of the ledger, the messages and the node's log.
    pub folder: PathBuf,
    /// The lease.
    pub lease: Duration,
    /// The time between two starts; zero starts nothing.
    pub start_every: Duration,
}

/// A running node. Dropping it kills it.
#[derive(Debug)]
pub struct Node {
    child: Child,
    /// The node ends when this is closed, so it never survives its parent.
    _alive: Option<ChildStdin>,
    told: Arc<Mutex<Told>>,
    reader: Option<JoinHandle<()>>,
    log: PathBuf,
}

/// The output of a node.
#[derive(Debug, Default)]
struct Told {
    ready: bool,
    has_adopted: bool,
    acknowledged: Vec<Acknowledged>,
    refusals: Vec<String>,
}

impl Node {
    /// Starts a node with a new name.
    ///
    /// # Errors
    /// When the program cannot be run.
    pub fn spawn(settings: &Settings, name: &str) -> io::Result<Self> {
        let log = settings.folder.join(format!("{name}.log"));
        let mut child = Command::new(&settings.program)
            .arg(format!("address={}", settings.address))
            .arg(format!("folder={}", settings.folder.display()))
            .arg(format!("name={name}"))
            .arg(format!("lease_ms={}", settings.lease.as_millis()))
            .arg(format!("start_every_us={}", settings.start_every.as_micros()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(&log)?)
            .spawn()?;
        let told = Arc::new(Mutex::new(Told::default()));
        let output = child.stdout.take().ok_or_else(|| io::Error::other("the node has no output"))?;
        let writer = told.clone();
        let reader = std::thread::spawn(move || listen(output, &writer));
        Ok(Self { _alive: child.stdin.take(), child, told, reader: Some(reader), log })
    }

    fn told(&self) -> std::sync::MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the node runs, at most this long.
    ///
    /// # Errors
    /// When it does not run, with its log.
    pub fn until_ready(&mut self, at_most: Duration) -> io::Result<()> {
        self.until(at_most, "be ready", |node| node.told().ready)
    }

    /// Waits until the node has adopted a saga, at most this long.
    ///
    /// # Errors
    /// When it has not, with its log.
    pub fn until_adopted(&mut self, at_most: Duration) -> io::Result<()> {
        self.until(at_most, "adopt a saga", |node| node.told().has_adopted)
    }

    /// Waits until the node has this many acknowledged starts, at most this long.
    ///
    /// # Errors
    /// When it has not, with its log.
    pub fn until_acknowledged(&mut self, count: usize, at_most: Duration) -> io::Result<()> {
        self.until(at_most, "acknowledge", |node| node.told().acknowledged.len() >= count)
    }

    /// Waits until the node has this many refused starts, at most this long.
    ///
    /// # Errors
    /// When it has not, with its log.
    pub fn until_refused(&mut self, count: usize, at_most: Duration) -> io::Result<()> {
        self.until(at_most, "refuse", |node| node.told().refusals.len() >= count)
    }

    fn until(&mut self, at_most: Duration, what: &str, so: impl Fn(&Self) -> bool) -> io::Result<()> {
        let until = Instant::now() + at_most;
        while !so(self) {
            if Instant::now() > until || self.child.try_wait()?.is_some() {
                let log = self.log();
                return Err(io::Error::other(format!("the node did not {what}: {log}")));
            }
            std::thread::sleep(POLL_EVERY);
        }
        Ok(())
    }

    /// The number of acknowledged starts.
    #[must_use]
    pub fn acknowledged(&self) -> usize {
        self.told().acknowledged.len()
    }

    /// The refused starts.
    #[must_use]
    pub fn refusals(&self) -> Vec<String> {
        self.told().refusals.clone()
    }

    /// The node's log.
    #[must_use]
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Sends it a signal.
    ///
    /// # Errors
    /// When it is gone.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        send_signal(&[self.child.id()], signal)
    }

    /// Kills it and returns its acknowledged starts.
    ///
    /// # Errors
    /// When it had ended by itself.
    pub fn kill(mut self) -> io::Result<Vec<Acknowledged>> {
        if let Some(status) = self.child.try_wait()? {
            return Err(io::Error::other(format!("the node had ended with {status}: {}", self.log())));
        }
        self.child.kill()?;
        self.ended().map(|(_, acknowledged)| acknowledged)
    }

    /// Terminates it and waits for its end.
    ///
    /// # Errors
    /// When it ends with a failure.
    pub fn terminate(mut self) -> io::Result<Vec<Acknowledged>> {
        self.signal(Signal::Terminate)?;
        let (status, acknowledged) = self.ended()?;
        if status.success() {
            return Ok(acknowledged);
        }
        Err(io::Error::other(format!("the node ended with {status}: {}", self.log())))
    }

    fn ended(&mut self) -> io::Result<(ExitStatus, Vec<Acknowledged>)> {
        let status = self.child.wait()?;
        // Output in the pipe may still contain an acknowledgement.
        if let Some(reader) = self.reader.take() {
            reader.join().map_err(|_| io::Error::other("the reader of the node's output panicked"))?;
        }
        Ok((status, std::mem::take(&mut self.told().acknowledged)))
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // Both fail only if the node has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn listen(output: impl io::Read, told: &Mutex<Told>) {
    for line in BufReader::new(output).lines().map_while(Result::ok) {
        let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
        let words: Vec<&str> = line.splitn(3, ' ').collect();
        match words[..] {
            ["READY"] => told.ready = true,
            ["ADOPTED"] => told.has_adopted = true,
            ["ACK", key, saga] => {
                if let Ok(saga) = saga.parse() {
                    told.acknowledged.push(Acknowledged { key: key.to_owned(), saga });
                }
            }
            _ => told.refusals.push(line),
        }
    }
}

/// The settings for nodes on this store, a start every two milliseconds.
#[must_use]
pub fn settings(program: &str, address: &str, folder: &Path, lease: Duration) -> Settings {
    Settings {
        program: program.into(),
        address: address.to_owned(),
        folder: folder.to_owned(),
        lease,
        start_every: Duration::from_millis(2),
    }
}
