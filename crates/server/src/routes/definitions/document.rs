//! A declaration in the body of a request: YAML or JSON.

use axum::extract::{FromRequest, Request};
use axum::http::HeaderMap;
use backstitch::Problems;
use backstitch_modules::declaration::Format;
use bytes::Bytes;

use crate::app::App;
use crate::http::{content_type, read_body};
use crate::problem::{Kind, Problem};

/// A declaration that has not been read yet.
pub(crate) struct Document {
    bytes: Bytes,
    format: Format,
}

impl Document {
    /// Reads it as whatever it has to be.
    pub(crate) fn read<T>(
        &self,
        as_what: impl FnOnce(&[u8], Format) -> Result<T, Problems>,
    ) -> Result<T, Problems> {
        as_what(&self.bytes, self.format)
    }
}

impl FromRequest<App> for Document {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        let format = format(request.headers())?;
        let bytes = read_body(request, &app.config.limits).await?;
        if bytes.trim_ascii().is_empty() {
            return Err(Problem::field("body", "is empty: send the declaration as YAML or JSON"));
        }
        Ok(Self { bytes, format })
    }
}

/// YAML where nothing is said: it can be read as YAML whichever of both it is.
fn format(headers: &HeaderMap) -> Result<Format, Problem> {
    let Some(named) = content_type(headers)? else { return Ok(Format::Yaml) };
    match named.as_str() {
        "application/json" => Ok(Format::Json),
        "application/yaml" | "application/x-yaml" | "text/yaml" | "text/x-yaml" => Ok(Format::Yaml),
        other => Err(Problem::new(
            Kind::UnsupportedMediaType,
            format!("the body is said to be `{other}`: send it as application/yaml or application/json"),
        )),
    }
}
