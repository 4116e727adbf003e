//! Tells the benchmark which Cargo profile it is built with. Cargo's own `PROFILE` does not name custom profiles.

use std::env;
use std::path::Path;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // `…/target/PROFILE/build/…/out`
    let output = env::var_os("OUT_DIR").unwrap_or_default();
    let folders: Vec<_> = Path::new(&output).iter().collect();
    let build = folders.iter().rposition(|folder| *folder == "build");
    let profile = build.and_then(|build| folders.get(build.checked_sub(1)?));
    let profile = profile.map_or("unknown".into(), |profile| profile.to_string_lossy());
    println!("cargo::rustc-env=BACKSTITCH_BUILD_PROFILE={profile}");
}
