//! What people read about a failed lifecycle.

use backstitch::kernel::lifecycle::draft::MAX_MESSAGE;
use backstitch_api::text_type;

text_type! {
    /// What people read about a failure.
    FailureMessage r"^[^\x00]*$", 0, MAX_MESSAGE, "ada: failed by hand", check_message;
}

pub(super) fn check_message(message: &str) -> Result<(), String> {
    if message.len() > MAX_MESSAGE {
        return Err(format!("must have {MAX_MESSAGE} bytes at most: shorten it"));
    }
    if message.contains('\0') {
        return Err("contains a NUL character, which not every store can hold: leave it out".to_owned());
    }
    Ok(())
}
