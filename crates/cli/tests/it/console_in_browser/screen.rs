//! A user's view of a page, and input.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use backstitch_testkit::browser::{Browser, Look};
use fantoccini::Locator;
use fantoccini::elements::Element;
use fantoccini::error::CmdError;
use fantoccini::wd::TimeoutConfiguration;
use serde_json::{Value, json};

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
        retry_while_page_changes("body", async || self.find("body").await?.text().await).await
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
                    Err(error) => {
                        assert!(error.is_script_timeout() || is_page_change(&error), "{selector}: {error}");
                    }
                }
            }
        };
        tokio::time::timeout(PATIENCE, asked).await.is_ok()
    }

    /// Waits for an element. It can be gone again when it is used.
    async fn find(&self, selector: &str) -> Result<Element, CmdError> {
        let is_there = self.comes_to(selector, "").await;
        assert!(is_there, "{selector} does not appear at {}", self.place().await);
        self.browser.client().find(Locator::Css(selector)).await
    }

    pub(crate) async fn fill(&self, selector: &str, text: &str) {
        retry_while_page_changes(selector, async || {
            let field = self.find(selector).await?;
            field.clear().await?;
            field.send_keys(text).await
        })
        .await;
    }

    /// Chooses from a list.
    pub(crate) async fn choose(&self, selector: &str, label: &str) {
        retry_while_page_changes(selector, async || self.find(selector).await?.select_by_label(label).await)
            .await;
    }

    /// Clicks a button or a link, and confirms the dialog that it may open.
    pub(crate) async fn press(&self, selector: &str) {
        retry_while_page_changes(selector, async || match self.find(selector).await?.click().await {
            // The click was sent: its own navigation replaced the page before the driver could answer.
            Err(error) if is_navigation(&error) => Ok(()),
            clicked => clicked,
        })
        .await;
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

    /// Keeps a screenshot for inspection and for the documentation.
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

/// Repeats an action until no change of the page interrupts it: live pages replace elements, and forms replace pages.
async fn retry_while_page_changes<T>(selector: &str, act: impl AsyncFn() -> Result<T, CmdError>) -> T {
    let acting = async {
        loop {
            match act().await {
                Ok(done) => return done,
                Err(error) => assert!(is_page_change(&error), "{selector} cannot be used: {error}"),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, acting).await.unwrap_or_else(|_| panic!("{selector} is never usable"))
}

/// Whether the action failed because the page was changing.
fn is_page_change(error: &CmdError) -> bool {
    is_element_change(error) || is_navigation(error)
}

/// Whether the element was replaced, or is not ready yet.
fn is_element_change(error: &CmdError) -> bool {
    let text = error.to_string();
    let reasons = ["click intercepted", "No node with given id", "does not belong to the document"];
    error.is_stale_element_reference()
        || error.is_no_such_element()
        || error.is_element_not_interactable()
        || reasons.iter().any(|reason| text.contains(reason))
}

/// Whether a navigation replaced the page before the driver could answer.
fn is_navigation(error: &CmdError) -> bool {
    let text = error.to_string().to_lowercase();
    let reasons = ["unloaded", "navigation", "navigated", "context", "detached"];
    !is_element_change(error) && reasons.iter().any(|reason| text.contains(reason))
}

/// Beside the other files of the tests, unless a variable names a directory.
fn pictures() -> PathBuf {
    match std::env::var_os("BACKSTITCH_PICTURES") {
        Some(folder) => folder.into(),
        None => PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("console"),
    }
}
