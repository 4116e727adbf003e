//! A behaviour requested by an order: `demo:KIND[-undo]:SERVICE[:TIME][:TIMESx]` as an item.

use std::time::Duration;

use backstitch::Phase;
use backstitch_modules::orders::Service;
use serde_json::Value;

use super::behaviour::Behaviour;

const PREFIX: &str = "demo:";
const FORM: &str =
    "write it like demo:refuse:inventory, demo:fail-undo:payment:3x or demo:delay:logistics:500ms";

/// A service's behaviour for one order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wish {
    service: Service,
    phase: Phase,
    behaviour: Behaviour,
}

/// The behaviour that a saga's input requests of this service, if any.
///
/// # Errors
/// When the item is malformed: a typo must not look like a working service.
pub(super) fn of(input: &Value, service: Service, phase: Phase) -> Result<Option<Behaviour>, String> {
    let items = input.get("items").and_then(Value::as_array).into_iter().flatten();
    let skus = items.filter_map(|item| item.get("sku").and_then(Value::as_str));
    let mut found = None;
    for sku in skus.filter(|sku| sku.starts_with(PREFIX)) {
        let wish = read(sku)?;
        if wish.service == service && wish.phase == phase && found.is_none() {
            found = Some(wish.behaviour);
        }
    }
    Ok(found)
}

fn read(sku: &str) -> Result<Wish, String> {
    let mistaken = |what: &str| format!("`{sku}`: {what}; {FORM}");
    let mut words = sku.trim_start_matches(PREFIX).split(':');
    let kind = words.next().unwrap_or_default();
    let (kind, phase) = kind.strip_suffix("-undo").map_or((kind, Phase::Do), |kind| (kind, Phase::Undo));
    let service =
        words.next().and_then(Service::named).ok_or_else(|| mistaken("there is no such service"))?;
    let (mut time, mut times) = (None, None);
    for word in words {
        if let Some(number) = word.strip_suffix('x').and_then(|number| number.parse().ok()) {
            times = Some(number);
        } else if let Ok(duration) = backstitch::kernel::parse_duration(word) {
            time = Some(duration);
        } else {
            return Err(mistaken("the end is neither a time nor a number of times"));
        }
    }
    let behaviour =
        named(kind, time).ok_or_else(|| mistaken("there is no such kind, or a delay has no time"))?;
    let behaviour = match times {
        Some(times) => Behaviour::First(times, Box::new(behaviour)),
        None => behaviour,
    };
    Ok(Wish { service, phase, behaviour })
}

fn named(kind: &str, time: Option<Duration>) -> Option<Behaviour> {
    Some(match kind {
        "succeed" => Behaviour::Succeed,
        "refuse" => Behaviour::Refuse,
        "fail" => Behaviour::Fail,
        "busy" => Behaviour::Busy,
        "hang" => Behaviour::Hang,
        "delay" => Behaviour::Delay(time?),
        "garbage" => Behaviour::Garbage,
        "giant" => Behaviour::Giant,
        "redirect" => Behaviour::Redirect,
        "drop" => Behaviour::Drop,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn wish(sku: &str, service: Service, phase: Phase) -> Option<Behaviour> {
        of(&json!({"items": [{"sku": "book"}, {"sku": sku}]}), service, phase).unwrap()
    }

    #[test]
    fn a_wish_is_for_one_service_and_one_phase() {
        let sku = "demo:fail-undo:payment";
        assert_eq!(wish(sku, Service::Payment, Phase::Undo), Some(Behaviour::Fail));
        assert_eq!(wish(sku, Service::Payment, Phase::Do), None);
        assert_eq!(wish(sku, Service::Inventory, Phase::Undo), None);
        assert_eq!(of(&json!({"anything": "else"}), Service::Payment, Phase::Do), Ok(None));
    }

    #[test]
    fn a_wish_may_have_a_time_and_a_number_of_times() {
        let delayed = Behaviour::Delay(Duration::from_millis(500));
        assert_eq!(wish("demo:delay:payment:500ms", Service::Payment, Phase::Do), Some(delayed.clone()));
        let twice = Behaviour::First(2, Box::new(delayed));
        assert_eq!(wish("demo:delay:payment:500ms:2x", Service::Payment, Phase::Do), Some(twice));
        let busy = Behaviour::First(3, Box::new(Behaviour::Busy));
        assert_eq!(wish("demo:busy:logistics:3x", Service::Logistics, Phase::Do), Some(busy));
    }

    #[test]
    fn unreadable_wish_is_an_error() {
        for sku in [
            "demo:",
            "demo:refuse",
            "demo:refuse:bank",
            "demo:explode:payment",
            "demo:delay:payment",
            "demo:fail:payment:often",
        ] {
            let told = of(&json!({"items": [{"sku": sku}]}), Service::Payment, Phase::Do).unwrap_err();
            assert!(told.contains(sku) && told.contains(FORM), "{told}");
        }
    }
}
