//! The settings of notification channels: the hosts they may call in addition to those of their
//! providers.

use url::Host;

use super::reader::{ParseResult, SettingsReader, SourceValue, list, text};
use super::users::base_url;
use crate::channels::ChannelSettings;

/// Reads the settings of channels. Links in mails begin with `public_url`, the URL of this
/// installation.
pub(super) fn read(reader: &mut SettingsReader, public_url: Option<String>) -> ChannelSettings {
    ChannelSettings {
        chat_hosts: reader.read("chat.hosts", list(host)),
        telegram_url: reader.read("notify.telegram_url", telegram_url),
        public_url,
    }
}

fn host(raw: &SourceValue) -> ParseResult<String> {
    let allowed = "must be host names or addresses without a port, such as chat.example.com";
    let text = text(raw)?;
    let host = Host::parse(&text).map_err(|_| allowed.to_owned())?;
    Ok(host.to_string())
}

fn telegram_url(raw: &SourceValue) -> ParseResult<String> {
    base_url(raw)?.ok_or_else(|| "must not be empty".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_have_neither_scheme_nor_port() {
        let read = |text: &str| host(&SourceValue::Text(text.to_owned()));
        for (text, name) in [
            ("Chat.Example.com", "chat.example.com"),
            ("127.0.0.1", "127.0.0.1"),
            ("[::1]", "[::1]"),
        ] {
            assert_eq!(read(text), Ok(name.to_owned()));
        }
        for wrong in ["", "chat.example.com:8065", "https://chat.example.com", "a/b", "a b"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
        assert!(telegram_url(&SourceValue::Text(String::new())).is_err());
    }
}
