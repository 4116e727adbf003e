//! A headless Chromium that ends with the test, driven over `WebDriver`. The headless shell is preferred: the same
//! engine without
//! the browser's own windows and services starts three times as fast.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use fantoccini::wd::{Capabilities, WebDriverCompatibleCommand};
use fantoccini::{Client, ClientBuilder};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::throwaway;

/// Debian keeps it in PATH; other systems beside their browser.
const DRIVERS: [&str; 2] = ["chromedriver", "/usr/lib/chromium/chromedriver"];
const HEADLESS_SHELL: &str = "/usr/bin/chromium-headless-shell";
const BROWSERS: [&str; 3] = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
/// Long enough for a slow, busy machine.
const START_LIMIT: Duration = Duration::from_secs(60);
const START_ATTEMPTS: u32 = 10;
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A browser for one test. Dropping it, or the death of its parent process, ends it and removes its files.
pub struct Browser {
    client: Client,
    _driver: Driver,
}

struct Driver {
    process: Child,
    watchdog: Child,
    directory: TempDir,
    port: u16,
}

/// Screen size and colour scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// In pixels.
    pub width: u32,
    /// In pixels.
    pub height: u32,
    /// Whether the user prefers dark mode.
    pub dark: bool,
}

impl Look {
    /// A desktop in light mode.
    pub const WIDE: Self = Self { width: 1280, height: 900, dark: false };
    /// A phone in light mode.
    pub const NARROW: Self = Self { width: 390, height: 844, dark: false };

    /// The same in dark mode.
    #[must_use]
    pub const fn dark(self) -> Self {
        Self { dark: true, ..self }
    }
}

impl Browser {
    /// Starts a browser and waits until it listens.
    ///
    /// # Panics
    /// When it cannot be started: a missing browser must fail a test, never skip it.
    pub async fn start() -> Self {
        let driver = Driver::start().await;
        let binary = headless_shell(driver.directory.path()).unwrap_or_else(browser);
        Self::drive(driver, &binary).await
    }

    /// Starts a browser that hides a tab when another one is shown. The headless shell considers all tabs visible.
    ///
    /// # Panics
    /// When it cannot be started.
    pub async fn start_with_tabs() -> Self {
        Self::drive(Driver::start().await, &browser()).await
    }

    async fn drive(driver: Driver, binary: &Path) -> Self {
        let wanted = json!({
            "binary": binary,
            "args": [
                "--headless=new", "--disable-gpu", "--hide-scrollbars", "--disable-dev-shm-usage", "--no-first-run",
                "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions",
                // Tests may run as root, which the sandbox refuses; the browser opens only pages of the tests.
                "--no-sandbox",
                format!("--user-data-dir={}", driver.directory.path().join("profile").display()),
            ],
        });
        let mut capabilities = Capabilities::new();
        capabilities.insert("goog:chromeOptions".to_owned(), wanted);
        capabilities.insert("goog:loggingPrefs".to_owned(), json!({ "browser": "ALL" }));
        let address = format!("http://127.0.0.1:{}", driver.port);
        let client = ClientBuilder::new(hyper_util::client::legacy::connect::HttpConnector::new())
            .capabilities(capabilities)
            .connect(&address)
            .await
            .unwrap_or_else(|error| panic!("the browser does not start: {error}"));
        Self { client, _driver: driver }
    }

    /// The `WebDriver` client.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Sets screen size and colour scheme.
    ///
    /// # Panics
    /// When the browser cannot.
    pub async fn look(&self, look: Look) {
        let Look { width, height, dark } = look;
        let screen = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.tell("Emulation.setDeviceMetricsOverride", screen).await;
        let scheme = if dark { "dark" } else { "light" };
        let features = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.tell("Emulation.setEmulatedMedia", features).await;
    }

    /// Enables or disables scripts of pages.
    ///
    /// # Panics
    /// When the browser cannot.
    pub async fn run_scripts(&self, whether: bool) {
        self.tell("Emulation.setScriptExecutionDisabled", json!({ "value": !whether })).await;
    }

