//! The request of a command that calls curl.

use url::form_urlencoded::byte_serialize;

use super::command_request::CommandRequest;
use super::command_words::{CommandWord, OptionReader};
use super::refused_line::RefusedLine;

/// Reads the options of curl.
pub fn read(mut options: OptionReader) -> Result<CommandRequest, RefusedLine> {
    let mut request = CommandRequest::new(&['{', '}', '[', ']']);
    while let Some(word) = options.next() {
        match word {
            CommandWord::Operand(url) => request.set_url(&url)?,
            CommandWord::Option(option) => read_option(&option, &mut options, &mut request)?,
        }
    }
    Ok(request)
}

fn read_option(
    option: &str,
    options: &mut OptionReader,
    request: &mut CommandRequest,
) -> Result<(), RefusedLine> {
    match option {
        "--url" => request.set_url(&options.value(option)?),
        "-X" | "--request" => {
            request.method = Some(options.value(option)?);
            Ok(())
        }
        "-H" | "--header" => request.add_header(option, &options.value(option)?),
        "-d" | "--data" | "--data-ascii" | "--data-binary" | "--data-raw" | "--data-urlencode"
        | "--json" => {
            let data = options.value(option)?;
            add_data(option, &data, request)
        }
        "-u" | "--user" => {
            let value = options.value(option)?;
            let expected = "a user, a colon and a password";
            let wrong = RefusedLine::Value { option: option.to_owned(), expected };
            let (user, password) = value.split_once(':').ok_or(wrong)?;
            request.add_credentials(user, password);
            Ok(())
        }
        "-m" | "--max-time" => request.set_timeout(option, &options.value(option)?),
        "--retry" => request.set_attempts(option, &options.value(option)?, 1),
        "-A" | "--user-agent" => {
            request.add_default("User-Agent", &options.value(option)?);
            Ok(())
        }
        "-o" | "--output" => match options.value(option)?.as_str() {
            "/dev/null" | "-" => Ok(()),
            _ => Err(RefusedLine::Output),
        },
        "-g" | "--globoff" => {
            request.pattern = &[];
            Ok(())
        }
        // They affect only the output of curl and the timeout of a connection.
        "-s" | "--silent" | "-S" | "--show-error" | "-f" | "--fail" | "--fail-with-body" | "-v"
        | "--verbose" | "-i" | "--include" | "-#" | "--progress-bar" | "-N" | "--no-buffer" => {
            Ok(())
        }
        "-w" | "--write-out" | "--connect-timeout" => options.value(option).map(drop),
        "-L" | "--location" => Err(RefusedLine::Redirects(option.to_owned())),
        _ => Err(RefusedLine::Option(option.to_owned())),
    }
}

/// Adds a part of the body.
fn add_data(option: &str, data: &str, request: &mut CommandRequest) -> Result<(), RefusedLine> {
    let reads_file = || RefusedLine::ReadsFile(option.to_owned());
    let part = match option {
        "--data-raw" => data.to_owned(),
        "--data-urlencode" => encoded(data).ok_or_else(reads_file)?,
        _ if data.starts_with('@') => return Err(reads_file()),
        _ => data.to_owned(),
    };
    let (separator, content_type) = if option == "--json" {
        request.add_default("Accept", "application/json");
        ("", "application/json")
    } else {
        ("&", "application/x-www-form-urlencoded")
    };
    match &mut request.body {
        Some(body) => body.extend([separator, part.as_str()]),
        None => request.body = Some(part),
    }
    request.add_default("Content-Type", content_type);
    Ok(())
}

