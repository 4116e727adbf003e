//! Every page, looked at by everybody.

use std::collections::BTreeSet;

use backstitch_testkit::browser::Look;

use crate::screen::Screen;
use crate::stage::Stage;

/// Pages of the same kind that are looked at.
const OF_A_KIND: usize = 2;

/// What kind of page this is: its address without names, numbers and filters, which stand behind what they belong to.
fn kind(place: &str) -> String {
    let path = place.split('?').next().unwrap_or(place);
    let parts = path.split('/').enumerate().map(|(nth, part)| {
        let is_a_word =
            nth < 2 || ["bulk", "subscriptions", "deliveries", "dead-letters", "requeue"].contains(&part);
        if is_a_word { part } else { "…" }
    });
    let filtered = if place.contains('?') { "?" } else { "" };
    parts.collect::<Vec<_>>().join("/") + filtered
}

/// All pages that can be reached from the first one, a few of each kind.
async fn walk(screen: &Screen) -> BTreeSet<String> {
    let mut seen: BTreeSet<String> = BTreeSet::new();
    let mut next = vec!["/".to_owned()];
    while let Some(place) = next.pop() {
        let of_its_kind = seen.iter().filter(|known| kind(known) == kind(&place)).count();
        if seen.contains(&place) || of_its_kind >= OF_A_KIND {
            continue;
        }
        screen.open(&place).await;
        let text = screen.text().await;
        assert!(text.contains("Backstitch") && !text.contains("There is nothing here"), "{place}: {text}");
        screen.has_no_complaints().await;
        next.extend(screen.leads_to().await);
        seen.insert(place);
    }
    seen
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_page_can_be_reached_and_fits_by_day_and_by_night_at_a_desk_and_on_a_phone() {
    let stage = Stage::set().await;
    let screen = stage.signed_in("admin").await;
    let places = walk(&screen).await;
    for section in
        ["/", "/sagas", "/definitions", "/webhooks", "/outbox", "/lifecycles", "/alerts", "/doctor", "/audit"]
    {
        assert!(places.contains(section), "{section} is not among {places:?}");
    }
    let kinds: BTreeSet<String> = places.iter().map(|place| kind(place)).collect();
    let mut pictured = BTreeSet::new();
    for place in &places {
        if !pictured.insert(kind(place)) {
            continue;
        }
        for (look, name) in [
            (Look::WIDE, "wide"),
            (Look::WIDE.dark(), "wide-dark"),
            (Look::NARROW, "narrow"),
            (Look::NARROW.dark(), "narrow-dark"),
        ] {
            screen.browser.look(look).await;
            screen.open(place).await;
            assert!(screen.fits().await, "{place} is too wide for {look:?}");
            let words = kind(place).replace(['/', '?'], "-").replace('…', "one");
            let words = if place == "/" { "overview" } else { words.trim_matches('-') };
            screen.keep_picture(&format!("{words}-{name}")).await;
        }
    }
    assert_eq!(pictured, kinds);
    screen.browser.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_page_can_be_read_and_every_form_sent_without_a_script() {
    let stage = Stage::set().await;
    let screen = stage.signed_in("operator").await;
    screen.browser.run_scripts(false).await;
    let stuck = &stage.population.ended[1];
    screen.open(&format!("/sagas/{stuck}")).await;
    screen.shows("The rollback is stuck at").await;
    screen.fill("textarea[name=note]", "by hand, without a script").await;
    screen.press("button[value=done]").await;
    screen.shows("The rollback goes on.").await;
    let log = stage.admin.get(&format!("/v1/sagas/{stuck}/log")).await.json();
    assert!(log.to_string().contains("a test: by hand, without a script"), "{log}");
    screen.browser.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_console_can_be_used_by_keyboard() {
    let stage = Stage::set().await;
    let screen = stage.signed_in("viewer").await;
    screen.open("/").await;
    let focused = async || {
        let script = "return document.activeElement.textContent.trim() || document.activeElement.getAttribute('aria-label')";
        let said = screen.says(script).await;
        said.as_str().unwrap_or_default().to_owned()
    };
    let tab = async || {
        let body = screen.browser.client().active_element().await.unwrap();
        body.send_keys("\u{e004}").await.unwrap();
    };
    tab().await;
    assert_eq!(focused().await, "Skip to the content");
    let mut met = Vec::new();
    for _ in 0..12 {
        tab().await;
        met.push(focused().await);
    }
    for word in ["Backstitch", "Overview", "Sagas", "Webhooks", "Outbox"] {
        assert!(met.iter().any(|it| it == word), "{word} is not among {met:?}");
    }
    screen.browser.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_viewer_sees_no_button_that_it_may_not_press() {
    let stage = Stage::set().await;
    let screen = stage.signed_in("viewer").await;
    for place in walk(&screen).await {
        screen.open(&place).await;
        let script =
            "return [...document.querySelectorAll('form[method=post]')].map(f => f.getAttribute('action'))";
        let forms = screen.says(script).await;
        assert_eq!(forms, serde_json::json!(["/logout"]), "{place}");
    }
    screen.open("/audit").await;
    screen.shows("The API key does not suffice").await;
    screen.browser.close().await;
}
