//! The text that `dev` prints when the service runs.

use std::fmt::Write;

/// The facts that the text contains.
#[derive(Clone, Copy, Debug)]
pub struct Welcome<'a> {
    /// The URL of the API, including the base path, without `/v1`.
    pub base_url: &'a str,
    /// The link that opens the dashboard signed in, once. `None` if no user can be signed in.
    pub dashboard: Option<&'a str>,
    /// The URL of the operations listener.
    pub ops_url: &'a str,
    /// The key, if one was created. An existing key cannot be shown, because only its hash is
    /// stored.
    pub key: Option<&'a str>,
    /// The file of the store.
    pub store: &'a str,
    /// `true` if the demo schedule was run.
    pub demo: bool,
}

/// Returns the text: the addresses, the key, and a command that creates a schedule.
pub fn welcome(welcome: &Welcome<'_>) -> String {
    let Welcome { base_url, dashboard, ops_url, key, store, demo } = welcome;
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = write!(
        text,
        "
Punctual is running.

  Dashboard    {}
  API          {base_url}/v1
  Reference    {base_url}/docs
  Operations   {ops_url}/metrics  /healthz  /readyz  /echo
  Stored in    {store}
",
        dashboard.map_or_else(
            || format!("{base_url}/dashboard"),
            |link| format!("{link}   (signs you in, once)"),
        ),
    );
    let _ = match key {
        Some(key) => writeln!(text, "  API key      {key}"),
        None => write!(
            text,
            "  API key      shown at the first start; this command creates another:\n\
             \x20              punctual key create --account dev --store-url sqlite:{store}\n"
        ),
    };
    let _ = write!(
        text,
        "
Create a schedule that runs every minute:

{}

and list its jobs with their results:

  curl -s {base_url}/v1/jobs -H 'x-api-key: {}'

{}Ctrl-C stops.

",
        curl(base_url, ops_url, key.unwrap_or("YOUR_KEY")),
        key.unwrap_or("YOUR_KEY"),
        if *demo {
            "The schedule \"demo\" was run just now; the log below shows the result. "
        } else {
            ""
        },
    );
    text
}

fn curl(base_url: &str, ops_url: &str, key: &str) -> String {
    let schedule = format!(
        r#"{{"name":"hello","cronExpression":"* * * * *","timezone":"UTC","endpoint":"{ops_url}/echo","httpMethod":"POST","body":"hello"}}"#
    );
    format!(
        "  curl -s {base_url}/v1/schedules -H 'x-api-key: {key}' \
         -H 'content-type: application/json' -d '{schedule}'"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(key: Option<&str>) -> String {
        welcome(&Welcome {
            base_url: "http://127.0.0.1:8080",
            dashboard: key.map(|_| "http://127.0.0.1:8080/dashboard/first/x"),
            ops_url: "http://127.0.0.1:8081",
            key,
            store: "punctual-data/punctual.db",
            demo: key.is_some(),
        })
    }

    #[test]
    fn has_a_command_that_can_be_pasted() {
        let text = text(Some("pnc_x"));
        let line = text.lines().find(|line| line.contains("/v1/schedules")).expect("there");
        assert!(line.trim_start().starts_with("curl -s http://127.0.0.1:8080/v1/schedules "));
        assert!(line.contains("-H 'x-api-key: pnc_x'"), "{line}");
        let (_, json) = line.split_once("-d '").expect("a body");
        let json = json.strip_suffix('\'').expect("closed");
        let json: serde_json::Value = serde_json::from_str(json).expect("JSON");
        assert_eq!(json["endpoint"], "http://127.0.0.1:8081/echo");
        assert!(text.contains("http://127.0.0.1:8080/docs"));
    }

    #[test]
    fn says_how_to_get_a_key_where_it_has_none() {
        let text = text(None);
        let hint = "punctual key create --account dev --store-url sqlite:punctual-data/punctual.db";
        assert!(text.contains(hint), "{text}");
        assert!(!text.contains("demo"), "nothing was run");
    }
}
