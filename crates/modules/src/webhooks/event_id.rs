//! Ids that clients give events.

use backstitch_api::text_type;

/// The longest id, in bytes.
const MAX_ID: usize = 200;

text_type! {
    /// Your own id of an event.
    EventId r"^[^\x00]*$", 1, MAX_ID, "order-17-created", check_event_id;
}

pub(super) fn check_event_id(id: &str) -> Result<(), String> {
    if (1..=MAX_ID).contains(&id.len()) && !id.contains('\0') {
        return Ok(());
    }
    Err(format!("has {} bytes: use 1 to {MAX_ID}, no zero byte", id.len()))
}
