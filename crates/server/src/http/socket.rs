//! A client's socket: tells what arrives, and gives up on a client that leaves its answer unread.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Sleep;
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::activity::Activity;

/// The socket, however the connection on it goes on: also as a WebSocket.
pub(super) struct Socket {
    /// Gone once an answer is written elsewhere.
    pub(super) held: Option<Held>,
    activity: Arc<Activity>,
    write_timeout: Duration,
    /// Runs while the client takes nothing.
    stalled: Option<Pin<Box<Sleep>>>,
}

/// What a connection holds as long as it is open.
pub(super) struct Held {
    pub(super) stream: TcpStream,
    /// Its place among the connections there may be.
    pub(super) _place: OwnedSemaphorePermit,
    /// Held open until a shutdown need no longer wait for it.
    pub(super) _open: TaskTrackerToken,
}

impl Socket {
    pub(super) fn new(held: Held, activity: Arc<Activity>, write_timeout: Duration) -> Self {
        Self { held: Some(held), activity, write_timeout, stalled: None }
    }

    fn stream(&mut self) -> io::Result<Pin<&mut TcpStream>> {
        let held = self.held.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        Ok(Pin::new(&mut held.stream))
    }

    /// Passes a write's outcome on, unless the client has taken nothing for too long.
    fn patiently<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let timeout = self.write_timeout;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep(timeout)));
        match stalled.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // What arrives from now on is read by whoever writes the answer.
        if self.activity.goes_on_elsewhere() {
            return Poll::Pending;
        }
        let before = buffer.filled().len();
        let read = self.stream()?.poll_read(cx, buffer);
        let received = &buffer.filled()[before..];
        if !received.is_empty() {
            self.activity.received(received);
        }
        read
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = self.stream()?.poll_write(cx, bytes);
        self.patiently(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = self.stream()?.poll_write_vectored(cx, slices);
        self.patiently(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.held.is_none() {
            return Poll::Ready(Ok(()));
        }
        // Everything written so far is out: hyper flushes when it has nothing left to write.
        ready!(self.stream()?.poll_flush(cx))?;
        if self.activity.goes_on_elsewhere()
            && let Some(held) = self.held.take()
        {
            self.activity.hand_over(held);
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream()?.poll_shutdown(cx)
    }
}
