//! The seam at which calls of a contract are timed and counted.

use std::future::Future;
use std::sync::Arc;

use super::Clock;
use crate::telemetry::metrics::{Counter, Histogram, Label};

/// An adapter whose calls are measured. It does nothing else.
pub struct Measured<T> {
    inner: Arc<T>,
    clock: Clock,
}

impl<T> Measured<T> {
    /// Measures the calls of `inner`.
    pub fn new(inner: Arc<T>, clock: Clock) -> Self {
        Self { inner, clock }
    }

    /// What is measured.
    pub fn inner(&self) -> &T {
        &self.inner
    }

    /// Waits for a call, and notes how long it took and whether it failed. A call that is dropped
    /// half-way is not noted.
    pub async fn call<L: Label, A, E>(
        &self,
        operation: L,
        seconds: &Histogram<L>,
        errors: &Counter<L>,
        call: impl Future<Output = Result<A, E>> + Send,
    ) -> Result<A, E> {
        let began = self.clock.monotonic();
        let answer = call.await;
        let took = self.clock.monotonic().saturating_sub(began);
        seconds.with(operation).record_span(took);
        errors.with(operation).add(u64::from(answer.is_err()));
        answer
    }
}

/// Declares a contract, and that an adapter of it whose calls are measured is one too. The enumeration
/// of its operations and the metrics come first; methods that are no calls follow `beside`.
macro_rules! measured {
    (
        $operation:ident, $seconds:ident, $errors:ident;
        $(#[$doc:meta])*
        pub trait $contract:ident: Send + Sync {
            $(
                $(#[$method_doc:meta])*
                async fn $method:ident(&self $(, $argument:ident: $type:ty)* $(,)?) -> $answer:ty;
            )*
        }
        $(beside {
            $(
                $(#[$other_doc:meta])*
                fn $other:ident(&self) -> $told:ty;
            )*
        })?
    ) => {
        $(#[$doc])*
        #[async_trait::async_trait]
        pub trait $contract: Send + Sync {
            $(
                $(#[$method_doc])*
                async fn $method(&self $(, $argument: $type)*) -> $answer;
            )*
            $($(
                $(#[$other_doc])*
                fn $other(&self) -> $told;
            )*)?
        }

        #[async_trait::async_trait]
        impl<T: $contract> $contract for $crate::runtime::Measured<T> {
            $(
                async fn $method(&self $(, $argument: $type)*) -> $answer {
                    use $crate::telemetry::metrics::{$errors, $operation, $seconds};
                    const OPERATION: $operation = $operation::named(stringify!($method));
                    let call = self.inner().$method($($argument),*);
                    self.call(OPERATION, &$seconds, &$errors, call).await
                }
            )*
            $($(
                fn $other(&self) -> $told {
                    self.inner().$other()
                }
            )*)?
        }
    };
}

pub(crate) use measured;
