//! Topics reserved for the engine.

/// Their prefix.
pub const RESERVED: &str = "backstitch.";

/// Whether a topic is reserved, such as `backstitch.alerts`.
///
/// ```
/// use backstitch_kernel::topic::is_reserved;
///
/// assert!(is_reserved("backstitch.alerts"));
/// assert!(!is_reserved("backstitch") && !is_reserved("orders"));
/// ```
#[must_use]
pub fn is_reserved(topic: &str) -> bool {
    topic.starts_with(RESERVED)
}
