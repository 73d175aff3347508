//! The user of a page request, and the account that the page shows.

use std::net::IpAddr;

use axum::extract::FromRequestParts;
use chrono_tz::Tz;
use http::request::Parts;
use http::{Extensions, Method};

use super::time::ShownZone;
use super::{Dashboard, PageError, cookies};
use crate::accounts::{SignedInRequest, UserError, session_of};
use crate::domain::AccountId;
use crate::domain::audit::{Actor, Author, Origin};
use crate::domain::call::Call;
use crate::domain::user::{Role, TimeDisplay};
use crate::runtime::ClientAddress;
use crate::store::{Account, Membership};

/// The part of a query that names the account of a form.
const ACCOUNT_FIELD: &str = "account";

/// The query by which a page marks the requests that it makes by itself.
pub(super) const RENEWAL: &str = "renewal=true";

/// A signed-in user, and the account that the pages show.
pub(super) struct Visitor {
    pub(super) visit: SignedInRequest,
    /// The account that the pages show, with the user's role in it.
    pub(super) membership: Membership,
    /// All accounts of the user.
    pub(super) memberships: Vec<Membership>,
    /// The zone in which times are shown, and the clock.
    pub(super) zone: ShownZone,
}

impl Visitor {
    pub(super) fn account(&self) -> AccountId {
        self.membership.account
    }

    /// Returns the account that the pages show, for commands that need more than its id.
    pub(super) async fn load_account(&self, dashboard: &Dashboard) -> Result<Account, PageError> {
        dashboard.accounts.by_id(self.account()).await?.ok_or(PageError::NotFound)
    }

    /// Returns the author of the user's changes.
    pub(super) fn author(&self) -> Author {
        let origin = Origin::Client(self.visit.address);
        Author { actor: Actor::User(self.visit.session.user), origin }
    }

    /// Returns a call by the user, for a change that needs the role `member`.
    pub(super) fn call(&self) -> Result<Call, PageError> {
        self.needs(Role::Member)?;
        Ok(self.author().into())
    }

    /// Returns the address of a form whose change is for this account, although another tab of the
    /// browser may have chosen another one by then.
    pub(super) fn action(
        &self,
        dashboard: &crate::dashboard::DashboardParts,
        page: &str,
    ) -> String {
        format!("{}?{ACCOUNT_FIELD}={}", dashboard.path(page), self.account())
    }

    /// Returns `true` if the user's role allows `role`.
    pub(super) fn may(&self, role: Role) -> bool {
        self.membership.role.allows(role)
    }

    /// Returns `true` if the user may see the page of the installation.
    pub(super) fn is_operator(&self) -> bool {
        self.visit.session.operator_since.is_some()
    }

    /// Returns an error if the user's role does not allow `role`.
    pub(super) fn needs(&self, role: Role) -> Result<(), PageError> {
        if self.may(role) { Ok(()) } else { Err(UserError::Forbidden(role).into()) }
    }
}

impl FromRequestParts<Dashboard> for Visitor {
    type Rejection = PageError;

    async fn from_request_parts(
        parts: &mut Parts,
        dashboard: &Dashboard,
    ) -> Result<Self, PageError> {
        Self::read(parts, dashboard, !is_renewal(parts)).await
    }
}

impl Visitor {
    /// Finds the visitor behind a request. `is_by_person` is `false` if a page makes the request by
    /// itself; such a request does not extend the session.
    async fn read(
        parts: &Parts,
        dashboard: &Dashboard,
        is_by_person: bool,
    ) -> Result<Self, PageError> {
        let sign_in = || PageError::SignIn(return_path(parts));
        let token = session_of(cookies::texts(&parts.headers)).ok_or_else(sign_in)?;
        let (users, address) = (&dashboard.users, address(parts));
        let visit = match is_by_person {
            true => users.visit(&token, address).await,
            false => users.visit_unattended(&token, address).await,
        };
        let visit = match visit {
            Ok(visit) => visit,
            Err(UserError::SignedOut) => return Err(sign_in()),
            Err(error) => return Err(error.into()),
        };
        let memberships = users.memberships(&visit).await?;
        let membership = membership(parts, &memberships)?.clone();
        let TimeDisplay { zone, has_12_hour_clock } = visit.session.time_display;
        let zone = zone.or_else(|| zone_of_browser(parts)).unwrap_or(Tz::UTC);
        let zone = ShownZone { zone, has_12_hour_clock };
        Ok(Self { visit, membership, memberships, zone })
    }
}

/// Returns the zone that the script has found.
fn zone_of_browser(parts: &Parts) -> Option<Tz> {
    cookies::value_of(&parts.headers, cookies::ZONE)?.replace("%2F", "/").parse().ok()
}

/// Returns `true` if a page makes the request by itself.
fn is_renewal(parts: &Parts) -> bool {
    parts.uri.query().is_some_and(|query| query.split('&').any(|pair| pair == RENEWAL))
}

/// The visitor of a page that makes its requests by itself.
pub(super) struct PollingVisitor(pub(super) Visitor);

impl FromRequestParts<Dashboard> for PollingVisitor {
    type Rejection = PageError;

    async fn from_request_parts(
        parts: &mut Parts,
        dashboard: &Dashboard,
    ) -> Result<Self, PageError> {
        Visitor::read(parts, dashboard, false).await.map(Self)
    }
}

/// Returns the account of the form that was sent, else the one that the user has chosen, else any.
/// A change is never made in an account that the page did not show.
fn membership<'m>(
    parts: &Parts,
    memberships: &'m [Membership],
) -> Result<&'m Membership, PageError> {
    let query = parts.uri.query().unwrap_or_default();
    let mut pairs = url::form_urlencoded::parse(query.as_bytes());
    let of_form = pairs.find(|(name, _)| name == ACCOUNT_FIELD).map(|(_, value)| value);
    let with_id = |id: &str| memberships.iter().find(|one| one.account.to_string() == id);
    if let Some(id) = of_form {
        return with_id(&id).ok_or(PageError::NotFound);
    }
    match cookies::value_of(&parts.headers, cookies::ACCOUNT).map(with_id) {
        Some(Some(chosen)) => Ok(chosen),
        Some(None) if parts.method != Method::GET => Err(PageError::NotFound),
        _ => memberships.first().ok_or(PageError::NoAccount),
    }
}

/// The address of the client of a request.
pub(super) struct VisitorAddress(pub(super) IpAddr);

impl<S: Sync> FromRequestParts<S> for VisitorAddress {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        Ok(Self(address(parts)))
    }
}

fn address(parts: &Parts) -> IpAddr {
    client_address(&parts.extensions)
}

/// Returns the address of the client, which the layer around all routes has found.
pub(super) fn client_address(extensions: &Extensions) -> IpAddr {
    let found = extensions.get::<ClientAddress>();
    found.map_or(IpAddr::from([0, 0, 0, 0]), |ClientAddress(address)| *address)
}

/// Returns the page to show after signing in, without the base path. A change is not repeated, so it
/// leads to the overview.
fn return_path(parts: &Parts) -> String {
    match parts.method {
        Method::GET => parts.uri.path_and_query().map(ToString::to_string).unwrap_or_default(),
        _ => String::new(),
    }
}
