//! An order as it is confirmed.

use backstitch::{MAX_LABEL, Problems};
use backstitch_api::validate::schema::{Components, collect, of, text};
use backstitch_api::validate::{Input, Node};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::json;
use serde_json::value::RawValue;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, OneOfBuilder, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

use super::error::Mistakes;

/// The most items in an order.
pub const MAX_ITEMS: usize = 1000;

/// The longest amount as text.
const MAX_AMOUNT: usize = 64;
const NO_SUM: &str = "is no sum of money: give a number of 0 or more, such as 19.90";

/// What a customer confirms.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Order {
    /// The shop's own id; it may be confirmed more than once.
    pub order_id: String,
    /// Who confirms.
    pub customer_id: String,
    /// What is bought.
    pub items: Vec<Item>,
    /// What it costs.
    pub amount: Amount,
}

/// One line of an order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Item {
    /// What.
    pub sku: String,
    /// How many.
    pub quantity: u32,
}

/// A sum of money: a JSON number, or the same as text, which keeps every digit. A number that cannot be kept digit by digit
/// is refused: money is not rounded behind anybody's back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Amount {
    /// A number.
    Number(serde_json::Number),
    /// A number as text, such as `"19.90"`.
    Text(String),
}

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        // As it is written: once it has been read as a number, nobody can tell what it was.
        let written = Box::<RawValue>::deserialize(from)?;
        let written = written.get();
        if written.starts_with('"') {
            return serde_json::from_str(written).map(Self::Text).map_err(D::Error::custom);
        }
        if !written.starts_with(|first: char| first == '-' || first.is_ascii_digit()) {
            return Err(D::Error::custom("is neither a number nor text: give a number, such as 19.90"));
        }
        let number = serde_json::from_str::<serde_json::Number>(written).ok();
        number.filter(|number| is_same(&number.to_string(), written)).map(Self::Number).ok_or_else(|| {
            D::Error::custom(
                "has more digits than a number can keep: give it as text, in quotes, such as \"19.90\"",
            )
        })
    }
}

/// Whether two spellings of a number mean the same one.
fn is_same(one: &str, other: &str) -> bool {
    meaning(one).is_some_and(|one| meaning(other) == Some(one))
}

/// A number's sign, its digits without zeros around them, and how many places they stand before the end.
fn meaning(written: &str) -> Option<(bool, String, i64)> {
    let (mantissa, exponent) = match written.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i64>().ok()?),
        None => (written, 0),
    };
    let (negative, mantissa) = match mantissa.strip_prefix('-') {
        Some(mantissa) => (true, mantissa),
        None => (false, mantissa),
    };
    let (whole, part) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{part}");
    let kept = digits.trim_end_matches('0');
    let dropped = i64::try_from(digits.len() - kept.len()).ok()?;
    let kept = kept.trim_start_matches('0');
    if kept.is_empty() {
        return Some((negative, String::new(), 0));
    }
    let places = exponent.checked_sub(i64::try_from(part.len()).ok()?)?.checked_add(dropped)?;
    Some((negative, kept.to_owned(), places))
}

impl Amount {
    fn is_a_sum(&self) -> bool {
        match self {
            Self::Number(number) => number.as_f64().is_some_and(|sum| sum >= 0.0),
            Self::Text(text) => {
                let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
                let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
                digits(whole) && digits(part) && text.len() <= MAX_AMOUNT
            }
        }
    }
}

impl Input for Amount {
    fn read(node: &Node<'_>) -> Option<Self> {
        let amount: Self = node.decoded()?;
        if !amount.is_a_sum() {
            node.wrong(NO_SUM);
            return None;
        }
        Some(amount)
    }

    fn schema() -> RefOr<Schema> {
        of::<Self>().into()
    }

    fn collect(components: &mut Components) {
        collect::<Self>(components);
    }
}

impl PartialSchema for Amount {
    fn schema() -> RefOr<Schema> {
        let about = "A sum of money: a number of 0 or more, or the same as text. A number with more digits than a double keeps is \
                     refused; text keeps every digit.";
        let number = ObjectBuilder::new().schema_type(Type::Number).minimum(Some(0));
        let number = number.description(Some("A sum of money as a number.")).examples([json!(19.9)]);
        let text = text(r"^[0-9]+(\.[0-9]+)?$", 1, MAX_AMOUNT).examples(["19.90"]);
        let text = text.description(Some("A sum of money as text."));
        OneOfBuilder::new().item(number).item(text).description(Some(about)).into()
    }
}

