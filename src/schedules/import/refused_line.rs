//! The reasons why a line of a crontab cannot be imported.

/// The maximum length of a line, in bytes. A body has at most 256 KiB.
pub const MAX_LINE: usize = 300 << 10;

/// The reason why a line of a crontab cannot be imported. No text contains a value of the line,
/// because it may be a secret.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum RefusedLine {
    /// The line is longer than any that can be imported.
    #[error("a line can have at most {} KiB", MAX_LINE >> 10)]
    TooLong,
    /// The line is neither a setting nor a time with a command.
    #[error("a line needs five time fields, or a word such as @daily, and a command")]
    Incomplete,
    /// The word at the start does not stand for five time fields.
    #[error("{0} is not supported; use five time fields or a word such as @daily")]
    NoTime(String),
    /// A percent sign without a backslash.
    #[error(
        "an unescaped % starts the input of the command, which is not supported; write \\% for a %"
    )]
    Input,
    /// A quote without its end.
    #[error("a quote is not closed")]
    OpenQuote,
    /// A character that the shell interprets.
    #[error("the shell interprets {0}; only a plain command is supported")]
    Shell(char),
    /// The output goes to a file.
    #[error("the output cannot be written to a file; only /dev/null is supported")]
    Output,
    /// Another program than curl or wget.
    #[error("only commands that call curl or wget are supported")]
    Program,
    /// An option without a counterpart in the service.
    #[error("the option {0} is not supported")]
    Option(String),
    /// An option that follows redirects.
    #[error(
        "the option {0} is not supported, because redirects are not followed; use the final URL"
    )]
    Redirects(String),
    /// An option whose value is missing.
    #[error("the option {0} needs a value")]
    NoValue(String),
    /// An option whose value has another form.
    #[error("the option {option} needs {expected}")]
    Value {
        /// The option.
        option: String,
        /// The form.
        expected: &'static str,
    },
    /// An option that reads a file.
    #[error("the option {0} reads a file, which is not supported")]
    ReadsFile(String),
    /// The command names no URL.
    #[error("the command has no URL")]
    NoUrl,
    /// The command names several URLs.
    #[error("the command has more than one URL")]
    ManyUrls,
    /// The URL stands for several URLs.
    #[error("the URL is a pattern for several URLs, which is not supported")]
    UrlPattern,
    /// A GET request with a body.
    #[error("a GET request cannot have a body")]
    BodyOfGet,
}
