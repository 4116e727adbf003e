//! Documents that are broken, giant, endless or ambiguous.

use std::fmt::Write as _;

use backstitch_modules::declaration::{Declaration, Format};

use crate::declaration::support::{mistakes, mistakes_in_json, yaml};

#[test]
fn broken_yaml_is_told_by_line_and_column() {
    let told = mistakes("name: order\nsteps:\n  - id: [pay\n");
    assert_eq!(told.len(), 1);
    assert!(told[0].starts_with("line "), "{told:?}");
    assert!(told[0].contains("column ") && told[0].contains("is not YAML: "), "{told:?}");
    let told = mistakes("name: order\nsteps: @pay\n");
    assert!(told[0].starts_with("line 2, column "), "{told:?}");
    assert_eq!(told[0].matches("line ").count(), 1, "the place is told once: {told:?}");
}

#[test]
fn broken_json_is_told_by_line_and_column() {
    let told = mistakes_in_json("{\"name\": \"order\",\n \"steps\": [}");
    assert_eq!(told, ["line 2, column 12: is not JSON: expected value"]);
    assert!(mistakes_in_json("")[0].contains("EOF"), "{:?}", mistakes_in_json(""));
    assert!(mistakes_in_json("{} {}")[0].contains("trailing"), "one document only");
}

#[test]
fn a_field_that_is_there_twice_is_refused_in_both_formats() {
    let told = mistakes_in_json("{\"name\": \"a\",\n\"name\": \"b\", \"steps\": []}");
    assert!(told[0].starts_with("line 2, ") && told[0].contains("`name` is there twice"), "{told:?}");
    let told = mistakes("name: a\nname: b\nsteps: []\n");
    assert!(told[0].starts_with("line 2, ") && told[0].contains("name"), "{told:?}");
}

#[test]
fn a_document_that_is_no_definition_is_told_so() {
    for (text, complaint) in [
        ("", "the definition: is empty"),
        ("# nothing but a comment", "the definition: is empty"),
        ("just text", "the definition: is text: write an object with fields"),
        ("[1, 2]", "the definition: is a list"),
    ] {
        let told = mistakes(text);
        assert!(told.len() == 1 && told[0].starts_with(complaint), "{text}: {told:?}");
    }
    assert!(!mistakes("name: a\n---\nname: b\n").is_empty(), "two documents are not one");
}

#[test]
fn a_giant_document_is_not_even_parsed() {
    let giant = format!("name: {}", "a".repeat(2 << 20));
    assert_eq!(mistakes(&giant), ["the definition: is 2097158 bytes long; the limit is 1048576"]);
}

#[test]
fn bytes_that_are_no_text_are_told_by_line() {
    let problems = Declaration::read(b"name: a\ntitle: \xff\n", Format::Yaml).unwrap_err();
    assert_eq!(problems.0[0].place, "line 2");
}

#[test]
fn a_byte_order_mark_is_overlooked() {
    let text = "\u{feff}{\"name\": \"a\", \"steps\": [{\"id\": \"b\", \"action\": {\"worker\": {\"queue\": \"c\"}}}]}";
    for format in [Format::Json, Format::Yaml] {
        assert_eq!(Declaration::read(text.as_bytes(), format).unwrap().name, "a");
    }
}

#[test]
fn deep_nesting_is_refused() {
    let deep = format!("{{\"name\": \"a\", \"metadata\": {}{}}}", "[".repeat(100), "]".repeat(100));
    for format in [Format::Json, Format::Yaml] {
        let problems = Declaration::read(deep.as_bytes(), format).unwrap_err();
        assert_eq!(problems.0.len(), 1, "{problems}");
    }
    let bottomless = "[".repeat(500_000);
    for format in [Format::Json, Format::Yaml] {
        assert!(Declaration::read(bottomless.as_bytes(), format).is_err());
    }
}

#[test]
fn a_billion_laughs_are_refused_without_being_laughed() {
    let mut bomb = String::from(
        "name: a\nsteps: []\nmetadata:\n  l0: &l0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]\n",
    );
    for level in 1..12 {
        let inner = format!("*l{}", level - 1);
        writeln!(bomb, "  l{level}: &l{level} [{}]", [inner.as_str(); 9].join(", ")).unwrap();
    }
    let told = mistakes(&bomb);
    assert!(told.len() == 1 && told[0].contains("is not YAML"), "{told:?}");
    assert!(!mistakes("name: &a [*a]\n").is_empty(), "nor one that contains itself");
}

#[test]
fn a_long_list_that_is_repeated_often_is_refused() {
    let list = vec!["a"; 5_000].join(", ");
    let repeated = vec!["*l"; 90].join(", ");
    let told = mistakes(&format!("name: a\nsteps: []\nmetadata: [&l [{list}], {repeated}]\n"));
    assert!(told.len() == 1 && told[0].contains("is not YAML"), "{told:?}");
}

#[test]
fn tags_are_refused() {
    assert!(!mistakes("name: !ruby/object:Gem a\nsteps: []\n").is_empty());
}

#[test]
fn numbers_that_json_does_not_know_are_refused() {
    let text = |number: &str| {
        format!("{{name: a, metadata: {number}, steps: [{{id: b, action: {{worker: {{queue: c}}}}}}]}}")
    };
    for number in [".nan", ".inf", "1e999"] {
        assert_eq!(mistakes(&text(number)).len(), 1, "{number}");
    }
    assert_eq!(yaml(&text("18446744073709551615")).metadata.unwrap().as_str(), "18446744073709551615");
    assert_eq!(yaml(&text("-0.5")).metadata.unwrap().as_str(), "-0.5");
}
