//! Conveniences of the script: copying, exact times, and announcing results once.

use serde_json::json;

use crate::console_in_browser::screen::Screen;
use crate::console_in_browser::stage::Stage;
use crate::support::within;

async fn run(screen: &Screen, script: &str) -> serde_json::Value {
    screen.browser.client().execute(script, Vec::new()).await.unwrap()
}

async fn press_key(screen: &Screen, key: &str) {
    screen.browser.client().active_element().await.unwrap().send_keys(key).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn id_is_copied_even_without_a_clipboard() {
    let stage = Stage::set().await;
    let screen = stage.signed_in("viewer").await;
    let saga = &stage.population.waiting[0];
    for without in [false, true] {
        screen.open(&format!("/sagas/{saga}")).await;
        if without {
            run(&screen, "Object.defineProperty(navigator, 'clipboard', { value: undefined })").await;
        }
        run(
            &screen,
            "window.took = null;
             document.addEventListener('copy', () => { window.took = document.activeElement.value; });
             if (navigator.clipboard) navigator.clipboard.writeText = async (text) => { window.took = text; };",
        )
        .await;
        screen.press("h1 .copy").await;
        screen.shows_in("h1 .copy", "copied").await;
        screen.shows_in(".aloud[role=status]", &format!("copied: {saga}")).await;
        assert_eq!(run(&screen, "return window.took").await, json!(saga), "without a clipboard: {without}");
    }
    screen.browser.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn button_pressed_twice_keeps_its_label() {
    let stage = Stage::set().await;
    let screen = stage.signed_in("viewer").await;
    screen.browser.allow_clipboard().await;
    screen.open(&format!("/sagas/{}", stage.population.waiting[0])).await;
    // A deferred function runs when it is called.
    run(&screen, "window.later = []; window.setTimeout = (what) => window.later.push(what);").await;
    let button = "return document.querySelector('h1 .copy').textContent";
    for _ in 0..2 {
        screen.press("h1 .copy").await;
        screen.shows_in("h1 .copy", "copied").await;
    }
    within(async { while run(&screen, "return window.later.length").await != 2 {} }).await;
    run(&screen, "window.later.forEach((what) => what())").await;
    assert_eq!(run(&screen, button).await, "copy");
    assert_eq!(run(&screen, "return document.querySelector('.aloud').textContent").await, "");
    screen.browser.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exact_times_are_reached_by_keyboard_and_by_touch() {
    let stage = Stage::set().await;
    let screen = stage.signed_in("viewer").await;
    screen.open("/sagas").await;
    let first = "return document.querySelector('#items time').textContent";
    let exact = run(&screen, "return document.querySelector('#items time').dateTime").await;
    assert_ne!(run(&screen, first).await, exact);
    run(&screen, "document.querySelector('footer a').focus()").await;
    press_key(&screen, "\u{e004}").await;
    press_key(&screen, "\u{e007}").await;
    assert_eq!(run(&screen, first).await, exact, "by keyboard");
    screen.press("#items time").await;
    assert_ne!(run(&screen, first).await, exact, "by touch, and back");
    // On a page about one thing they stand beside each other, without any script.
    screen.open(&format!("/sagas/{}", stage.population.waiting[0])).await;
    let beside = "return getComputedStyle(document.querySelector('#facts time'), '::after').content";
    let shown = run(&screen, beside).await;
    assert!(shown.as_str().unwrap().contains("20"), "{shown}");
    screen.browser.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn result_message_is_announced_once() {
    let stage = Stage::set().await;
    let screen = stage.signed_in("operator").await;
    let running = &stage.population.waiting[0];
    screen.open(&format!("/sagas/{running}")).await;
    screen.press(&format!("form[action='/sagas/{running}/pause'] button")).await;
    screen.shows("starts nothing new until it is resumed").await;
    assert_eq!(screen.place().await, format!("/sagas/{running}"));
    screen.browser.client().refresh().await.unwrap();
    screen.shows("running, paused").await;
    assert!(!screen.text().await.contains("starts nothing new until it is resumed"));
    screen.browser.close().await;
}
