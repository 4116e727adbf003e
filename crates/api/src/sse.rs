//! Decoder for a stream of server-sent events.

/// The largest incomplete frame the decoder buffers.
const MAX_FRAME_BYTES: usize = 64 * 1024 * 1024;

/// A complete event. Heartbeats (frames without `data`) are dropped.
#[derive(Debug, PartialEq, Eq)]
pub struct SseEvent {
    /// The event's id, for `Last-Event-ID` when the stream is resumed.
    pub id: Option<u64>,
    /// The `data` field.
    pub data: String,
}

/// Bytes received so far that do not form a complete event yet.
#[derive(Debug, Default)]
pub struct SseDecoder(Vec<u8>);

/// The server sent a frame without an end.
#[derive(Debug, thiserror::Error)]
#[error("an event is larger than {MAX_FRAME_BYTES} bytes")]
pub struct FrameTooLarge;

impl SseDecoder {
    /// Buffers received bytes.
    ///
    /// # Errors
    /// When the buffered frame would exceed 64 MiB.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), FrameTooLarge> {
        if self.0.len() + bytes.len() > MAX_FRAME_BYTES {
            return Err(FrameTooLarge);
        }
        self.0.extend_from_slice(bytes);
        Ok(())
    }

    /// Removes and returns the next complete event.
    pub fn next_event(&mut self) -> Option<SseEvent> {
        while let Some(end) = self.0.windows(2).position(|bytes| bytes == b"\n\n") {
            let frame: Vec<u8> = self.0.drain(..end + 2).collect();
            if let Some(event) = parse(&String::from_utf8_lossy(&frame)) {
                return Some(event);
            }
        }
        None
    }
}

fn parse(frame: &str) -> Option<SseEvent> {
    let field = |name: &str| {
        let line = frame.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.map(|value| value.strip_prefix(' ').unwrap_or(value))
    };
    Some(SseEvent { id: field("id").and_then(|id| id.parse().ok()), data: field("data")?.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_decoded_from_pieces_of_any_size() {
        let stream = "id: 7\nevent: a\ndata: {\"x\":\"ü\"}\n\n:\n\nevent: b\ndata:{}\n\nid: 8\ndata: cut off";
        for piece in 1..stream.len() {
            let mut decoder = SseDecoder::default();
            let mut events = Vec::new();
            for bytes in stream.as_bytes().chunks(piece) {
                decoder.push(bytes).unwrap();
                events.extend(std::iter::from_fn(|| decoder.next_event()));
            }
            let whole = |id, data: &str| SseEvent { id, data: data.to_owned() };
            assert_eq!(events, [whole(Some(7), "{\"x\":\"ü\"}"), whole(None, "{}")], "in pieces of {piece}");
        }
    }
}
