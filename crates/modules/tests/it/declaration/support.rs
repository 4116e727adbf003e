//! Shorthand for the tests.

use backstitch::{Draft, Problems};
use backstitch_modules::declaration::{Declaration, Format};

pub(crate) fn yaml(text: &str) -> Draft {
    Declaration::read(text.as_bytes(), Format::Yaml).unwrap_or_else(|problems| panic!("{problems}"))
}

/// The mistakes, each as `place: message`.
pub(crate) fn mistakes(text: &str) -> Vec<String> {
    told(Declaration::read(text.as_bytes(), Format::Yaml).unwrap_err())
}

pub(crate) fn mistakes_in_json(text: &str) -> Vec<String> {
    told(Declaration::read(text.as_bytes(), Format::Json).unwrap_err())
}

fn told(Problems(found): Problems) -> Vec<String> {
    found.into_iter().map(|problem| format!("{}: {}", problem.place, problem.message)).collect()
}

/// A definition whose first step has this in it.
pub(crate) fn with_step(fields: &str) -> String {
    format!("{{name: order, steps: [{{id: pay, action: {{http: {{url: 'http://pay/'}}}}, {fields}}}]}}")
}

/// A definition whose first step has these fields, and its mistakes with the step's place left out.
pub(crate) fn mistakes_in_step(fields: &str) -> Vec<String> {
    let text = with_step(fields);
    mistakes(&text).into_iter().map(|told| told.replacen("steps[0].", "", 1)).collect()
}
