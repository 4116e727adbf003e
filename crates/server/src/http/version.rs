//! Which HTTP a client speaks, told by how it begins.

use std::io;
use std::time::Duration;

use tokio::net::TcpStream;

/// How HTTP/2 introduces itself; anything else is HTTP/1.
const HTTP_2: &[u8; 3] = b"PRI";
/// How long the rest of a beginning is left to arrive before it is looked at again; each time twice as long.
const REST: Duration = Duration::from_millis(5);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    Http1,
    Http2,
}

/// Waits until the client has said enough to tell. Nothing of it is taken.
pub(super) async fn spoken_on(stream: &TcpStream) -> io::Result<Version> {
    let mut beginning = [0; HTTP_2.len()];
    let mut rest = REST;
    loop {
        let arrived = stream.peek(&mut beginning).await?;
        if arrived == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        match &beginning[..arrived] {
            whole if whole == HTTP_2 => return Ok(Version::Http2),
            part if HTTP_2.starts_with(part) => {
                tokio::time::sleep(rest).await;
                rest *= 2;
            }
            _ => return Ok(Version::Http1),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;

    use super::*;

    async fn spoken(pieces: &[&[u8]]) -> io::Result<Version> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let mut client = TcpStream::connect(listener.local_addr()?).await?;
        client.set_nodelay(true)?;
        let (server, _) = listener.accept().await?;
        let saying = async {
            for piece in pieces {
                client.write_all(piece).await?;
                tokio::time::sleep(2 * REST).await;
            }
            client.shutdown().await
        };
        let (spoken, said) = tokio::join!(spoken_on(&server), saying);
        said?;
        spoken
    }

    #[tokio::test]
    async fn the_first_letters_tell() {
        assert_eq!(spoken(&[b"GET / HTTP/1.1\r\n"]).await.unwrap(), Version::Http1);
        assert_eq!(spoken(&[b"POST / HTTP/1.1\r\n"]).await.unwrap(), Version::Http1);
        assert_eq!(spoken(&[b"\x16\x03\x01"]).await.unwrap(), Version::Http1, "whatever that is");
        assert_eq!(spoken(&[b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"]).await.unwrap(), Version::Http2);
    }

    #[tokio::test]
    async fn a_beginning_in_pieces_is_waited_for() {
        assert_eq!(spoken(&[b"P", b"R", b"I *"]).await.unwrap(), Version::Http2);
        assert_eq!(spoken(&[b"P", b"U", b"T"]).await.unwrap(), Version::Http1);
        assert_eq!(spoken(&[b"PR", b"O"]).await.unwrap(), Version::Http1);
    }

    #[tokio::test]
    async fn who_hangs_up_without_a_word_speaks_nothing() {
        assert!(spoken(&[]).await.is_err());
    }
}
