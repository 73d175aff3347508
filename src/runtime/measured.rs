//! Measures the calls of a contract: their duration and their errors.

use std::future::Future;
use std::sync::Arc;

use super::Clock;
use crate::telemetry::metrics::{Counter, Histogram, Label};

/// Wraps an adapter and measures its calls. It does nothing else.
pub struct Measured<T> {
    inner: Arc<T>,
    clock: Clock,
}

impl<T> Measured<T> {
    /// Measures the calls of `inner`.
    pub fn new(inner: Arc<T>, clock: Clock) -> Self {
        Self { inner, clock }
    }

    /// Returns the wrapped adapter.
    pub fn inner(&self) -> &T {
        &self.inner
    }

    /// Returns the clock that measures.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }
}

/// The error of a call.
pub trait CallError {
    /// Returns `true` if something has failed. Otherwise the error is a regular answer: for
    /// example, the object does not exist or is in the wrong state.
    fn is_fault(&self) -> bool;
}

/// Waits for a call and records its duration and its failure. A call that is dropped half-way is
/// not recorded.
pub async fn measure<L: Label, A, E: CallError>(
    clock: &Clock,
    operation: L,
    seconds: &Histogram<L>,
    errors: &Counter<L>,
    call: impl Future<Output = Result<A, E>>,
) -> Result<A, E> {
    let began = clock.monotonic();
    let answer = call.await;
    let took = clock.monotonic().saturating_sub(began);
    seconds.with(operation).record_span(took);
    errors.with(operation).add(u64::from(answer.as_ref().is_err_and(E::is_fault)));
    answer
}

/// Declares a contract and implements it for an adapter that is wrapped in [`Measured`]. The
/// enumeration of its operations and the metrics come first. Methods that are not measured follow
/// `beside`.
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
                    $crate::runtime::measure(self.clock(), OPERATION, &$seconds, &$errors, call)
                        .await
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Timestamp;
    use crate::telemetry::metrics::{
        STORE_CALL_ERRORS, STORE_CALL_SECONDS, StoreOperation, install,
    };

    struct TestError {
        is_fault: bool,
    }

    impl CallError for TestError {
        fn is_fault(&self) -> bool {
            self.is_fault
        }
    }

    #[tokio::test]
    async fn an_answer_is_no_failure() {
        // No other test in this process uses this operation.
        const OPERATION: StoreOperation = StoreOperation::named("forget_keys");
        let exporter = install();
        let read = |name: &str| {
            let text = exporter.render();
            let series = format!("{name}{{operation=\"forget_keys\"}} ");
            let value = text
                .lines()
                .find_map(|line| line.strip_prefix(&series))
                .expect("the series exists");
            value.parse::<f64>().expect("a number")
        };
        let clock = Clock::manual(Timestamp::from_millis(1_000));
        for (is_fault, errors, seconds) in [(false, 0.0, 2.0), (true, 1.0, 4.0)] {
            let call = async {
                clock.advance(std::time::Duration::from_secs(2));
                Err::<(), _>(TestError { is_fault })
            };
            let ended =
                measure(&clock, OPERATION, &STORE_CALL_SECONDS, &STORE_CALL_ERRORS, call).await;
            assert!(ended.is_err());
            assert!((read("punctual_store_call_errors_total") - errors).abs() < 1e-9);
            assert!((read("punctual_store_call_seconds_sum") - seconds).abs() < 1e-9);
        }
    }
}
