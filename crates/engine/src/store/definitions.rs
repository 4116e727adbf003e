//! Versions of definitions: registered by code, or declared as data, staged and applied.

use async_trait::async_trait;

use super::Error;
use super::declared::{Declared, InFlight};
use super::nodes::Registered;
use super::sealed::Sealed;

/// Versions of definitions.
#[async_trait]
pub trait DefinitionStore: Sealed {
    /// Stores a version of a definition. If the version exists, it stays as it is and is returned.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn register(&self, definition: &Registered) -> Result<Registered, Error>;

    /// This version of a definition, or the highest one.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn definition(&self, name: &str, version: Option<u32>) -> Result<Option<Registered>, Error>;

    /// Stores a declared definition and stages it, in place of the version that was staged before. `false`: its version is not
    /// the next one, or a program's code has registered the name.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn stage(&self, definition: &Registered) -> Result<bool, Error>;

    /// Stores a declared definition and makes it the active version, both or neither; no version is staged afterwards.
    /// `false` as for [`Self::stage`].
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn activate(&self, definition: &Registered) -> Result<bool, Error>;

    /// Makes the staged version the active one; `None` if no version is staged, or not the expected one.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn apply_staged(&self, name: &str, expected: Option<u32>) -> Result<Option<u32>, Error>;

    /// Discards the staged version; `None` if no version is staged, or not the expected one.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn discard_staged(&self, name: &str, expected: Option<u32>) -> Result<Option<u32>, Error>;

    /// The declared definition of this name, or all of them, by name.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn declared(&self, name: Option<&str>) -> Result<Vec<Declared>, Error>;

    /// The declared definition of this name, durable also on a synchronous standby. For a request that may be repeated.
    ///
    /// # Errors
    /// When the store cannot be read or cannot be written.
    async fn durably_declared(&self, name: &str) -> Result<Option<Declared>, Error>;

    /// Active sagas of this definition, by version, counted up to [a limit](super::COUNTED).
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn in_flight(&self, definition: &str) -> Result<Vec<InFlight>, Error>;
}
