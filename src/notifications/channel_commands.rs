//! Creating, changing and deleting channels, and rotating their secrets.

use std::fmt;
use std::time::Duration;

use serde_json::{Map, Value};

use super::{
    ChannelCreation, ChannelUpdate, NotificationError, NotificationParts, Notifications,
    SecretRotation,
};
use crate::channels::GeneratedSecret;
use crate::domain::call::Call;
use crate::domain::channel::{Channel, ChannelConfig, MAX_LABEL};
use crate::domain::field_errors::{FieldErrors, HAS_NUL, choices};
use crate::domain::plan::ChannelType;
use crate::domain::{AccountId, ChannelId};
use crate::store::{ChannelChange, ChannelChanged, ChannelCreated, NewChannel, StoredChannel};

/// The maximum overlap in which an old secret still signs next to the new one: one week.
pub const MAX_OVERLAP_SECONDS: i64 = 604_800;
/// The overlap if the request does not give one: one day.
const USUAL_OVERLAP_SECONDS: i64 = 86_400;
/// The maximum number of attempts at a change. An attempt is repeated if another call changed the
/// configuration first.
const TRIES: usize = 5;

/// A channel, and the secret that the command generated for it.
#[derive(Clone, PartialEq, Eq)]
pub struct ChannelWithSecret {
    /// The channel.
    pub channel: Channel,
    /// The generated secret. It is returned only once.
    pub secret: Option<GeneratedSecret>,
}

impl fmt::Debug for ChannelWithSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChannelWithSecret").field("channel", &self.channel).finish_non_exhaustive()
    }
}

/// A change and the secret that was generated for it. `None` if nothing changes.
type ChangedChannel = Option<(ChannelChange, Option<GeneratedSecret>)>;

impl Notifications {
    /// Creates a channel, which starts out unverified.
    pub async fn create_channel(
        &self,
        account: AccountId,
        call: Call,
        request: ChannelCreation,
    ) -> Result<ChannelWithSecret, NotificationError> {
        let parts = self.0.clone();
        let draft = parts.draft(request)?;
        self.run(async move {
            let plan = parts.admit(account).await?;
            plan.check_channel_type(draft.kind)?;
            let now = parts.clock.now();
            let channel = Channel {
                id: ChannelId::new(now, parts.random.bits()),
                kind: draft.kind,
                label: draft.label,
                verified: false,
                created_at: now,
                updated_at: now,
            };
            let new = NewChannel { channel: channel.clone(), config: draft.config };
            let write = parts.write(account, call, now);
            match parts.store.create_channel(&write, &new, plan.channels).await? {
                ChannelCreated::Done => Ok(ChannelWithSecret { channel, secret: draft.secret }),
                ChannelCreated::TooMany { current } => {
                    let most = plan.channels.unwrap_or(current);
                    Err(plan.exceeded("channels", most, Some(current), 1).into())
                }
            }
        })
        .await
    }

    /// Changes the label, the configuration or both. A configuration that differs from the current
    /// one resets `verified` to `false`.
    pub async fn update_channel(
        &self,
        account: AccountId,
        call: Call,
        id: ChannelId,
        request: ChannelUpdate,
    ) -> Result<ChannelWithSecret, NotificationError> {
        self.change(account, call, id, move |parts, stored| parts.update(stored, request.clone()))
            .await
    }

    /// Gives a webhook channel a new signing secret. The old secret also signs until the overlap
    /// ends. The channel stays verified because its URL does not change.
    pub async fn rotate_secret(
        &self,
        account: AccountId,
        call: Call,
        id: ChannelId,
        request: SecretRotation,
    ) -> Result<ChannelWithSecret, NotificationError> {
        self.change(account, call, id, move |parts, stored| parts.rotation(stored, request.clone()))
            .await
    }

    /// Deletes a channel and detaches it from all preferences.
    pub async fn delete_channel(
        &self,
        account: AccountId,
        call: Call,
        id: ChannelId,
    ) -> Result<(), NotificationError> {
        let parts = self.0.clone();
        self.run(async move {
            parts.admit(account).await?;
            let write = parts.write(account, call, parts.clock.now());
            let is_deleted = parts.store.delete_channel(&write, id).await?;
            is_deleted.then_some(()).ok_or(NotificationError::NoSuchChannel)
        })
        .await
    }

    /// Computes a change from the stored channel and applies it only if the configuration still has
    /// the same revision. If another call changed the configuration first, the change is computed
    /// again.
    async fn change(
        &self,
        account: AccountId,
        call: Call,
        id: ChannelId,
        work: impl Fn(&NotificationParts, &StoredChannel) -> Result<ChangedChannel, NotificationError>
        + Send
        + 'static,
    ) -> Result<ChannelWithSecret, NotificationError> {
        let parts = self.0.clone();
        self.run(async move {
            parts.admit(account).await?;
            for _ in 0..TRIES {
                let stored = parts.stored(account, id).await?;
                let Some((change, secret)) = work(&parts, &stored)? else {
                    return Ok(ChannelWithSecret { channel: stored.channel, secret: None });
                };
                let write = parts.write(account, call, parts.clock.now());
                let changed = parts.store.change_channel(&write, id, stored.revision, &change);
                match changed.await? {
                    ChannelChanged::Done => {
                        let channel = parts.stored(account, id).await?.channel;
                        return Ok(ChannelWithSecret { channel, secret });
                    }
                    ChannelChanged::Stale => {}
                    ChannelChanged::NotFound => return Err(NotificationError::NoSuchChannel),
                }
            }
            Err(NotificationError::Contended)
        })
        .await
    }
}

