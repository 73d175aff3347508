//! The OpenAPI document: the parts that all endpoints share.

use std::collections::BTreeMap;

use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::path::Operation;
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::security::{ApiKey, ApiKeyValue, SecurityRequirement, SecurityScheme};
use utoipa::openapi::server::Server;
use utoipa::openapi::tag::Tag;
use utoipa::openapi::{
    Components, Content, Header, InfoBuilder, License, OpenApi, PathItem, Ref, RefOr, Response,
    ResponseBuilder,
};
use utoipa::{IntoResponses, PartialSchema, ToSchema};

use super::error::Envelope;

type Responses = BTreeMap<String, RefOr<Response>>;

const SCHEME: &str = "apiKey";
/// The tags, in the order in which the reference shows them.
const TAGS: [&str; 5] = ["Schedules", "Jobs", "Notifications", "Account", "Reference"];

/// The error responses of the document: name, status and meaning.
const REFUSALS: [(&str, &str, &str); 16] = [
    ("BadQuery", "400", "A parameter is not valid; `details.fieldErrors` has the reasons"),
    ("BadBody", "400", "The body is not valid; `details.fieldErrors` has the reasons"),
    ("Unauthorized", "401", "The API key is missing, unknown, revoked or expired"),
    (
        "Forbidden",
        "403",
        "The API key is read-only, the account is suspended, or its plan does not allow the call",
    ),
    ("NoSuchSchedule", "404", "The account has no such schedule"),
    ("NoSuchJob", "404", "The account has no such job, or its schedule is gone"),
    ("NoSuchChannel", "404", "The account has no such notification channel"),
    ("NoSuchDelivery", "404", "The account has no such delivery"),
    ("NoSuchFile", "404", "There is no such file"),
    ("Conflict", "409", "The state of the object does not allow the call"),
    ("TooLarge", "413", "The body is too large"),
    ("NotJson", "415", "The headers do not declare a JSON body"),
    (
        "NotVerified",
        "422",
        "The test notification failed; `details.reason` has the reason, and \
         `details.providerStatus` the status of the provider's answer, if there was one",
    ),
    ("TooMany", "429", "The rate limit is exceeded; try again after `Retry-After`"),
    ("Fault", "500", "The service has a fault; `details.requestId` is the id of the request"),
    ("Unavailable", "503", "The service is unavailable; try again after `Retry-After`"),
];

