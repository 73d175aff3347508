//! Test requests: the request of a schedule, sent once before the schedule is saved.

use std::time::Duration;

use http::{HeaderName, HeaderValue};

use super::draft::ScheduleDraft;
use super::limits::{check_change, check_new, quota};
use super::requests::{ScheduleCreation, ScheduleUpdate};
use super::update::check_unreadable;
use super::{CommandError, FieldErrors, ScheduleParts, Schedules};
use crate::domain::outcome::{Exchange, Failure, Outcome, Timings};
use crate::domain::plan::Plan;
use crate::domain::schedule::Definition;
use crate::domain::signing::SigningSecret;
use crate::domain::{AccountId, ScheduleId, TestRequestId, Timestamp};
use crate::outbound::{Request, Target};
use crate::store::signing_secret_unreadable;

/// The maximum timeout of a test request. The page waits for the result, and its own request may
/// take 30 s.
pub const MAX_TEST: Duration = Duration::from_secs(25);
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// The header that tells the target that the request belongs to no job.
const IS_TEST: HeaderName = HeaderName::from_static("punctual-test");

/// The schedule whose request is tested, as the user gives it.
#[derive(Clone, Debug)]
pub enum TestedSchedule {
    /// A schedule that does not exist yet.
    New(ScheduleCreation),
    /// A schedule with changes that are not saved.
    Changed(ScheduleId, ScheduleUpdate),
}

/// A request that was sent once, and its result.
#[derive(Clone, Debug)]
pub struct TestResult {
    /// The request, with its secrets in clear text.
    pub request: Request,
    /// The time at which it was sent.
    pub sent_at: Timestamp,
    /// The response or the reason why there is none.
    pub exchange: Exchange,
    /// The effect that the result would have on a job.
    pub outcome: Outcome,
}

/// A test request that has passed all checks and can be sent.
pub struct CheckedTest {
    account: AccountId,
    definition: Definition,
    request: Request,
}

impl Schedules {
    /// Checks the request of a schedule before it is sent once. Nothing is sent, so the caller does
    /// not count this against the rate limit of test requests.
    ///
    /// # Errors
    /// If the schedule could not be saved as it is, or its account may not make jobs.
    pub async fn check_test_request(
        &self,
        account: AccountId,
        tested: TestedSchedule,
    ) -> Result<CheckedTest, CommandError> {
        let parts = self.0.clone();
        self.run(async move {
            let plan = parts.admit(account).await?;
            quota(&plan)?;
            let definition = parts.tested(account, tested, &plan, parts.clock.now()).await?;
            let request = Request::of(&definition)
                .map_err(|failure| FieldErrors::of("headers", failure.message))?;
            Ok(CheckedTest { account, definition, request })
        })
        .await
    }

    /// Sends a checked request once. Nothing is stored and no job is made, so there is no entry in
    /// the audit log either. The caller limits the rate.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn send_test_request(&self, test: CheckedTest) -> Result<TestResult, CommandError> {
        let parts = self.0.clone();
        self.run(async move { parts.send_test(test).await }).await
    }
}

impl ScheduleParts {
    /// Returns the definition to test, after all checks that a saved change has to pass.
    async fn tested(
        &self,
        account: AccountId,
        tested: TestedSchedule,
        plan: &Plan,
        now: Timestamp,
    ) -> Result<Definition, CommandError> {
        let draft = match tested {
            TestedSchedule::New(request) => {
                let draft = request.draft(&self.outbound)?;
                check_new(&draft, plan, now)?;
                draft
            }
            TestedSchedule::Changed(id, request) => {
                let found = self.store.schedule(account, id).await?;
                let current = found.ok_or(CommandError::NoSuchSchedule)?;
                let given = request.secrets_given();
                let draft = request.apply(ScheduleDraft::of(&current), &self.outbound)?;
                check_unreadable(current.unreadable, given)?;
                check_change(&draft, &current, plan, now)?;
                draft
            }
        };
        Ok(draft.definition)
    }

    async fn send_test(&self, test: CheckedTest) -> Result<TestResult, CommandError> {
        let CheckedTest { account, definition, mut request } = test;
        let now = self.clock.now();
        let timeout = Duration::from_secs(definition.timeout_seconds.into()).min(MAX_TEST);
        let id = TestRequestId::new(now, self.random.bits()).to_string();
        let key = HeaderValue::try_from(id.as_str()).expect("ids are ASCII");
        request.headers.entry(IDEMPOTENCY_KEY).or_insert(key);
        request.headers.insert(IS_TEST, HeaderValue::from_static("true"));
        let secrets = self.signing_secrets(account, &definition, now).await?;
        let exchange = match secrets {
            Ok(secrets) => {
                if definition.sign_requests {
                    request.sign(&secrets, &id, now);
                }
                // No job tells later which account called the host.
                let target = self.outbound.check(&definition.endpoint).ok();
                let host = target.as_ref().map(Target::host);
                tracing::info!(%account, host, "sending a test request");
                self.outbound.send(account, request.clone(), timeout).await
            }
            Err(failure) => {
                Exchange { result: Err(failure), timings: Timings::default(), duration_ms: 0 }
            }
        };
        let expected = definition.expected_status_codes.as_ref();
        let expected = expected.and_then(|codes| codes.parse().ok());
        let outcome = Outcome::of(&exchange, expected.as_ref());
        Ok(TestResult { request, sent_at: now, exchange, outcome })
    }

    /// Returns the secrets that sign the request, newest first, or the failure of an attempt that
    /// cannot be signed.
    async fn signing_secrets(
        &self,
        account: AccountId,
        definition: &Definition,
        now: Timestamp,
    ) -> Result<Result<Vec<SigningSecret>, Failure>, CommandError> {
        if !definition.sign_requests {
            return Ok(Ok(Vec::new()));
        }
        let known = self.store.signing_secrets(account).await?.into_iter();
        let active = known.filter(|one| one.expires_at.is_none_or(|end| end > now));
        let secrets: Option<Vec<_>> = active.map(|one| one.secret).collect();
        Ok(secrets.ok_or_else(signing_secret_unreadable))
    }
}
