//! Labels for API requests: the routes, each with its methods.

use super::operations::is_same;
use super::{Label, LabelSet};

/// The label value for a request that matches no route.
const NONE: &str = "none";

/// Every method and route of the API. A test in the API compares the list with the served routes.
pub const ENDPOINTS: &[(&str, &str)] = &[
    ("GET", "/docs"),
    ("GET", "/docs/{file}"),
    ("GET", "/openapi.json"),
    ("GET", "/unsubscribe/{account}/{channel}/{token}"),
    ("POST", "/unsubscribe/{account}/{channel}/{token}"),
    ("GET", "/v1/account"),
    ("GET", "/v1/audit-log"),
    ("GET", "/v1/jobs"),
    ("GET", "/v1/jobs/{id}"),
    ("POST", "/v1/jobs/{id}/cancel"),
    ("POST", "/v1/jobs/{id}/retry"),
    ("GET", "/v1/notification-channels"),
    ("POST", "/v1/notification-channels"),
    ("DELETE", "/v1/notification-channels/{id}"),
    ("GET", "/v1/notification-channels/{id}"),
    ("PATCH", "/v1/notification-channels/{id}"),
    ("PUT", "/v1/notification-channels/{id}"),
    ("POST", "/v1/notification-channels/{id}/rotate-secret"),
    ("POST", "/v1/notification-channels/{id}/verify"),
    ("GET", "/v1/notification-deliveries"),
    ("GET", "/v1/notification-deliveries/{id}"),
    ("POST", "/v1/notification-deliveries/{id}/redeliver"),
    ("GET", "/v1/schedules"),
    ("POST", "/v1/schedules"),
    ("POST", "/v1/schedules/bulk"),
    ("POST", "/v1/schedules/preview"),
    ("DELETE", "/v1/schedules/{id}"),
    ("GET", "/v1/schedules/{id}"),
    ("PATCH", "/v1/schedules/{id}"),
    ("PUT", "/v1/schedules/{id}"),
    ("GET", "/v1/schedules/{id}/notifications"),
    ("PUT", "/v1/schedules/{id}/notifications"),
    ("GET", "/v1/schedules/{id}/skips"),
    ("PATCH", "/v1/schedules/{id}/toggle"),
    ("POST", "/v1/schedules/{id}/trigger"),
];

/// A method and route of the API, or neither.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HttpRoute(usize);

impl HttpRoute {
    /// Returns the endpoint of this method and route template. The template excludes the base path.
    pub fn of(method: &http::Method, route: &str) -> Self {
        let method = if *method == http::Method::HEAD { "GET" } else { method.as_str() };
        let is_it = |(its_method, its_route): &(&str, &str)| {
            its_route.len() == route.len() && *its_route == route && *its_method == method
        };
        Self(ENDPOINTS.iter().position(is_it).unwrap_or(ENDPOINTS.len()))
    }
}

/// The index of the route of each endpoint, with "no route" as the last entry. Endpoints of the
/// same route must be adjacent in [`ENDPOINTS`].
const ROUTE_INDEXES: [usize; ENDPOINTS.len() + 1] = {
    let mut indexes = [0; ENDPOINTS.len() + 1];
    let mut next = 1;
    while next <= ENDPOINTS.len() {
        let is_new = next == ENDPOINTS.len()
            || !is_same(ENDPOINTS[next - 1].1.as_bytes(), ENDPOINTS[next].1.as_bytes());
        indexes[next] = indexes[next - 1] + is_new as usize;
        next += 1;
    }
    indexes
};

/// The label is the route of an endpoint, without its method.
impl Label for HttpRoute {
    const NAME: &'static str = "route";
    const COUNT: usize = ROUTE_INDEXES[ENDPOINTS.len()] + 1;

    fn value_index(self) -> usize {
        ROUTE_INDEXES[self.0]
    }

    fn text(index: usize) -> &'static str {
        let first = ROUTE_INDEXES.iter().position(|its_index| *its_index == index);
        first.and_then(|endpoint| ENDPOINTS.get(endpoint)).map_or(NONE, |(_, route)| route)
    }
}

/// An answered request: its endpoint and its status.
#[derive(Clone, Copy, Debug)]
pub struct HttpAnswer(pub HttpRoute, pub http::StatusCode);

/// The classes of statuses, as label values.
const CLASSES: [&str; 4] = ["2xx", "3xx", "4xx", "5xx"];

impl LabelSet for HttpAnswer {
    const COUNT: usize = (ENDPOINTS.len() + 1) * CLASSES.len();

    fn index(self) -> usize {
        let class = match self.1.as_u16() {
            0..=299 => 0,
            300..=399 => 1,
            400..=499 => 2,
            _ => 3,
        };
        self.0.0 * CLASSES.len() + class
    }

    fn labels(index: usize) -> Vec<metrics::Label> {
        let endpoint = ENDPOINTS.get(index / CLASSES.len());
        let (method, route) = endpoint.copied().unwrap_or((NONE, NONE));
        vec![
            metrics::Label::from_static_parts("method", method),
            metrics::Label::from_static_parts("status", CLASSES[index % CLASSES.len()]),
            metrics::Label::from_static_parts("route", route),
        ]
    }
}

#[cfg(test)]
mod tests {
    use http::{Method, StatusCode};

    use super::*;

    #[test]
    fn every_endpoint_has_its_series_and_every_route() {
        let known = HttpRoute::of(&Method::HEAD, "/v1/schedules/{id}");
        assert_eq!(HttpRoute::text(known.value_index()), "/v1/schedules/{id}");
        let put = HttpRoute::of(&Method::PUT, "/v1/schedules/{id}");
        assert_eq!(known.value_index(), put.value_index());
        let told = HttpAnswer::labels(HttpAnswer(put, StatusCode::NOT_FOUND).index());
        let told: Vec<_> = told.iter().map(|label| (label.key(), label.value())).collect();
        assert_eq!(told, [("method", "PUT"), ("status", "4xx"), ("route", "/v1/schedules/{id}")]);

        let strange = HttpRoute::of(&Method::TRACE, "/v1/schedules/{id}");
        assert_eq!(HttpRoute::text(strange.value_index()), "none");
        let told = HttpAnswer::labels(HttpAnswer(strange, StatusCode::BAD_GATEWAY).index());
        assert_eq!(told[0].value(), "none");

        let mut routes: Vec<_> = (0..<HttpRoute as Label>::COUNT).map(HttpRoute::text).collect();
        let all = routes.len();
        routes.sort_unstable();
        routes.dedup();
        assert_eq!(routes.len(), all, "endpoints of one route stand together");
    }
}
