//! Style and script, served under names that contain a hash of the content. Browsers keep such a
//! file for good, and a new release has new names.

use std::sync::LazyLock;

use axum::Router;
use axum::extract::Path;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::{StatusCode, header};
use sha2::{Digest, Sha256};

const FOR_GOOD: &str = "public, max-age=31536000, immutable";

struct Asset {
    name: String,
    media_type: &'static str,
    content: &'static str,
}

impl Asset {
    fn new(stem: &str, ending: &str, media_type: &'static str, content: &'static str) -> Self {
        let digest = Sha256::digest(content.as_bytes());
        let hash: String = digest.iter().take(6).map(|byte| format!("{byte:02x}")).collect();
        Self { name: format!("{stem}-{hash}.{ending}"), media_type, content }
    }
}

/// The files: the style, the script, the library that the script is written with, and the icon.
static ASSETS: LazyLock<[Asset; 4]> = LazyLock::new(|| {
    [
        Asset::new("style", "css", "text/css; charset=utf-8", include_str!("assets/style.css")),
        Asset::new("script", "js", SCRIPT, include_str!("assets/script.js")),
        Asset::new("htmx", "js", SCRIPT, include_str!("assets/htmx-2.0.11.min.js")),
        Asset::new("icon", "svg", "image/svg+xml", include_str!("assets/icon.svg")),
    ]
});

const SCRIPT: &str = "text/javascript; charset=utf-8";

/// The names of the files, for links.
pub(super) struct AssetNames {
    pub(super) style: &'static str,
    pub(super) script: &'static str,
    pub(super) htmx: &'static str,
    pub(super) icon: &'static str,
}

pub(super) fn names() -> AssetNames {
    let [style, script, htmx, icon] = &*ASSETS;
    AssetNames { style: &style.name, script: &script.name, htmx: &htmx.name, icon: &icon.name }
}

pub(super) fn routes() -> Router {
    Router::new().route("/dashboard/assets/{name}", get(asset))
}

async fn asset(Path(name): Path<String>) -> Response {
    let Some(asset) = ASSETS.iter().find(|asset| asset.name == name) else {
        return (StatusCode::NOT_FOUND, "There is no such file.\n").into_response();
    };
    let headers = [(header::CONTENT_TYPE, asset.media_type), (header::CACHE_CONTROL, FOR_GOOD)];
    (headers, asset.content).into_response()
}
