//! What somebody sees and presses.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use backstitch_testkit::browser::{Browser, Look};
use fantoccini::Locator;

use crate::support::within;

const LOOK_AGAIN: Duration = Duration::from_millis(50);

pub(crate) struct Screen {
    pub(crate) browser: Browser,
    address: SocketAddr,
}

impl Screen {
    pub(crate) async fn on(address: SocketAddr) -> Self {
        let browser = Browser::start().await;
        browser.look(Look::WIDE).await;
        Self { browser, address }
    }

    pub(crate) async fn open(&self, place: &str) {
        self.browser.client().goto(&format!("http://{}{place}", self.address)).await.unwrap();
    }

    pub(crate) async fn sign_in(&self, key: &str) {
        self.open("/login").await;
        self.fill("input[name=key]", key).await;
        self.press("main form button").await;
        self.shows("Overview").await;
    }

    /// Where the browser is.
    pub(crate) async fn place(&self) -> String {
        let url = self.browser.client().current_url().await.unwrap();
        url.query().map_or(url.path().to_owned(), |query| format!("{}?{query}", url.path()))
    }

    pub(crate) async fn text(&self) -> String {
        let body = within(self.browser.client().find(Locator::Css("body"))).await.unwrap();
        body.text().await.unwrap()
    }

    pub(crate) async fn source(&self) -> String {
        self.browser.client().source().await.unwrap()
    }

    /// Waits until the page says this, by itself.
    pub(crate) async fn shows(&self, words: &str) {
        let seen = tokio::time::timeout(Duration::from_secs(30), async {
            // A page that is being replaced has no text for a moment.
            loop {
                let body = self.browser.client().find(Locator::Css("body")).await;
                if let Ok(body) = body
                    && body.text().await.is_ok_and(|text| text.contains(words))
                {
                    return;
                }
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        });
        let is_shown = seen.await.is_ok();
        assert!(is_shown, "{words:?} is not shown at {}: {}", self.place().await, self.text().await);
    }

    pub(crate) async fn fill(&self, selector: &str, text: &str) {
        let field = self.browser.client().find(Locator::Css(selector)).await.unwrap();
        field.clear().await.unwrap();
        field.send_keys(text).await.unwrap();
    }

    /// Presses a button or a link, and says yes to whatever is asked then.
    pub(crate) async fn press(&self, selector: &str) {
        let found = self.browser.client().find(Locator::Css(selector)).await;
        let button = found.unwrap_or_else(|why| panic!("no {selector}: {why}"));
        button.click().await.unwrap();
        self.browser.client().accept_alert().await.ok();
    }

    /// Whether everything fits the width of the screen.
    pub(crate) async fn fits(&self) -> bool {
        let script = "return document.documentElement.scrollWidth <= window.innerWidth + 1";
        self.browser.client().execute(script, Vec::new()).await.unwrap() == true
    }

    /// The places that this page leads to, within the console.
    pub(crate) async fn leads_to(&self) -> Vec<String> {
        let script = "return [...document.querySelectorAll('a[href]')].map(a => a.getAttribute('href'))";
        let found = self.browser.client().execute(script, Vec::new()).await.unwrap();
        let places = found.as_array().unwrap().iter().filter_map(|place| place.as_str());
        let ours = places.filter(|place| place.starts_with('/') && !place.starts_with("/docs"));
        ours.map(str::to_owned).collect()
    }

    /// Keeps a picture, for whoever wants to see it and for the documentation.
    pub(crate) async fn keep_picture(&self, name: &str) {
        let picture = self.browser.picture().await;
        assert!(picture.starts_with(b"\x89PNG") && picture.len() > 2000, "{name}: {} bytes", picture.len());
        let folder = pictures();
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(format!("{name}.png")), picture).unwrap();
    }

    /// Nothing was complained about: no script that failed, nothing that the page's policy forbids.
    pub(crate) async fn has_no_complaints(&self) {
        let complaints = self.browser.complaints().await;
        let complaints: Vec<_> =
            complaints.iter().filter(|it| !it.contains("Failed to load resource")).collect();
        assert!(complaints.is_empty(), "{}: {complaints:#?}", self.place().await);
    }
}

/// Beside everything else that tests leave behind, unless somebody says where.
fn pictures() -> PathBuf {
    match std::env::var_os("BACKSTITCH_PICTURES") {
        Some(folder) => folder.into(),
        None => PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("console"),
    }
}
