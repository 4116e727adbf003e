//! Server-sent events, taken apart.

/// The largest frame that is kept while its end is missing.
const LARGEST: usize = 64 * 1024 * 1024;

/// An event as it was sent; a heartbeat is none.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Sent {
    /// Its number, by which a stream is resumed.
    pub(crate) id: Option<u64>,
    pub(crate) data: String,
}

/// Bytes of a stream that have not made an event yet.
#[derive(Debug, Default)]
pub(crate) struct Frames(Vec<u8>);

/// A frame that has no end.
#[derive(Debug, thiserror::Error)]
#[error("an event is larger than {LARGEST} bytes")]
pub(crate) struct Endless;

impl Frames {
    /// Takes in what came.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<(), Endless> {
        if self.0.len() + bytes.len() > LARGEST {
            return Err(Endless);
        }
        self.0.extend_from_slice(bytes);
        Ok(())
    }

    /// The next event that came whole.
    pub(crate) fn next(&mut self) -> Option<Sent> {
        while let Some(end) = self.0.windows(2).position(|bytes| bytes == b"\n\n") {
            let frame: Vec<u8> = self.0.drain(..end + 2).collect();
            if let Some(sent) = read(&String::from_utf8_lossy(&frame)) {
                return Some(sent);
            }
        }
        None
    }
}

fn read(frame: &str) -> Option<Sent> {
    let field = |name: &str| {
        let line = frame.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.map(|value| value.strip_prefix(' ').unwrap_or(value))
    };
    Some(Sent { id: field("id").and_then(|id| id.parse().ok()), data: field("data")?.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_put_together_from_whatever_pieces_came() {
        let stream = "id: 7\nevent: a\ndata: {\"x\":\"ü\"}\n\n:\n\nevent: b\ndata:{}\n\nid: 8\ndata: cut off";
        for piece in 1..stream.len() {
            let mut frames = Frames::default();
            let mut found = Vec::new();
            for bytes in stream.as_bytes().chunks(piece) {
                frames.push(bytes).unwrap();
                found.extend(std::iter::from_fn(|| frames.next()));
            }
            let whole = |id, data: &str| Sent { id, data: data.to_owned() };
            assert_eq!(found, [whole(Some(7), "{\"x\":\"ü\"}"), whole(None, "{}")], "in pieces of {piece}");
        }
    }
}
