//! Orders: a confirmation calls payment, inventory and logistics in the configured order, or undoes what it has done.

mod change;
mod confirmation;
mod definition;
mod error;
mod order;
mod schema;
mod service;
mod setting;
mod settings;
mod vocabulary;

pub use change::{ByService, EndpointChange, ServiceOrder, ServiceRetry, ServicesChange, TimeoutsChange};
pub use confirmation::Orders;
pub use definition::{DEFINITION, Rollback};
pub use error::Error;
pub use order::{Amount, Item, MAX_ITEMS, Order};
pub use schema::SCHEMA;
pub use service::{Endpoint, Service, Services, Timeouts};
pub use setting::{ServiceSetting, Setting, TimeoutSetting};
pub use settings::Standing;
pub use vocabulary::{Code, Entry, Outcome, entry, message};
