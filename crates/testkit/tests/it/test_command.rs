//! The selection of tests by the arguments of `./test`.

use std::process::Command;

use crate::repository::root;

/// The arguments for nextest.
fn selected(arguments: &[&str]) -> Vec<String> {
    let script = "set -euo pipefail; source scripts/selection.sh; select_tests \"$@\"; printf '%s\\n' \"${selection[@]}\"";
    let output = Command::new("bash")
        .args(["-c", script, "bash"])
        .args(arguments)
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn package_and_filter_select_the_tests_that_meet_both() {
    assert_eq!(selected(&["-p", "a", "-E", "test(/x/)"]), ["-E", "(package(a)) & ((test(/x/)))"]);
    let several = ["-pa", "--package=b", "-E", "x", "--filterset=y", "--no-capture"];
    assert_eq!(selected(&several), ["--no-capture", "-E", "(package(a) + package(b)) & ((x) + (y))"]);
}

#[test]
fn package_alone_is_a_filter_and_the_rest_is_passed_on() {
    assert_eq!(selected(&["-p", "a", "fuzz::"]), ["fuzz::", "-E", "package(a)"]);
    assert_eq!(selected(&["-E", "x", "--", "--exact", "-p"]), ["-E", "(x)", "--", "--exact", "-p"]);
}
