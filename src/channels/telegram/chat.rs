//! Telegram chat ids: parsed from user input, or found in an update.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A chat: its numeric id, or the name of a public one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ChatId {
    /// The numeric id of a user, group or channel.
    Number(i64),
    /// The `@name` of a public group or channel.
    Name(String),
}

impl ChatId {
    /// Parses a number, a text with a number, or `@name`.
    pub fn read(value: &Value) -> Option<Self> {
        let number = value.as_i64().or_else(|| value.as_str()?.trim().parse().ok());
        match number {
            Some(0) => None,
            Some(number) => Some(Self::Number(number)),
            None => value.as_str().map(str::trim).filter(|name| is_name(name)).map(Self::name),
        }
    }

    fn name(name: &str) -> Self {
        Self::Name(name.to_owned())
    }
}

fn is_name(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    text.strip_prefix('@')
        .is_some_and(|name| (4..=32).contains(&name.len()) && name.bytes().all(plain))
}

/// The parts of an update that contain a chat. Updates of other kinds are skipped, because Telegram
/// may add new kinds.
const WITH_CHAT: [&str; 5] =
    ["message", "edited_message", "channel_post", "edited_channel_post", "my_chat_member"];

/// Returns the chat of the newest update in a `getUpdates` response, if any.
pub fn newest(answer: &[u8]) -> Result<Option<ChatId>, &'static str> {
    let answer: Value = serde_json::from_slice(answer).unwrap_or_default();
    let Some(updates) = answer["result"].as_array() else {
        return Err("Telegram's answer was not understood. Set the chatId of the channel.");
    };
    let chats = updates.iter().filter_map(|update| {
        let chat = WITH_CHAT.iter().find_map(|part| update[part]["chat"]["id"].as_i64())?;
        Some((update["update_id"].as_i64().unwrap_or(0), chat))
    });
    Ok(chats.max_by_key(|(id, _)| *id).map(|(_, chat)| ChatId::Number(chat)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_chat_is_a_number_or_a_name() {
        let number = |number| Some(ChatId::Number(number));
        assert_eq!(ChatId::read(&json!(-1_001_234_567_890_i64)), number(-1_001_234_567_890));
        assert_eq!(ChatId::read(&json!(" 42 ")), number(42));
        assert_eq!(ChatId::read(&json!("@ops_team")), Some(ChatId::Name("@ops_team".into())));
        for wrong in [
            json!(0),
            json!(1.5),
            json!(""),
            json!("ops"),
            json!("@"),
            json!("@a/b"),
            json!("@abc"),
            json!([1]),
            json!(true),
            json!("99999999999999999999"),
        ] {
            assert_eq!(ChatId::read(&wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_newest_update_with_a_chat_counts() {
        let read = |value: Value| newest(value.to_string().as_bytes());
        let answer = json!({ "ok": true, "result": [
            { "update_id": 7, "message": { "chat": { "id": 1 } } },
            { "update_id": 9, "channel_post": { "chat": { "id": -1_002 } } },
            { "update_id": 8, "message": { "chat": { "id": 3 } } },
            { "update_id": 10, "poll": {} },
        ] });
        assert_eq!(read(answer), Ok(Some(ChatId::Number(-1_002))));
        assert_eq!(read(json!({ "ok": true, "result": [] })), Ok(None));
        assert!(read(json!({ "ok": true })).is_err());
        assert!(newest(b"<html>").is_err());
    }
}
