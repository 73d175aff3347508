//! `GET /v1/audit-log`

use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::authentication::ReadAccess;
use super::openapi::{BadQuery, Usual};
use super::paging::PageSizes;
use super::query::{Parameter, QueryParameters};
use super::reply::DataEnvelope;
use super::{ApiError, SharedApi, cursor, schemas};
use crate::domain::audit::Action;
use crate::domain::{AuditId, Timestamp};
use crate::schedules::FieldErrors;
use crate::store::{AuditEntry, AuditPage, AuditQuery};

const PAGE_SIZES: PageSizes = PageSizes { default: 100, max: 1_000 };

/// A page of the audit log.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct AuditLog {
    /// The entries, newest first.
    entries: Vec<AuditRecord>,
    /// The start of the next page, if there is one.
    #[schema(required)]
    next_cursor: Option<String>,
}

/// A change to the account's data.
#[derive(Serialize, ToSchema)]
#[schema(as = AuditEntry)]
pub(in crate::api) struct AuditRecord {
    #[schema(value_type = String, examples("aud_01HF7YAT000000000000000007"))]
    id: AuditId,
    #[schema(schema_with = schemas::instant)]
    at: Timestamp,
    /// The id of the API key or of the user, `operator:` and a name, or `service`.
    #[schema(examples("key_01HF7YAT000000000000000007"))]
    actor: String,
    #[schema(schema_with = schemas::action)]
    action: String,
    /// The id of the changed object; for a rotated key, its id and the id of the new key.
    #[schema(examples("sch_01HF7YAT000000000000000007"))]
    object: String,
    /// The address of the client, `host:` and the machine whose command line was used, or
    /// `service`.
    #[schema(examples("192.0.2.1"))]
    origin: String,
}

impl From<AuditEntry> for AuditRecord {
    fn from(entry: AuditEntry) -> Self {
        let AuditEntry { id, actor, action, object, origin } = entry;
        Self { id, at: id.timestamp(), actor, action, object, origin }
    }
}

/// The parameters of `GET /v1/audit-log`.
#[derive(Default, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct AuditLogQuery {
    /// Only entries from this instant on
    #[param(value_type = Option<String>, format = DateTime)]
    from: Parameter,
    /// Only entries up to this instant
    #[param(value_type = Option<String>, format = DateTime)]
    to: Parameter,
    /// Only entries of this actor
    #[param(value_type = Option<String>)]
    actor: Parameter,
    /// Only entries of this action
    #[param(value_type = Option<schemas::ActionName>, inline)]
    action: Parameter,
    /// The page size; 100 by default
    #[param(value_type = Option<u32>, minimum = 1, maximum = 1000)]
    page_size: Parameter,
    /// An alias of `pageSize`
    #[param(value_type = Option<u32>, minimum = 1, maximum = 1000)]
    limit: Parameter,
    /// `nextCursor` of the previous page
    #[param(value_type = Option<String>)]
    cursor: Parameter,
}

/// List changes and their authors
///
/// Every change to the account's data, with its author and its origin. A bulk creation has one
/// entry for each schedule.
#[utoipa::path(
    get,
    path = "/v1/audit-log",
    tag = "Account",
    params(AuditLogQuery),
    responses(
        (status = 200, description = "The page", body = DataEnvelope<AuditLog>),
        BadQuery,
        Usual,
    ),
)]
pub(super) async fn list_audit_log(
    State(api): State<SharedApi>,
    ReadAccess(account): ReadAccess,
    QueryParameters(query): QueryParameters<AuditLogQuery>,
) -> Result<DataEnvelope<AuditLog>, ApiError> {
    let AuditPage { entries, has_more } = api.accounts.audit_log(account, &check(query)?).await?;
    let last = entries.last().filter(|_| has_more);
    let next_cursor = last.map(|last| cursor::after_audit_entry(last.id));
    Ok(DataEnvelope::of(AuditLog {
        entries: entries.into_iter().map(Into::into).collect(),
        next_cursor,
    }))
}

fn check(query: AuditLogQuery) -> Result<AuditQuery, FieldErrors> {
    let mut errors = FieldErrors::new();
    let asked = AuditQuery {
        from: query.from.instant("from", &mut errors),
        to: query.to.instant("to", &mut errors),
        actor: query.actor.text("actor", &mut errors),
        action: query.action.one_of("action", Action::ALL, &mut errors),
        after: cursor::audit_entry(query.cursor, &mut errors),
        limit: PAGE_SIZES.read(query.page_size, query.limit, &mut errors),
    };
    errors.unless_any(asked)
}