macro_rules! refusals {
    ($($(#[$doc:meta])* $type:ident = $($name:literal),+;)*) => {$(
        $(#[$doc])*
        pub(super) enum $type {}

        impl IntoResponses for $type {
            fn responses() -> Responses {
                [$($name),+].into_iter().map(refusal).collect()
            }
        }
    )*};
}

refusals! {
    /// The error responses of every call.
    Usual = "Unauthorized", "TooLarge", "TooMany", "Fault", "Unavailable";
    /// The error responses of a call to the reference.
    Unspecific = "Fault", "Unavailable";
    /// The error response of a call with query parameters.
    BadQuery = "BadQuery";
    /// The error responses of a call with a body.
    BadBody = "BadBody", "NotJson";
    /// The error response of a call that changes something.
    Forbidden = "Forbidden";
    /// The error response of a call that names a schedule.
    NoSuchSchedule = "NoSuchSchedule";
    /// The error response of a call that names a job.
    NoSuchJob = "NoSuchJob";
    /// The error response of a call that names a notification channel.
    NoSuchChannel = "NoSuchChannel";
    /// The error response of a call that names a delivery.
    NoSuchDelivery = "NoSuchDelivery";
    /// The error response of a call that verifies a channel.
    NotVerified = "NotVerified";
    /// The error responses of a page that needs no key.
    OpenPage = "TooMany", "Fault", "Unavailable";
    /// The error response of a call that names a file.
    NoSuchFile = "NoSuchFile";
    /// The error response of a call that depends on the state of an object.
    Conflict = "Conflict";
    /// The error responses of a call that changes a schedule.
    Unchanged = "BadBody", "NotJson", "Forbidden", "NoSuchSchedule", "Conflict";
    /// The error responses of a call that changes a notification channel.
    ChannelUnchanged = "BadBody", "NotJson", "Forbidden", "NoSuchChannel", "Conflict";
}

fn refusal(name: &'static str) -> (String, RefOr<Response>) {
    let status = REFUSALS.iter().find(|(known, ..)| *known == name).map_or("", |found| found.1);
    (status.to_owned(), RefOr::Ref(Ref::from_response_name(name)))
}

/// Completes the document that the routes generate: adds its description, the API key, the error
/// responses and the common headers.
pub(super) fn complete(mut document: OpenApi, base_path: &str) -> OpenApi {
    document.info = InfoBuilder::new()
        .title("Punctual")
        .version("1.0.0")
        .description(Some(include_str!("openapi.md")))
        .license(Some(License::new("Apache-2.0")))
        .build();
    let server = if base_path.is_empty() { "/" } else { base_path };
    document.servers = Some(vec![Server::new(server)]);
    document.tags = Some(TAGS.map(Tag::new).to_vec());
    document.security = Some(vec![SecurityRequirement::new::<_, _, String>(SCHEME, [])]);
    let components = document.components.get_or_insert_default();
    add_components(components);
    for (path, item) in &mut document.paths.paths {
        if path.starts_with("/v1/") {
            operations(item).for_each(add_headers);
        }
    }
    document
}

fn add_components(components: &mut Components) {
    let key =
        ApiKeyValue::with_description("x-api-key", "Create a key with `punctual key create`.");
    let scheme = SecurityScheme::ApiKey(ApiKey::Header(key));
    components.security_schemes.insert(SCHEME.to_owned(), scheme.into());
    let mut schemas = vec![(Envelope::name().into_owned(), Envelope::schema())];
    Envelope::schemas(&mut schemas);
    components.schemas.extend(schemas);
    for (name, of_type, meaning) in HEADERS {
        components.headers.insert(name.to_owned(), header(of_type, meaning).into());
    }
    for (name, status, meaning) in REFUSALS {
        let schema = Ref::from_schema_name(Envelope::name());
        let mut response = ResponseBuilder::new()
            .description(meaning)
            .content("application/json", Content::new(Some(schema)));
        if matches!(status, "429" | "503") {
            response = response.header("Retry-After", header(Type::Integer, "In seconds"));
        }
        let mut response = response.build();
        response.headers.extend(common_headers());
        components.responses.insert(name.to_owned(), response.into());
    }
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    let methods = [&mut item.get, &mut item.put, &mut item.post, &mut item.delete, &mut item.patch];
    methods.into_iter().flatten()
}

fn add_headers(operation: &mut Operation) {
    for response in operation.responses.responses.values_mut() {
        if let RefOr::T(response) = response {
            response.headers.extend(common_headers());
        }
    }
}

/// The common headers of answers. The rate-limit headers are absent if no limit is switched on.
const HEADERS: [(&str, Type, &str); 4] = [
    (
        "X-RateLimit-Limit",
        Type::Integer,
        "The limit of the rate-limit window that is closest to exhaustion",
    ),
    ("X-RateLimit-Remaining", Type::Integer, "The calls that are left in this window"),
    ("X-RateLimit-Reset", Type::String, "The end of this window, in UTC"),
    ("X-Request-Id", Type::String, "The id from the client, or a generated one"),
];

fn common_headers() -> impl Iterator<Item = (String, RefOr<Header>)> {
    HEADERS.iter().map(|(name, ..)| {
        let reference = Ref::new(format!("#/components/headers/{name}"));
        ((*name).to_owned(), RefOr::Ref(reference))
    })
}

fn header(of_type: Type, description: &str) -> Header {
    let schema = ObjectBuilder::new().schema_type(of_type);
    HeaderBuilder::new().schema(Some(schema)).description(Some(description)).build()
}

#[cfg(test)]
mod tests {
    use super::super::document;

    /// Clients rely on the document, so every change of it must show up in review.
    #[test]
    fn the_snapshot_is_the_document() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/api/openapi.json");
        let generated = document("").to_pretty_json().expect("a document can be written") + "\n";
        if option_env!("PUNCTUAL_REFRESH_OPENAPI").is_some() {
            std::fs::write(path, &generated).expect("the snapshot can be written");
        }
        let snapshot = std::fs::read_to_string(path).expect("the snapshot can be read");
        assert!(
            snapshot == generated,
            "src/api/openapi.json differs from the routes; if the change is intended, run\n\
             PUNCTUAL_REFRESH_OPENAPI=1 cargo test --lib the_snapshot_is_the_document"
        );
    }
}