impl ToSchema for Amount {}

impl std::fmt::Display for Amount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => f.write_str(text),
        }
    }
}

impl Order {
    /// Whether it can be worked off.
    ///
    /// # Errors
    /// Every mistake at once.
    pub fn check(&self) -> Result<(), Problems> {
        let mut mistakes = Mistakes::default();
        for (place, id) in [("order_id", &self.order_id), ("customer_id", &self.customer_id)] {
            name(&mut mistakes, place, id);
        }
        if self.items.is_empty() || self.items.len() > MAX_ITEMS {
            mistakes.add("items", format!("has {} entries: give 1 to {MAX_ITEMS}", self.items.len()));
        }
        for (position, item) in self.items.iter().enumerate() {
            name(&mut mistakes, &format!("items[{position}].sku"), &item.sku);
            if item.quantity == 0 {
                mistakes.add(
                    format!("items[{position}].quantity"),
                    "is 0: give 1 or more, or leave the item out",
                );
            }
        }
        if !self.amount.is_a_sum() {
            mistakes.add("amount", NO_SUM);
        }
        mistakes.or(())
    }
}

fn name(mistakes: &mut Mistakes, place: &str, text: &str) {
    if text.trim().is_empty() {
        mistakes.add(place, "is empty");
    } else if text.len() > MAX_LABEL {
        mistakes.add(place, format!("has {} bytes, the limit is {MAX_LABEL}", text.len()));
    } else if text.contains('\0') {
        mistakes.add(place, "contains a NUL character");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mistakes(order: serde_json::Value) -> Vec<String> {
        let order: Order = serde_json::from_value(order).unwrap();
        let Problems(found) = order.check().err().unwrap_or(Problems(Vec::new()));
        found.into_iter().map(|problem| problem.place).collect()
    }

    #[test]
    fn an_ordinary_order_is_accepted() {
        let item = json!({"sku": "book", "quantity": 2});
        for amount in [json!(0), json!(19.90), json!("19.90"), json!("7")] {
            let order = json!({"order_id": "o", "customer_id": "c", "items": [item], "amount": amount});
            assert!(mistakes(order).is_empty(), "{amount}");
        }
    }

    #[test]
    fn every_mistake_is_told_at_once() {
        let items = json!([{"sku": " ", "quantity": 1}, {"sku": "book", "quantity": 0}]);
        let order = json!({"order_id": "", "customer_id": "x".repeat(600), "items": items, "amount": -1});
        assert_eq!(
            mistakes(order),
            ["order_id", "customer_id", "items[0].sku", "items[1].quantity", "amount"]
        );
    }

    #[test]
    fn a_number_is_kept_as_it_is_or_refused() {
        for (written, kept) in [
            ("0", "0"),
            ("-0", "-0.0"),
            ("19.90", "19.9"),
            ("0.10", "0.1"),
            ("1e2", "100.0"),
            ("1E+2", "100.0"),
            ("120e-1", "12.0"),
            ("18446744073709551615", "18446744073709551615"),
            ("1e300", "1e+300"),
        ] {
            let read: Amount = serde_json::from_str(written).unwrap();
            assert_eq!(read.to_string(), kept, "{written}");
        }
        for lost in [
            "123456789012345678901234567890.12",
            "12345678901234567890.12",
            "18446744073709551617",
            "0.12345678901234567890123",
            "1e-400",
            "1e400",
            "1e99999999999999999999",
        ] {
            let told = serde_json::from_str::<Amount>(lost).unwrap_err().to_string();
            assert!(told.contains("as text"), "{lost}: {told}");
        }
        for other in ["true", "null", "[1]", "{}"] {
            let told = serde_json::from_str::<Amount>(other).unwrap_err().to_string();
            assert!(told.contains("neither a number nor text"), "{other}: {told}");
        }
    }

    #[test]
    fn what_is_no_sum_is_refused() {
        for amount in [json!("ten"), json!("1.2.3"), json!(""), json!("-1"), json!(".5"), json!("5.")] {
            let order = json!({
                "order_id": "o", "customer_id": "c", "items": [{"sku": "s", "quantity": 1}], "amount": amount
            });
            assert_eq!(mistakes(order), ["amount"], "{amount}");
        }
    }
}
