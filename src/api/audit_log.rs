//! `GET /v1/audit-log`

use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use super::authentication::ReadAccess;
use super::openapi::{BadQuery, Usual};
use super::paging::Paging;
use super::query::QueryParameters;
use super::reply::Data;
use super::{ApiError, SharedApi, cursor, schemas};
use crate::domain::audit::Action;
use crate::domain::{AuditId, Timestamp};
use crate::schedules::FieldErrors;
use crate::store::{AuditEntry, AuditPage, AuditQuery};

const USUAL_PAGE: u32 = 100;
const LARGEST_PAGE: u32 = 1_000;

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

/// List changes and their authors
///
/// Every change to the account's data, with its author and its origin. A bulk creation has one
/// entry for each schedule.
#[utoipa::path(
    get,
    path = "/v1/audit-log",
    tag = "Account",
    params(
        ("from" = Option<String>, Query, description = "Only entries from this instant on", format = DateTime),
        ("to" = Option<String>, Query, description = "Only entries up to this instant", format = DateTime),
        ("actor" = Option<String>, Query, description = "Only entries of this actor"),
        ("action" = inline(Option<schemas::ActionName>), Query, description = "Only entries of this action"),
        ("pageSize" = Option<u32>, Query, description = "The page size; 100 by default", minimum = 1, maximum = 1000),
        ("cursor" = Option<String>, Query, description = "`nextCursor` of the previous page"),
    ),
    responses(
        (status = 200, description = "The page", body = Data<AuditLog>),
        BadQuery,
        Usual,
    ),
)]
pub(super) async fn list_audit_log(
    State(api): State<SharedApi>,
    ReadAccess(account): ReadAccess,
    query: QueryParameters,
) -> Result<Data<AuditLog>, ApiError> {
    let AuditPage { entries, has_more } = api.accounts.audit_log(account, &read(query)?).await?;
    let last = entries.last().filter(|_| has_more);
    let next_cursor = last.map(|last| cursor::after_audit_entry(last.id));
    Ok(Data::of(AuditLog { entries: entries.into_iter().map(Into::into).collect(), next_cursor }))
}

fn read(mut query: QueryParameters) -> Result<AuditQuery, FieldErrors> {
    let paging = Paging::read(&mut query, USUAL_PAGE, LARGEST_PAGE);
    let asked = AuditQuery {
        from: query.instant("from"),
        to: query.instant("to"),
        actor: query.text("actor"),
        action: query.one_of("action", Action::ALL),
        after: cursor::audit_entry(&mut query),
        limit: paging.size,
    };
    query.finish(asked)
}
