//! Services that respond at once, so that the server is measured.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::task::AbortOnDropHandle;

use super::Failure;

/// Customers with failing orders.
pub(crate) const REFUSED: &str = "refused-at-inventory";
pub(crate) const STUCK: &str = "refund-fails";
pub(super) const SLOW: &str = "slow-inventory";

const SLOWNESS: Duration = Duration::from_secs(2);

/// Services on a loopback port, until this is dropped.
pub(crate) struct Services {
    address: SocketAddr,
    _listening: AbortOnDropHandle<()>,
}

impl Services {
    pub(crate) async fn start() -> Result<Self, Failure> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let listening = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream));
            }
        });
        Ok(Self { address, _listening: AbortOnDropHandle::new(listening) })
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Their addresses as settings of orders.
    pub(super) fn endpoints(&self) -> Value {
        let endpoint = |name: &str| json!({"url": self.url(&format!("/{name}/do")), "rollback_url": self.url(&format!("/{name}/undo"))});
        json!({
            "payment": endpoint("payment"), "inventory": endpoint("inventory"), "logistics": endpoint("logistics"),
        })
    }
}

async fn serve(stream: TcpStream) {
    let _ = stream.set_nodelay(true);
    // The caller notices a broken connection.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(answer)).await;
}

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let path = request.uri().path().to_owned();
    let body = request.into_body().collect().await?.to_bytes();
    let is_for = |customer: &str| contains(&body, customer.as_bytes());
    let status = match path.as_str() {
        "/inventory/do" if is_for(REFUSED) || is_for(STUCK) => StatusCode::UNPROCESSABLE_ENTITY,
        "/inventory/do" if is_for(SLOW) => {
            tokio::time::sleep(SLOWNESS).await;
            StatusCode::OK
        }
        "/payment/undo" if is_for(STUCK) => StatusCode::INTERNAL_SERVER_ERROR,
        _ => StatusCode::OK,
    };
    let mut response = Response::new(Full::new(Bytes::from_static(b"{\"ok\":true}")));
    *response.status_mut() = status;
    Ok(response)
}

fn contains(body: &[u8], part: &[u8]) -> bool {
    body.windows(part.len()).any(|window| window == part)
}