/// Encodes `content`, `=content` or `name=content`; `None` if it names a file.
fn encoded(data: &str) -> Option<String> {
    // `application/x-www-form-urlencoded` writes a blank as a plus sign, curl as %20.
    let encode =
        |text: &str| byte_serialize(text.as_bytes()).collect::<String>().replace('+', "%20");
    match data.find(['=', '@']) {
        Some(at) if data[at..].starts_with('@') => None,
        Some(0) => Some(encode(&data[1..])),
        Some(at) => Some(format!("{}={}", &data[..at], encode(&data[at + 1..]))),
        None => Some(encode(data)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn fields(command: &str) -> Result<Value, RefusedLine> {
        read(OptionReader::of(command)?)?.into_fields().map(Value::Object)
    }

    #[test]
    fn options_become_fields() {
        for (command, expected) in [
            (
                "-fsS https://a.example/x",
                json!({ "name": "GET a.example/x", "httpMethod": "GET", "endpoint": "https://a.example/x" }),
            ),
            (
                "-X PUT -H 'X-A: b: c' -H 'X-Empty;' -m 2.5 --data-raw '@x' a.example",
                json!({
                    "name": "PUT a.example", "httpMethod": "PUT", "endpoint": "http://a.example",
                    "headers": r#"{"X-A":"b: c","X-Empty":"","Content-Type":"application/x-www-form-urlencoded"}"#,
                    "body": "@x", "timeoutSeconds": 3,
                }),
            ),
            (
                "--json '{\"a\":' --json '1}' --retry 2 -o /dev/null --url http://a/",
                json!({
                    "name": "POST a", "httpMethod": "POST", "endpoint": "http://a/",
                    "headers": r#"{"Accept":"application/json","Content-Type":"application/json"}"#,
                    "body": "{\"a\":1}", "maxRetries": 3,
                }),
            ),
            (
                "-u ann:p:w -d a=1 --data-urlencode 'b=c d&' --data-urlencode '=e' -H 'content-type: x/y' http://a/ -XDELETE",
                json!({
                    "name": "DELETE a", "httpMethod": "DELETE", "endpoint": "http://a/",
                    "headers": r#"{"content-type":"x/y","Authorization":"Basic YW5uOnA6dw=="}"#,
                    "body": "a=1&b=c%20d%26&e",
                }),
            ),
        ] {
            assert_eq!(fields(command), Ok(expected), "{command}");
        }
    }

    /// With a step that takes longer the longer the command is, this takes minutes.
    #[test]
    fn a_long_command_is_read_once() {
        let read = |words: Vec<String>| {
            let words = ["a", "-XPUT"].map(str::to_owned).into_iter().chain(words);
            read(OptionReader::new(words.collect::<Vec<_>>().into_iter()))?.into_fields()
        };
        let repeated =
            |words: &[&'static str]| words.repeat(1 << 20).into_iter().map(str::to_owned);
        read(vec![format!("-{}", "s".repeat(4 << 20))]).expect("valid");
        let fields = read(repeated(&["-da"]).collect()).expect("valid");
        assert_eq!(fields["body"].as_str().map(str::len), Some((2 << 20) - 1));
        read(repeated(&["-Aa", "-Ha:b"]).collect()).expect("valid");
    }

    #[test]
    fn brackets_without_a_pattern_are_kept() {
        for url in ["http://[::1]:80/a", "http://u:p@[::1]/"] {
            assert_eq!(fields(url).expect(url)["endpoint"], url);
        }
        for option in ["-sg", "--globoff"] {
            let given = fields(&format!("'https://a/{{b}}?c[]=1' {option}")).expect(option);
            assert_eq!(given["endpoint"], "https://a/{b}?c[]=1");
        }
    }

    #[test]
    fn options_without_a_counterpart_are_refused() {
        let option = |name: &str| RefusedLine::Option(name.to_owned());
        for (command, expected) in [
            ("-k https://a/", option("-k")),
            ("--cert x https://a/", option("--cert")),
            ("-sL https://a/", RefusedLine::Redirects("-L".into())),
            ("-d @/etc/passwd https://a/", RefusedLine::ReadsFile("-d".into())),
            ("--data-urlencode a@b https://a/", RefusedLine::ReadsFile("--data-urlencode".into())),
            ("-H @h https://a/", RefusedLine::ReadsFile("-H".into())),
            ("-G -d a=1 https://a/", option("-G")),
            ("-X GET -d a=1 https://a/", RefusedLine::BodyOfGet),
            ("-o page.html https://a/", RefusedLine::Output),
            ("-s", RefusedLine::NoUrl),
            ("a b", RefusedLine::ManyUrls),
            ("https://a/{b,c}", RefusedLine::UrlPattern),
            ("https://a/x[1-3]", RefusedLine::UrlPattern),
            ("https://a[1-3]/", RefusedLine::UrlPattern),
            ("'https://a/?b[]=1'", RefusedLine::UrlPattern),
            ("'https://a/?b=@[::1]'", RefusedLine::UrlPattern),
            ("https://[::1]/[a-c]", RefusedLine::UrlPattern),
            ("https://a/ -X", RefusedLine::NoValue("-X".into())),
        ] {
            assert_eq!(fields(command), Err(expected), "{command}");
        }
        for command in [
            "-m x https://a/",
            "-u ann https://a/",
            "-H s3cret https://a/",
            "--retry -1 https://a/",
        ] {
            let refused = fields(command).expect_err(command);
            assert!(matches!(refused, RefusedLine::Value { .. }), "{refused}");
            assert!(!refused.to_string().contains("s3cret"));
        }
    }
}
