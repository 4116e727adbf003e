//! Actions as calls over HTTP.

use async_trait::async_trait;
use backstitch::{Payload, StepError};

use super::errand::{Calls, Errand};
use crate::http_call::{HttpCaller, Identity, Sent};

#[async_trait]
impl Calls for HttpCaller {
    async fn call(&self, call: &Payload, errand: &Errand) -> Result<Payload, StepError> {
        let identity = Identity {
            saga: errand.id,
            step: &errand.state,
            phase: "do",
            attempt: errand.attempt,
            idempotency_key: errand.idempotency_key.clone(),
        };
        let sent =
            Sent { identity, timeout: errand.timeout, waits_for_room: true, is_in_doubt: errand.is_in_doubt };
        self.send(call, sent, || Ok(errand.body.as_str().to_owned())).await
    }

    fn protect(&self, call: &Payload) -> Result<Payload, String> {
        self.headers().protect(call).map_err(|why| why.to_string())
    }
}
