//! The request of a command that calls wget.

use super::command_request::CommandRequest;
use super::command_words::{CommandWord, OptionReader};
use super::refused_line::RefusedLine;

/// Reads the options of wget.
pub fn read(mut options: OptionReader) -> Result<CommandRequest, RefusedLine> {
    // Some shells make several words of one with braces.
    let mut request = CommandRequest::new(&['{', '}']);
    let (mut user, mut password) = (None, None);
    while let Some(word) = options.next() {
        let option = match word {
            CommandWord::Operand(url) => {
                request.set_url(&url)?;
                continue;
            }
            CommandWord::Option(option) => option,
        };
        match option.as_str() {
            "--user" | "--http-user" => user = Some(options.value(&option)?),
            "--password" | "--http-password" => password = Some(options.value(&option)?),
            _ => read_option(&option, &mut options, &mut request)?,
        }
    }
    if let Some(user) = user {
        request.add_credentials(&user, &password.unwrap_or_default());
    }
    Ok(request)
}

fn read_option(
    option: &str,
    options: &mut OptionReader,
    request: &mut CommandRequest,
) -> Result<(), RefusedLine> {
    match option {
        "--method" => {
            request.method = Some(options.value(option)?);
            Ok(())
        }
        "--header" => request.add_header(option, &options.value(option)?),
        "--post-data" | "--body-data" => {
            request.body = Some(options.value(option)?);
            request.add_default("Content-Type", "application/x-www-form-urlencoded");
            Ok(())
        }
        "-U" | "--user-agent" => {
            request.add_default("User-Agent", &options.value(option)?);
            Ok(())
        }
        "-T" | "--timeout" => request.set_timeout(option, &options.value(option)?),
        "-t" | "--tries" => request.set_attempts(option, &options.value(option)?, 0),
        "-O" | "--output-document" => match options.value(option)?.as_str() {
            "/dev/null" | "-" => Ok(()),
            _ => Err(RefusedLine::Output),
        },
        // They affect only the output and the files of wget.
        "-q" | "--quiet" | "--no-verbose" | "-v" | "--verbose" | "--delete-after" => Ok(()),
        "-n" => match options.value(option)?.as_str() {
            "v" => Ok(()),
            _ => Err(RefusedLine::Option(option.to_owned())),
        },
        "--post-file" | "--body-file" => Err(RefusedLine::ReadsFile(option.to_owned())),
        _ => Err(RefusedLine::Option(option.to_owned())),
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
                "-q -O - https://a/",
                json!({ "name": "GET a", "httpMethod": "GET", "endpoint": "https://a/" }),
            ),
            (
                "https://a/[1-3]",
                json!({ "name": "GET a/[1-3]", "httpMethod": "GET", "endpoint": "https://a/[1-3]" }),
            ),
            (
                "-nv --post-data='a=1' --user=ann --password 'p w' -T 7 --tries=2 -O/dev/null https://a/b",
                json!({
                    "name": "POST a/b", "httpMethod": "POST", "endpoint": "https://a/b",
                    "headers": r#"{"Content-Type":"application/x-www-form-urlencoded","Authorization":"Basic YW5uOnAgdw=="}"#,
                    "body": "a=1", "timeoutSeconds": 7, "maxRetries": 2,
                }),
            ),
        ] {
            assert_eq!(fields(command), Ok(expected), "{command}");
        }
        for (command, expected) in [
            (
                "--no-check-certificate https://a/",
                RefusedLine::Option("--no-check-certificate".into()),
            ),
            ("-nc https://a/", RefusedLine::Option("-n".into())),
            ("--post-file=x https://a/", RefusedLine::ReadsFile("--post-file".into())),
            ("-O x https://a/", RefusedLine::Output),
            ("https://a/{b,c}", RefusedLine::UrlPattern),
        ] {
            assert_eq!(fields(command), Err(expected), "{command}");
        }
    }
}
