//! A client that fetches pages and sends their forms.

use hyper::Method;
use hyper::header::{CONTENT_TYPE, LOCATION, SET_COOKIE};

use crate::support::{Answer, Client};

const FORM: (&str, &str) = ("content-type", "application/x-www-form-urlencoded");

/// A browser, which keeps its cookie.
#[derive(Clone)]
pub(crate) struct Browser {
    pub(crate) client: Client,
    pub(crate) cookie: Option<String>,
}

/// A page as it came.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) status: u16,
    pub(crate) text: String,
    pub(crate) answer: Answer,
}

/// A form of a page, with what it carries along.
#[derive(Clone, Debug)]
pub(crate) struct Form {
    pub(crate) action: String,
    pub(crate) fields: Vec<(String, String)>,
}

impl Browser {
    pub(crate) fn new(client: &Client) -> Self {
        Self { client: client.clone(), cookie: None }
    }

    /// Signs in with a key.
    pub(crate) async fn signed_in(client: &Client, key: &str) -> Self {
        let mut browser = Self::new(client);
        let page = browser.try_to_sign_in(key).await;
        assert_eq!(page.status, 303, "{page:?}");
        browser.cookie = Some(page.cookie());
        browser
    }

    pub(crate) async fn try_to_sign_in(&self, key: &str) -> Page {
        self.post("/login", &[("key", key)], &[]).await
    }

    pub(crate) async fn get(&self, path: &str) -> Page {
        self.ask(Method::GET, path, &[("accept", "text/html")], String::new()).await
    }

    /// A page that must be there.
    pub(crate) async fn see(&self, path: &str) -> Page {
        let page = self.get(path).await;
        assert_eq!(page.status, 200, "{path}: {page:?}");
        assert_eq!(page.answer.headers[CONTENT_TYPE], "text/html; charset=utf-8", "{path}");
        page
    }

    /// Sends fields as they are, and nothing else.
    pub(crate) async fn post(&self, path: &str, fields: &[(&str, &str)], headers: &[(&str, &str)]) -> Page {
        let mut body = form_urlencoded::Serializer::new(String::new());
        body.extend_pairs(fields);
        let headers = [&[FORM], headers].concat();
        self.ask(Method::POST, path, &headers, body.finish()).await
    }

    /// Fills in a form and sends it.
    pub(crate) async fn send(&self, form: &Form, filled: &[(&str, &str)]) -> Page {
        let mut fields: Vec<(&str, &str)> =
            form.fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        fields.retain(|(name, _)| !filled.iter().any(|(other, _)| other == name));
        fields.extend(filled);
        self.post(&form.action, &fields, &[]).await
    }

    /// Fills in a form, sends it, and goes where it leads.
    pub(crate) async fn submit(&self, form: &Form, filled: &[(&str, &str)]) -> Page {
        let sent = self.send(form, filled).await;
        assert_eq!(sent.status, 303, "{}: {sent:?}", form.action);
        self.see(&sent.location()).await
    }

    async fn ask(&self, method: Method, path: &str, headers: &[(&str, &str)], body: String) -> Page {
        let mut headers = headers.to_vec();
        if let Some(cookie) = &self.cookie {
            headers.push(("cookie", cookie));
        }
        let answer = self.client.send(method, path, &headers, body).await;
        let text = String::from_utf8(answer.body.to_vec()).unwrap();
        Page { status: answer.status, text, answer }
    }
}

impl Page {
    pub(crate) fn location(&self) -> String {
        self.answer.headers[LOCATION].to_str().unwrap().to_owned()
    }

    /// What the browser is to keep.
    pub(crate) fn cookie(&self) -> String {
        let cookie = self.answer.headers[SET_COOKIE].to_str().unwrap();
        cookie.split(';').next().unwrap().to_owned()
    }

    pub(crate) fn has(&self, text: &str) -> bool {
        self.text.contains(text)
    }

    /// The form that is sent there, if the page has one.
    pub(crate) fn form(&self, action: &str) -> Option<Form> {
        self.forms().into_iter().find(|form| form.action == action)
    }

    #[track_caller]
    pub(crate) fn must_form(&self, action: &str) -> Form {
        self.form(action).unwrap_or_else(|| panic!("no form {action} in {}", self.text))
    }

    /// What every form of the page carries.
    pub(crate) fn form_token(&self) -> String {
        let (_, form) = self.text.split_once("action=\"/logout\"").unwrap();
        hidden(form).into_iter().find(|(name, _)| name == "form_token").unwrap().1
    }

    /// All forms that change something, but for the one that signs out.
    pub(crate) fn forms(&self) -> Vec<Form> {
        let pieces = self.text.split("<form ").skip(1).map(|rest| rest.split("</form>").next().unwrap());
        let posted = pieces.filter(|piece| piece.split('>').next().unwrap().contains(r#"method="post""#));
        let forms = posted.map(|piece| Form { action: attribute(piece, "action"), fields: hidden(piece) });
        forms.filter(|form| form.action != "/logout" && form.action != "/login").collect()
    }
}

fn hidden(form: &str) -> Vec<(String, String)> {
    let inputs = form.split("<input ").skip(1).map(|rest| rest.split('>').next().unwrap());
    inputs
        .filter(|input| input.contains(r#"type="hidden""#))
        .map(|input| (attribute(input, "name"), attribute(input, "value")))
        .collect()
}

fn attribute(tag: &str, name: &str) -> String {
    let (_, rest) = tag.split_once(&format!("{name}=\"")).unwrap_or_else(|| panic!("no {name}: {tag}"));
    unescaped(rest.split('"').next().unwrap())
}

fn unescaped(text: &str) -> String {
    let marks = [("&#60;", "<"), ("&#62;", ">"), ("&#34;", "\""), ("&#39;", "'"), ("&#38;", "&")];
    marks.into_iter().fold(text.to_owned(), |text, (escaped, plain)| text.replace(escaped, plain))
}
