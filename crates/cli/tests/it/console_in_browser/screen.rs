//! What somebody sees and presses.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use backstitch_testkit::browser::{Browser, Look};
use fantoccini::Locator;
use fantoccini::elements::Element;
use fantoccini::error::CmdError;
use fantoccini::wd::TimeoutConfiguration;
use serde_json::{Value, json};

use crate::support::within;

/// Waits in the page itself, which knows best when it has changed.
const UNTIL: &str = include_str!("until.js");
/// Far more than anything takes: what is not shown by then never is.
const PATIENCE: Duration = backstitch_testkit::PATIENCE;
/// So long a page is asked. One that goes away at the wrong moment never answers, and the next has to be asked.
const ONE_PAGE: Duration = Duration::from_secs(3);

pub(crate) struct Screen {
    pub(crate) browser: Browser,
    address: SocketAddr,
}

impl Screen {
    pub(crate) async fn on(address: SocketAddr) -> Self {
        Self::of(Browser::start().await, address).await
    }

    pub(crate) async fn of(browser: Browser, address: SocketAddr) -> Self {
        browser.look(Look::WIDE).await;
        let patient = TimeoutConfiguration::new(Some(ONE_PAGE), Some(PATIENCE), None);
        browser.client().update_timeouts(patient).await.unwrap();
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
        self.shows_in("body", words).await;
    }

    /// Waits until a part of the page says this.
    pub(crate) async fn shows_in(&self, selector: &str, words: &str) {
        let is_shown = self.comes_to(selector, words).await;
        assert!(
            is_shown,
            "{selector} with {words:?} is not shown at {}: {}",
            self.place().await,
            self.text().await
        );
    }

    async fn comes_to(&self, selector: &str, words: &str) -> bool {
        let asked = async {
            loop {
                let wanted = vec![json!(selector), json!(words)];
                match self.browser.client().execute_async(UNTIL, wanted).await {
                    Ok(_) => return,
                    // The page was replaced, and took the question with it: the next one is asked.
                    Err(error) => assert!(error.is_script_timeout() || is_of_another_page(&error), "{error}"),
                }
            }
        };
        tokio::time::timeout(PATIENCE, asked).await.is_ok()
    }

    /// Something on the page, once it is there.
    async fn find(&self, selector: &str) -> Element {
        self.shows_in(selector, "").await;
        let found = self.browser.client().find(Locator::Css(selector)).await;
        found.unwrap_or_else(|why| panic!("no {selector}: {why}"))
    }

    pub(crate) async fn fill(&self, selector: &str, text: &str) {
        once_possible(selector, async || {
            let field = self.find(selector).await;
            field.clear().await?;
            field.send_keys(text).await
        })
        .await;
    }

    /// Chooses from a list.
    pub(crate) async fn choose(&self, selector: &str, label: &str) {
        self.find(selector).await.select_by_label(label).await.unwrap();
    }

    /// Presses a button or a link, and says yes to whatever is asked then.
    pub(crate) async fn press(&self, selector: &str) {
        once_possible(selector, async || self.find(selector).await.click().await).await;
        self.browser.client().accept_alert().await.ok();
    }

    /// What a script says of the page.
    pub(crate) async fn says(&self, script: &str) -> Value {
        self.browser.client().execute(script, Vec::new()).await.unwrap()
    }

    /// Whether everything fits the width of the screen.
    pub(crate) async fn fits(&self) -> bool {
        let script = "return document.documentElement.scrollWidth <= window.innerWidth + 1";
        self.says(script).await == true
    }

    /// The places that this page leads to, within the console.
    pub(crate) async fn leads_to(&self) -> Vec<String> {
        let script = "return [...document.querySelectorAll('a[href]')].map(a => a.getAttribute('href'))";
        let found = self.says(script).await;
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

/// Whether what was asked went away with the page that it was asked of.
/// Repeats an action that a live page can get in the way of: it replaces elements, also between finding and using one.
async fn once_possible(selector: &str, act: impl AsyncFn() -> Result<(), CmdError>) {
    let acting = async {
        while let Err(error) = act().await {
            let text = error.to_string();
            let is_passing = error.is_stale_element_reference()
                || ["not interactable", "click intercepted"].iter().any(|why| text.contains(why));
            assert!(is_passing, "{selector} cannot be used: {error}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, acting).await.unwrap_or_else(|_| panic!("{selector} is never usable"));
}

fn is_of_another_page(error: &CmdError) -> bool {
    let text = error.to_string();
    let is_gone = ["unloaded", "navigation", "context"].iter().any(|word| text.contains(word));
    error.is_stale_element_reference() || is_gone
}

/// Beside everything else that tests leave behind, unless somebody says where.
fn pictures() -> PathBuf {
    match std::env::var_os("BACKSTITCH_PICTURES") {
        Some(folder) => folder.into(),
        None => PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("console"),
    }
}
