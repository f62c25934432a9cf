//! What the build left: the module, and what tests load or start beside it.

use std::env;
use std::path::PathBuf;

/// The module to test: `ORDERWHEEL_MODULE`, else what the build left in the
/// target directory this test lies in.
pub(crate) fn module_path() -> PathBuf {
    library("ORDERWHEEL_MODULE", "liborderwheel.so")
}

/// A built library: named by the environment, else found in the target
/// directory of this test's own executable, release first.
#[track_caller]
pub(crate) fn library(variable: &str, file: &str) -> PathBuf {
    if let Some(path) = env::var_os(variable) {
        let path = PathBuf::from(path);
        assert!(
            path.is_file(),
            "{variable} names {}, which is not there",
            path.display()
        );
        return path;
    }
    let this = env::current_exe().expect("a process knows its executable");
    // target/<profile>/deps/<this>
    let profile = this
        .ancestors()
        .nth(2)
        .expect("a test executable lies in target/<profile>/deps");
    let target = profile
        .parent()
        .expect("a profile lies in a target directory");
    let places = [
        target.join("release"),
        profile.to_path_buf(),
        target.join("release/examples"),
        profile.join("examples"),
    ];
    match places
        .iter()
        .map(|place| place.join(file))
        .find(|path| path.is_file())
    {
        Some(path) => path,
        None => panic!(
            "{file} is in none of {places:?}: run scripts/test.sh, or cargo build --release first, or set {variable}"
        ),
    }
}