    /// Lets pages use the clipboard without a prompt.
    ///
    /// # Panics
    /// When the browser cannot.
    pub async fn allow_clipboard(&self) {
        let permissions = json!({ "permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"] });
        self.tell("Browser.grantPermissions", permissions).await;
    }

    /// A screenshot of the whole page, including what is out of view.
    ///
    /// # Panics
    /// When the browser cannot make one.
    pub async fn picture(&self) -> Vec<u8> {
        let size = self.tell("Page.getLayoutMetrics", json!({})).await;
        let size = &size["cssContentSize"];
        let clip = json!({ "x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1 });
        let asked = json!({ "format": "png", "captureBeyondViewport": true, "clip": clip });
        let picture = self.tell("Page.captureScreenshot", asked).await;
        let text = picture["data"].as_str().unwrap_or_else(|| panic!("no picture: {picture}"));
        base64::Engine::decode(&base64::prelude::BASE64_STANDARD, text)
            .unwrap_or_else(|error| panic!("no picture: {error}"))
    }

    /// Errors of pages and of the browser since the last call.
    ///
    /// # Panics
    /// When the browser does not say.
    pub async fn complaints(&self) -> Vec<String> {
        let asked = Ask { path: "se/log".to_owned(), body: json!({ "type": "browser" }) };
        let lines = self.ask(asked).await;
        let lines = lines.as_array().cloned().unwrap_or_default();
        lines.iter().filter_map(|line| line["message"].as_str().map(str::to_owned)).collect()
    }

    async fn tell(&self, command: &str, parameters: Value) -> Value {
        let body = json!({ "cmd": command, "params": parameters });
        self.ask(Ask { path: "goog/cdp/execute".to_owned(), body }).await
    }

    async fn ask(&self, asked: Ask) -> Value {
        let told = format!("{asked:?}");
        self.client.issue_cmd(asked).await.unwrap_or_else(|error| panic!("{told}: {error}"))
    }

    /// Closes the browser.
    ///
    /// # Panics
    /// When it does not end.
    pub async fn close(self) {
        let Self { client, _driver: driver } = self;
        client.close().await.unwrap_or_else(|error| panic!("the browser does not end: {error}"));
        drop(driver);
    }
}

/// Commands of this driver beyond the standard.
#[derive(Debug)]
struct Ask {
    path: String,
    body: Value,
}

impl WebDriverCompatibleCommand for Ask {
    fn endpoint(&self, base: &url::Url, session: Option<&str>) -> Result<url::Url, url::ParseError> {
        base.join(&format!("session/{}/{}", session.unwrap_or_default(), self.path))
    }

    fn method_and_body(&self, _: &url::Url) -> (http::Method, Option<String>) {
        (http::Method::POST, Some(self.body.to_string()))
    }
}

impl Driver {
    async fn start() -> Self {
        for _ in 1..START_ATTEMPTS {
            match Self::try_to_start().await {
                Ok(driver) => return driver,
                Err(output) => eprintln!("chromedriver ended while it started: {output}"),
            }
        }
        Self::try_to_start()
            .await
            .unwrap_or_else(|output| panic!("chromedriver ends while it starts: {output}"))
    }

    /// Starts chromedriver, or returns what it printed if it ends. It chooses a port that is free on the IPv6 loopback, and
    /// ends if another process uses that port on the IPv4 loopback.
    async fn try_to_start() -> Result<Self, String> {
        let directory = tempfile::Builder::new().prefix("backstitch-browser-").tempdir();
        let directory = directory.unwrap_or_else(|error| panic!("cannot make a directory: {error}"));
        let log = directory.path().join("driver.log");
        let out = File::create(&log).unwrap_or_else(|error| panic!("cannot open the driver's log: {error}"));
        let mut command = Command::new(program());
        command.arg("--port=0").stdin(Stdio::null()).stderr(Stdio::null()).stdout(out);
        // Ctrl-C is for the tests, which stop the browser themselves.
        command.process_group(0);
        let mut process = command.spawn().unwrap_or_else(|error| panic!("cannot run chromedriver: {error}"));
        let watchdog = throwaway::watch_over(&process, directory.path()).unwrap_or_else(|error| {
            process.kill().and_then(|()| process.wait()).ok();
            panic!("cannot run the watchdog: {error}")
        });
        let mut driver = Self { process, watchdog, directory, port: 0 };
        driver.port = driver.chosen_port(&log).await?;
        Ok(driver)
    }

    /// Waits until the driver listens, and reads its port from its log.
    async fn chosen_port(&mut self, log: &Path) -> Result<u16, String> {
        let deadline = Instant::now() + START_LIMIT;
        loop {
            // Read before its output: it prints nothing more once it has ended.
            let ended = self.process.try_wait().unwrap_or_else(|error| panic!("lost chromedriver: {error}"));
            let output = fs::read_to_string(log).unwrap_or_default();
            if let Some((_, rest)) = output.split_once("started successfully on port ")
                && let Some((port, _)) = rest.split_once('.')
            {
                return Ok(port.parse().unwrap_or_else(|error| panic!("no port in {output:?}: {error}")));
            }
            if ended.is_some() {
                return Err(output);
            }
            assert!(Instant::now() < deadline, "chromedriver does not start: {output}");
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // The browser ends with its driver's process group, gracefully if it still can.
        let group = format!("-{}", self.process.id());
        let asked = Command::new("kill").args(["-TERM", "--", &group]).stderr(Stdio::null()).status();
        let ended = asked.and_then(|_| self.process.wait());
        let released = self.watchdog.kill().and_then(|()| self.watchdog.wait());
        if let Err(error) = ended.and(released) {
            eprintln!("a throwaway browser did not stop: {error}");
        }
    }
}

fn program() -> &'static str {
    let is_there = |program: &&&str| {
        let version =
            Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        version.is_ok_and(|status| status.success())
    };
    DRIVERS.iter().find(is_there).unwrap_or_else(|| {
        panic!(
            "no chromedriver, which drives the browser of the tests: run `./test`, which installs it (on Debian it is the \
             package chromium-driver)"
        )
    })
}

fn browser() -> PathBuf {
    BROWSERS.iter().map(PathBuf::from).find(|path| path.exists()).unwrap_or_else(|| {
        panic!(
            "no Chromium, the browser of the tests: run `./test`, which installs it (on Debian it is the package \
             chromium)"
        )
    })
}

/// The headless shell opens no page by itself, but chromedriver waits for one and can only add options. So a script in
/// the
/// directory adds the page.
fn headless_shell(directory: &Path) -> Option<PathBuf> {
    if !Path::new(HEADLESS_SHELL).exists() {
        return None;
    }
    let script = directory.join("browser");
    let text = format!("#!/bin/sh\nexec {HEADLESS_SHELL} \"$@\" about:blank\n");
    fs::write(&script, text)
        .and_then(|()| fs::set_permissions(&script, Permissions::from_mode(0o755)))
        .unwrap_or_else(|error| panic!("{} cannot be written: {error}", script.display()));
    Some(script)
}
