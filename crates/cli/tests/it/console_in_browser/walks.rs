//! Every page, seen by every role.

use std::collections::{BTreeSet, VecDeque};

use backstitch_testkit::browser::Look;
use backstitch_testkit::scale;
use serde_json::json;

use crate::console_in_browser::screen::Screen;
use crate::console_in_browser::stage::Stage;

/// Pages of the same kind that are visited.
fn of_a_kind() -> usize {
    if scale::is_soak() { 2 } else { 1 }
}

/// Every page and form there is.
const ROUTES: &str = include_str!("../console/routes.txt");
/// What is no page of its own: what pages are made with, and streams.
const NO_PAGES: [&str; 4] = ["/assets/console.css", "/assets/console.js", "/live", "/sagas/{id}/live"];
/// Pages that nothing leads to but a form: who comes there is the matter of other tests.
const BEHIND_FORMS: [&str; 2] = ["/login", "/outcomes/{id}"];

pub(crate) fn routes(method: &str) -> impl Iterator<Item = &'static str> {
    let lines = ROUTES.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let own = lines.filter(move |line| line[0] == method);
    own.map(|line| line[2]).filter(|route| !NO_PAGES.contains(route))
}

/// The page or form that an address is of: a word in a route goes before whatever can stand there.
pub(crate) fn route(method: &str, place: &str) -> &'static str {
    let path: Vec<&str> = place.split('?').next().unwrap_or(place).split('/').collect();
    let fits = |route: &&str| {
        let parts: Vec<&str> = route.split('/').collect();
        parts.len() == path.len()
            && parts.iter().zip(&path).all(|(part, it)| part.starts_with('{') || part == it)
    };
    let found = routes(method).filter(fits).min_by_key(|route| route.matches('{').count());
    found.unwrap_or_else(|| panic!("{method} {place} is no route"))
}

/// What kind of page this is: its route, and whether it is narrowed down.
fn kind(place: &str) -> (&'static str, bool) {
    (route("GET", place), place.contains('?'))
}

/// Page limit of the shortened walks in `./test`. The first walk visits all pages.
fn most_pages() -> usize {
    if scale::is_soak() { usize::MAX } else { 8 }
}

/// The pages that can be reached from these, a few of each kind, up to so many.
async fn walk(screen: &Screen, from: &[String], most: usize) -> BTreeSet<String> {
    let mut seen: BTreeSet<String> = BTreeSet::new();
    let mut next = VecDeque::from(from.to_vec());
    while let Some(place) = next.pop_front() {
        if seen.len() >= most {
            break;
        }
        let of_its_kind = seen.iter().filter(|known| kind(known) == kind(&place)).count();
        if seen.contains(&place) || of_its_kind >= of_a_kind() {
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

/// Where a walk begins: the first page, a search result, and values that are too long for their page.
async fn beginnings(stage: &Stage) -> Vec<String> {
    let long = json!({ "text": "x".repeat(3000) });
    let saga = stage.admin.start(&json!({ "definition": "parcel", "input": long })).await;
    stage.post("/v1/lifecycles/letter/long/start", &json!({ "input": long })).await;
    let others = ["/", "/find?id=c", "/lifecycles/letter/long"].map(str::to_owned);
    others.into_iter().chain([format!("/sagas/{saga}")]).collect()
}

/// The routes that a walk has been to.
fn walked(places: &BTreeSet<String>) -> BTreeSet<&'static str> {
    places.iter().map(|place| route("GET", place)).collect()
}

fn all_pages() -> BTreeSet<&'static str> {
    routes("GET").filter(|route| !BEHIND_FORMS.contains(route)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_page_fits_wide_narrow_light_and_dark() {
    let stage = Stage::set().await;
    let screen = stage.signed_in("admin").await;
    let places = walk(&screen, &beginnings(&stage).await, usize::MAX).await;
    assert_eq!(walked(&places), all_pages(), "all of them can be reached");
    let mut pictured = BTreeSet::new();
    for place in &places {
        if !pictured.insert(kind(place)) {
            continue;
        }
        let looks = [
            (Look::WIDE, "wide"),
            (Look::NARROW.dark(), "narrow-dark"),
            (Look::WIDE.dark(), "wide-dark"),
            (Look::NARROW, "narrow"),
        ];
        for (look, name) in looks.into_iter().take(if scale::is_soak() { 4 } else { 2 }) {
            screen.browser.look(look).await;
            screen.open(place).await;
            assert!(screen.fits().await, "{place} is too wide for {look:?}");
            screen.keep_picture(&format!("{}-{name}", words(place))).await;
        }
    }
    let pictured: BTreeSet<&str> = pictured.into_iter().map(|(route, _)| route).collect();
    assert_eq!(pictured, all_pages());
    screen.browser.close().await;
}

/// What a picture of this place is called.
fn words(place: &str) -> String {
    let (route, is_narrowed) = kind(place);
    let parts = route.split('/').filter(|part| !part.is_empty());
    let mut words: Vec<&str> = parts.map(|part| if part.starts_with('{') { "one" } else { part }).collect();
    if words.is_empty() {
        words.push("overview");
    }
    words.extend(is_narrowed.then_some("narrowed"));
    words.join("-")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_page_can_be_read_without_a_script() {
    let stage = Stage::set().await;
    let screen = stage.signed_in("admin").await;
    screen.browser.run_scripts(false).await;
    let places = walk(&screen, &beginnings(&stage).await, most_pages()).await;
    let expected = all_pages().len().min(most_pages());
    assert!(walked(&places).len() >= expected, "{places:?}");
    screen.browser.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_console_can_be_used_by_keyboard() {
    let stage = Stage::set().await;
    let screen = stage.signed_in("operator").await;
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
    // And something is done that way: a field is reached, filled in, and sent.
    let running = &stage.population.waiting[0];
    screen.open(&format!("/sagas/{running}")).await;
    let is_there = "return document.activeElement.matches(\"form[action$='/pause'] input[name=note]\")";
    for _ in 0..80 {
        if screen.says(is_there).await == true {
            break;
        }
        tab().await;
    }
    assert_eq!(screen.says(is_there).await, true, "the field is reached");
    let press = async |keys: &str| {
        screen.browser.client().active_element().await.unwrap().send_keys(keys).await.unwrap();
    };
    press("without a mouse").await;
    tab().await;
    assert_eq!(focused().await, "Pause");
    press("\u{e007}").await;
    screen.shows("starts nothing new until it is resumed").await;
    screen.shows("a test: without a mouse").await;
    screen.browser.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_viewer_sees_no_button_that_it_may_not_press() {
    let stage = Stage::set().await;
    let screen = stage.signed_in("viewer").await;
    for place in walk(&screen, &beginnings(&stage).await, most_pages()).await {
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
