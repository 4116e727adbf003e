//! Where keys, secrets and nonces get their chance from.

/// Gives bytes that nobody can foretell.
pub trait Randomness: Send + Sync + 'static {
    /// Fills all of it.
    ///
    /// # Errors
    /// When there is no randomness to be had.
    fn fill(&self, bytes: &mut [u8]) -> Result<(), NoRandomness>;
}

/// There is no randomness to be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the machine gives no randomness: {0}")]
pub struct NoRandomness(pub String);

/// The machine's randomness.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemRandomness;

impl Randomness for SystemRandomness {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), NoRandomness> {
        getrandom::fill(bytes).map_err(|why| NoRandomness(why.to_string()))
    }
}
