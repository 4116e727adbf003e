//! Requests as structs: what is read, what is reported and what the schema says.

use backstitch::{Payload, Problems};
use backstitch_api::validate::{
    AttemptTimeout, Bounded, Input, Label, List, Omittable, Setting, read, read_partially,
};
use backstitch_api::{request, word_type};
use serde_json::{Value, json};
use utoipa::PartialSchema;

request! {
    /// A parcel to be sent.
    ///
    /// It is sent once.
    struct Parcel as "Parcel" example { "address": "a", "items": [{ "type": "book" }] } {
        /// Where it goes.
        address: Label,
        /// What is in it.
        items: List<Item, 1, 3>,
        /// How long it may take.
        timeout: Setting<AttemptTimeout>,
        /// Grams.
        weight: Omittable<Bounded<u32, 1, 1000>>,
        /// What is known about it.
        note: Option<String>,
    }
}

request! {
    /// One thing.
    struct Item as "Item" {
        /// Which kind of thing.
        r#type: Kind,
        ..more,
    }
}

word_type! {
    /// Kinds of things.
    #[derive(Copy)]
    enum Kind {
        Book = "book",
        Record = "record",
    }
}

fn parcel(changes: &Value) -> Result<Parcel, Problems> {
    let mut parcel = json!({ "address": "a", "items": [{ "type": "book" }] });
    for (name, value) in changes.as_object().unwrap() {
        parcel[name] = value.clone();
    }
    read(&parcel.to_string(), "body")
}

fn errors(result: Result<Parcel, Problems>) -> Vec<String> {
    let Problems(found) = result.unwrap_err();
    found.into_iter().map(|problem| format!("{}: {}", problem.place, problem.message)).collect()
}

#[test]
fn all_errors_of_a_request_are_reported_together() {
    let body = r#"{ "items": [{ "type": "bok" }, 7, {}], "weight": 0, "timeout": "2h", "note": 1, "nots": "x", "weight": 1 }"#;
    let expected = [
        "weight: `weight` is there twice: give it once",
        "nots: is not known: did you mean `note`?",
        "address: is missing",
        "items[0].type: `bok` is not one of book, record: did you mean `book`?",
        "items[1]: is a number: write an object with fields",
        "items[2].type: is missing",
        "timeout: is 2h: use 1ms to 1h",
        "weight: is 0: use 1 to 1000",
        "note: is a number: write text, in quotes if it looks like something else",
    ];
    assert_eq!(errors(read(body, "body")), expected);
}

#[test]
fn a_body_of_another_shape_is_an_error_of_the_whole() {
    for (body, kind) in [("[]", "a list"), ("null", "empty"), ("\"x\"", "text"), ("true", "true or false")] {
        assert_eq!(errors(read(body, "body")), [format!("body: is {kind}: write an object with fields")]);
    }
}

#[test]
fn null_leaves_out_resets_or_is_refused() {
    let Parcel { timeout, note, .. } = parcel(&json!({ "timeout": null, "note": null })).unwrap();
    assert_eq!((timeout, note), (Setting::Reset, None));
    let Parcel { timeout, weight, .. } = parcel(&json!({})).unwrap();
    assert_eq!((timeout, weight), (Setting::Unchanged, Omittable(None)));
    assert_eq!(
        errors(parcel(&json!({ "weight": null }))),
        ["weight: is empty: write a whole number, or leave the field out"]
    );
}

#[test]
fn fields_of_other_names_are_kept_verbatim_where_allowed() {
    let body = r#"{ "address": "a", "items": [{ "type": "book", "price": 1.10, "isbn": 9780306406157000000000000 }] }"#;
    let Parcel { items, .. } = read(body, "body").unwrap();
    let [Item { r#type: Kind::Book, more }] = &items.0[..] else { panic!("{items:?}") };
    let more: Vec<(&str, &str)> = more.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(more, [("isbn", "9780306406157000000000000"), ("price", "1.10")]);
}

#[test]
fn what_can_be_read_is_passed_on_with_the_errors_of_the_rest() {
    let partly = read_partially::<Parcel>(
        r#"{ "address": "a", "items": [{ "type": "book" }], "weight": -1 }"#,
        "body",
    );
    assert_eq!(partly.value.map(|parcel| parcel.address.0), Some("a".to_owned()));
    assert_eq!(partly.errors.0[0].message, "is -1: use 1 to 1000");
    assert!(read_partially::<Parcel>("{}", "body").value.is_none());
}

#[test]
fn the_schema_says_what_the_reader_checks() {
    let schema = serde_json::to_value(<Parcel as PartialSchema>::schema()).unwrap();
    assert_eq!(schema["description"], "A parcel to be sent.\n\nIt is sent once.");
    assert_eq!(
        (&schema["required"], &schema["additionalProperties"]),
        (&json!(["address", "items"]), &json!(false))
    );
    let fields = &schema["properties"];
    assert_eq!(
        fields["weight"],
        json!({ "type": "integer", "description": "Grams.", "minimum": 1, "maximum": 1000 })
    );
    assert_eq!((&fields["items"]["minItems"], &fields["items"]["maxItems"]), (&json!(1), &json!(3)));
    assert_eq!(fields["note"]["type"], json!(["string", "null"]));
    assert_eq!(fields["timeout"]["oneOf"][0], json!({ "type": "null" }));
    let mut components = Vec::new();
    Parcel::collect(&mut components);
    let names: Vec<&str> = components.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["Parcel", "Label", "Item", "Kind", "AttemptTimeout"]);
    let item = serde_json::to_value(<Item as PartialSchema>::schema()).unwrap();
    assert_eq!((&item["additionalProperties"], &item["required"]), (&Value::Null, &json!(["type"])));
}

#[test]
fn a_field_with_any_json_must_be_there() {
    request! {
        /// A message.
        struct Message as "Message" {
            /// Any JSON.
            payload: Payload,
        }
    }
    assert_eq!(read::<Message>(r#"{ "payload": null }"#, "body").unwrap().payload, Payload::null());
    assert!(read::<Message>("{}", "body").is_err());
}
