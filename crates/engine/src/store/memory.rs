//! A store that lives and dies with the process.