/// A validated channel that is ready to be created.
struct ChannelDraft {
    kind: ChannelType,
    label: String,
    config: ChannelConfig,
    secret: Option<GeneratedSecret>,
}

/// A validated configuration and the secret that was generated for it.
type ValidConfiguration = (ChannelConfig, Option<GeneratedSecret>);

impl NotificationParts {
    fn draft(&self, request: ChannelCreation) -> Result<ChannelDraft, FieldErrors> {
        let mut errors = FieldErrors::new();
        let kind = request.kind.required("type", &mut errors).and_then(|text| {
            let kind = text.parse().ok();
            if kind.is_none() {
                errors.add("type", choices(ChannelType::ALL));
            }
            kind
        });
        let label = request.label.required("label", &mut errors);
        let label = label.and_then(|label| checked_label(label, &mut errors));
        let config = request.config.required("config", &mut errors);
        let configured = kind
            .zip(config)
            .and_then(|(kind, given)| self.configured(kind, &given, None, &mut errors));
        match (kind, label, configured) {
            (Some(kind), Some(label), Some((config, secret))) if errors.is_empty() => {
                Ok(ChannelDraft { kind, label, config, secret })
            }
            _ => Err(errors),
        }
    }

    fn configured(
        &self,
        kind: ChannelType,
        given: &Map<String, Value>,
        current: Option<&ChannelConfig>,
        errors: &mut FieldErrors,
    ) -> Option<ValidConfiguration> {
        match self.channels.configure(kind, given, current) {
            Ok(configured) => Some((configured.config, configured.secret)),
            Err(refused) => {
                errors.extend(refused);
                None
            }
        }
    }

    fn update(
        &self,
        stored: &StoredChannel,
        request: ChannelUpdate,
    ) -> Result<ChangedChannel, NotificationError> {
        let (channel, current) = (&stored.channel, stored.config.as_ref());
        let mut errors = FieldErrors::new();
        let kind = request.kind.optional("type", &mut errors);
        if kind.is_some_and(|kind| kind != channel.kind.as_str()) {
            errors.add("type", "Cannot be changed");
        }
        let label = request.label.if_given("label", &mut errors);
        let label = label.and_then(|label| checked_label(label, &mut errors));
        let config = request.config.if_given("config", &mut errors);
        let config = config
            .and_then(|given| self.configured(channel.kind, &given, current, &mut errors))
            .filter(|(config, _)| Some(config) != current);
        errors.unless_any(())?;
        let label = label.filter(|label| *label != channel.label);
        if label.is_none() && config.is_none() {
            return Ok(None);
        }
        let (config, secret) =
            config.map_or((None, None), |(config, secret)| (Some(config), secret));
        Ok(Some((ChannelChange { label, config, keeps_verified: false }, secret)))
    }

    fn rotation(
        &self,
        stored: &StoredChannel,
        request: SecretRotation,
    ) -> Result<ChangedChannel, NotificationError> {
        let mut errors = FieldErrors::new();
        let secret = request.secret.optional("secret", &mut errors);
        let overlap = request.overlap_seconds.optional("overlapSeconds", &mut errors);
        errors.unless_any(())?;
        let overlap = overlap.unwrap_or(USUAL_OVERLAP_SECONDS).clamp(0, MAX_OVERLAP_SECONDS);
        let expires_at = self.clock.now().plus(Duration::from_secs(overlap.unsigned_abs()));
        let Some(current) = &stored.config else {
            let why = "The channel's configuration cannot be decrypted, set it again";
            return Err(NotificationError::Conflict(why));
        };
        let kind = stored.channel.kind;
        let rotated = self.channels.rotate_secret(kind, current, secret.as_deref(), expires_at);
        let Some(rotated) = rotated else {
            let why = "The channel has no signing secret, only webhook channels have one";
            return Err(NotificationError::Conflict(why));
        };
        let configured = rotated.map_err(|errors| errors.without_prefix("config."))?;
        let config = Some(configured.config);
        let change = ChannelChange { label: None, config, keeps_verified: true };
        Ok(Some((change, configured.secret)))
    }
}

fn checked_label(label: String, errors: &mut FieldErrors) -> Option<String> {
    if label.contains('\0') {
        errors.add("label", HAS_NUL);
    } else if !(1..=MAX_LABEL).contains(&label.chars().count()) {
        errors.add("label", format!("Must be between 1 and {MAX_LABEL} characters"));
    } else {
        return Some(label);
    }
    None
}
