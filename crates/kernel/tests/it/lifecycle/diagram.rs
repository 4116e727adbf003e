//! The diagram of a machine.

use crate::lifecycle::support::{driven, machine, site};

#[test]
fn the_picture_of_the_seed_has_its_edges() {
    let drawn = machine().diagram();
    let expected = "\
stateDiagram-v2
    [*] --> requested
    requested --> source_resolving
    requested --> failed : fail
    source_resolving --> source_resolved
    source_resolving --> awaiting_github
    source_resolving --> failed : fail
    source_resolved --> vercel_creating
    vercel_creating --> vercel_created
    vercel_creating --> failed : fail
    vercel_created --> hook_creating
    hook_creating --> hook_created
    hook_creating --> failed : fail
    hook_created --> live
    awaiting_github --> source_resolving : start
    live --> [*]
    failed --> [*]
";
    assert_eq!(drawn, expected);
}

#[test]
fn diagram_shows_results_and_executors() {
    let drawn = driven().diagram();
    assert!(drawn.contains("source_resolving --> awaiting_github : no_github_token\n"), "{drawn}");
    assert!(drawn.contains("source_resolving --> source_resolved\n"), "what leads elsewhere is not: {drawn}");
    assert!(drawn.contains("note right of hook_creating : worker of hooks\n"), "{drawn}");
    assert!(drawn.contains("note right of vercel_creating : call\n"), "{drawn}");
}

#[test]
fn a_name_that_the_picture_cannot_hold_gets_another() {
    let mut draft = site();
    for name in draft.states.iter_mut().chain(draft.edges.iter_mut().flat_map(|(from, to)| [from, to])) {
        *name = name.replace("source_resolved", "source-resolved");
    }
    let drawn = draft.check().unwrap().diagram();
    assert!(drawn.contains("state \"source-resolved\" as source_2d_resolved\n"), "{drawn}");
    assert!(drawn.contains("source_resolving --> source_2d_resolved\n"), "{drawn}");
}
