//! The layer around every page: refuses changes from other sites, and adds the security headers.

use std::net::IpAddr;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderName, HeaderValue, Method, header};

use super::visitor::client_address;
use super::{Dashboard, DashboardParts, PageError};

/// The content security policy: everything comes from this origin, and nothing is inline.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                      connect-src 'self'; form-action 'self'; base-uri 'none'; \
                      frame-ancestors 'none'";

/// Headers of every page. A page shows data of an account, so no cache may keep it.
const HEADERS: [(HeaderName, &str); 5] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::REFERRER_POLICY, "same-origin"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::CACHE_CONTROL, "no-store"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
];

/// Handles a request for a page.
pub(super) async fn guard(
    State(dashboard): State<Dashboard>,
    request: Request,
    next: Next,
) -> Response {
    let headers = request.headers().clone();
    let is_allowed = is_safe(request.method()) || is_same_origin(&headers);
    let address = client_address(request.extensions());
    let mut response = match admit(&dashboard, address, is_allowed).await {
        Ok(()) => next.run(request).await,
        Err(error) => error.into_response(),
    };
    response = super::error::complete(&dashboard, &headers, response);
    for (name, value) in HEADERS {
        response.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
    }
    response
}

/// Counts a request, and refuses a change that another site requests.
async fn admit(
    dashboard: &DashboardParts,
    address: IpAddr,
    is_allowed: bool,
) -> Result<(), PageError> {
    let counted = dashboard.throttle.page(address, dashboard.clock.now()).await;
    counted.map_err(|throttled| PageError::TooMany(throttled.until))?;
    if is_allowed { Ok(()) } else { Err(PageError::CrossSite) }
}

fn is_safe(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}

/// Returns `true` if a page of this origin made the request. Browsers send `Sec-Fetch-Site` only to
/// trustworthy origins, so `Origin` is the fallback. A request with neither is refused: all
/// browsers send `Origin` with a POST.
fn is_same_origin(headers: &HeaderMap) -> bool {
    if let Some(site) = headers.get("sec-fetch-site") {
        return site == "same-origin";
    }
    let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    let (Some(origin), Some(host)) = (text(header::ORIGIN), text(header::HOST)) else {
        return false;
    };
    origin.split_once("://").is_some_and(|(_, authority)| authority.eq_ignore_ascii_case(host))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_allowed(given: &[(&'static str, &str)]) -> bool {
        let mut headers = HeaderMap::new();
        for (name, value) in given {
            headers.insert(*name, HeaderValue::from_str(value).expect("a header"));
        }
        is_same_origin(&headers)
    }

    #[test]
    fn only_pages_of_this_origin_may_make_changes() {
        assert!(is_allowed(&[("sec-fetch-site", "same-origin")]));
        for site in ["cross-site", "same-site", "none", ""] {
            let own = ("origin", "https://a.example");
            let headers = [("sec-fetch-site", site), own, ("host", "a.example")];
            assert!(!is_allowed(&headers), "{site}");
        }
        assert!(is_allowed(&[("origin", "https://a.example"), ("host", "a.example")]));
        assert!(is_allowed(&[("origin", "http://[::1]:8080"), ("host", "[::1]:8080")]));
        assert!(!is_allowed(&[("origin", "https://b.example"), ("host", "a.example")]));
        assert!(!is_allowed(&[("origin", "null"), ("host", "null")]));
        assert!(!is_allowed(&[("host", "a.example")]));
        assert!(!is_allowed(&[]));
    }
}
