//! TENANT-1 in memory and in Redis: the key of a map names the account.
//!
//! A map that outlives a call is a field of a struct. Its key contains the account, or the map is
//! listed here with the reason. The kinds of keys in Redis are listed, too.

use crate::rust::{Kind, Token, is_test_file, test_files, tokens};
use crate::tree::{File, Finding, Tree};

/// The types of maps.
const MAPS: [&str; 4] = ["Cache", "HashMap", "BTreeMap", "IndexMap"];

/// Types of keys under which no map has data of a single account.
const PLAIN: [&str; 2] = ["ShardId", "Duration"];

/// The maps whose keys name no account: the file, the struct, the type of the key, and the reason
/// why that is right.
#[rustfmt::skip]
const LISTED: &[(&str, &str, &str, &str)] = &[
    ("accounts/authenticator", "Authenticator", "[u8;_]", "digests of keys: the value names the account"),
    ("accounts/authenticator", "Authenticator", "String", "addresses of clients that have no key"),
    ("accounts/key_uses", "KeyUses", "KeyId", "the key's own id, with its account"),
    ("accounts/local_counters", "WindowCounts", "String", "subjects, as in the keys in Redis: numbers of calls"),
    ("queue/memory/counters", "Counters", "(String,u64)", "the same"),
    ("cluster/etcd/membership", "ClusterView", "String", "replicas"),
    ("domain/field_errors", "FieldErrors", "String", "the invalid fields of one call"),
    ("domain/plan", "Plans", "String", "names of plans"),
    ("executor/attempt_registry", "RegisteredAttempts", "(JobId,u8)", "running attempts: no data of them is read"),
    ("executor/capacity/slots", "SlotState", "HostKey", "hosts: numbers of attempts"),
    ("executor/capacity/slots", "SlotState", "CappedParty", "caps of an account or a host: the times at which they were full"),
    ("executor/intake/attempt_starter", "AttemptStarter", "JobId", "slots of the tickets of one call"),
    ("outbound/clients", "Clients", "ClientKey", "the account and the origin"),
    ("queue/memory/due", "DueIndex", "ScheduleId", "next ticks"),
    ("queue/memory/run_queue", "TurnQueues", "K", "accounts, and the hosts of each account"),
    ("queue/memory/run_queue", "MemoryRunQueue", "(Timestamp,JobId)", "tickets, each with its account"),
    ("queue", "Capacity", "HostKey", "hosts: numbers of attempts"),
    ("scheduler/backlog", "Backlog", "ScheduleId", "schedules: the number of jobs that may still wait"),
    ("scheduler/firing_batch", "FiringBatch", "ScheduleId", "the candidates of one batch, each with its account"),
    ("scheduler/ended_leases", "EndedLeases", "ExecutorId", "executors: the times from which their claims may be closed"),
    ("scheduler/decide", "RecurrenceCache", "String", "cron expressions and timezones, parsed"),
    ("notify/ongoing_tries", "UnderWay", "ChannelId", "channels: the number of tries in progress"),
    ("scheduler/schedule_cache", "ScheduleCache", "ScheduleId", "schedules that have fired, each with its account"),
    ("scheduler/quotas", "QuotaState", "JobId", "jobs that may have been created: their months"),
    ("store/sql/notifications/plan", "AlertPlan", "ScheduleId", "one pass of relaying: the channels of a schedule"),
    ("store/sql/notifications/plan", "AlertPlan", "ChannelId", "the same: channels, locked"),
    ("store/sql/notifications/plan", "AlertPlan", "(ChannelId,HostKey)", "the same: incidents, each with its account"),
    ("store/sql/notifications/plan", "AlertPlan", "(IncidentId,ScheduleId)", "the same: schedules of an incident"),
    ("store/sql/notifications/plan", "AlertPlan", "IncidentId", "the same: the content of an incident"),
    ("store/postgres/claims/definition_cache", "DefinitionCache", "VersionId", "versions with encrypted secrets: read for a schedule that has fired"),
    ("store/postgres/claims/definition_cache", "CachedDefinitions", "VersionId", "the same, of one batch"),
    ("store/postgres", "PostgresStore", "Day", "days of history"),
    ("store/encryption/cipher", "SecretCipher", "String", "keys of the installation, by id"),
    ("store/sqlite/firing/fire", "StoredSchedules", "ScheduleId", "the schedules of one batch, each with its account"),
];

/// The file with the functions that build the keys in Redis.
const KEYS: &str = "src/queue/redis/keys.rs";
/// These functions, and the content of Redis under their keys.
const LISTED_KEYS: [(&str, &str); 14] = [
    ("marker", "an epoch"),
    ("due", "ids of schedules, with their next ticks"),
    ("building", "the same"),
    ("hints", "ids of schedules"),
    ("tickets", "tickets, each with its account"),
    ("ready", "tickets, by account and host"),
    ("admitted", "numbers of tickets by account"),
    ("turn", "an account"),
    ("taken", "tickets, each with its account"),
    ("counter", "a number of calls, by subject: an id, a digest or an address of a client"),
    ("ping", "nothing"),
    ("trial", "nothing"),
    ("due_channel", "numbers of shards"),
    ("ticket_channel", "numbers of shards"),
];

/// A field that is a map: its struct, the type of its key, and its line.
struct Map {
    within: String,
    key: String,
    line: usize,
}

fn check(tree: &Tree) -> Vec<Finding> {
    let tests = test_files(tree);
    let mut findings = Vec::new();
    let mut seen = vec![false; LISTED.len()];
    for file in tree.rust("src/").filter(|file| !is_test_file(&tests, &file.path)) {
        let name = file.path.trim_start_matches("src/").trim_end_matches(".rs");
        let name = name.trim_end_matches("/mod");
        for map in maps(file) {
            let of = |at: &usize| LISTED[*at].0 == name && LISTED[*at].1 == map.within;
            let listed: Vec<_> = (0..LISTED.len()).filter(of).collect();
            listed.iter().for_each(|at| seen[*at] = true);
            let is_listed = listed.iter().any(|at| LISTED[*at].2 == map.key);
            let names_account = map.key.contains("AccountId")
                || map.key == "OwnedSchedule"
                || PLAIN.contains(&map.key.as_str());
            if !names_account && !is_listed {
                let Map { within, key, line } = map;
                let what = format!("a map in {within} has the key {key}, which names no account");
                findings.push(Finding::at(file, line, what));
            }
        }
    }
    if tree.has("src/lib.rs") {
        let gone = LISTED.iter().zip(seen).filter(|(_, seen)| !seen);
        findings.extend(gone.map(|((file, within, ..), _)| {
            Finding::new("tests/tidy/caches.rs", format!("{within} of {file} has no map"))
        }));
    }
    findings.extend(tree.get(KEYS).map(check_keys).unwrap_or_default());
    findings
}

/// Finds functions that build keys and are not listed, and listed functions that do not exist.
fn check_keys(file: &File) -> Vec<Finding> {
    let tokens = tokens(file);
    let pairs = tokens.windows(2).filter(|pair| pair[0].is_word("fn") && !pair[0].in_test);
    let found: Vec<_> = pairs.filter_map(|pair| Some((pair[1].word()?, pair[1].line))).collect();
    let made = found.iter().filter(|(name, _)| !["new", "of"].contains(name));
    let mut findings: Vec<_> = made
        .filter(|(name, _)| LISTED_KEYS.iter().all(|(listed, _)| listed != name))
        .map(|(name, line)| {
            Finding::at(
                file,
                *line,
                format!("list {name} in tests/tidy, with its content and its owner"),
            )
        })
        .collect();
    let gone = LISTED_KEYS.iter().filter(|(name, _)| found.iter().all(|(made, _)| made != name));
    findings.extend(gone.map(|(name, _)| Finding::new(KEYS, format!("there is no {name}"))));
    findings
}

/// Returns the fields that are maps.
fn maps(file: &File) -> Vec<Map> {
    let tokens: Vec<Token> = tokens(file).into_iter().filter(|token| !token.in_test).collect();
    let mut maps = Vec::new();
    for at in (0..tokens.len()).filter(|at| tokens[*at].is_word("struct")) {
        let Some(within) = tokens.get(at + 1).and_then(Token::word) else { continue };
        let fields =
            tokens[at..].iter().position(|token| matches!(token.kind, Kind::Open('{' | '(')));
        let Some(fields) = fields.map(|fields| at + fields) else { continue };
        if tokens[at..fields].iter().any(|token| token.is_sign(';')) {
            continue;
        }
        let mut depth = 0;
        let end = tokens[fields..].iter().position(|token| {
            match token.kind {
                Kind::Open(_) => depth += 1,
                Kind::Close(_) => depth -= 1,
                _ => {}
            }
            depth == 0
        });
        let fields = &tokens[fields..fields + end.unwrap_or_default()];
        for (at, pair) in fields.windows(2).enumerate() {
            if pair[1].is_sign('<') && pair[0].word().is_some_and(|word| MAPS.contains(&word)) {
                let (within, line) = (within.to_owned(), pair[0].line);
                maps.push(Map { within, key: key(&fields[at + 2..]), line });
            }
        }
    }
    maps
}

/// Returns the first generic argument of a type, without spaces.
fn key(tokens: &[Token]) -> String {
    let mut key = String::new();
    let mut depth = 0;
    for token in tokens {
        match &token.kind {
            Kind::Sign(',') if depth == 0 => break,
            Kind::Open(open) => {
                depth += 1;
                key.push(*open);
            }
            Kind::Close(close) => {
                depth -= 1;
                key.push(*close);
            }
            Kind::Sign(sign) => {
                depth += i32::from(*sign == '<') - i32::from(*sign == '>');
                key.push(*sign);
            }
            Kind::Word(word) => key.push_str(word),
            Kind::Literal => key.push('_'),
        }
    }
    key
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::{assert_finds, assert_tidy};

    #[test]
    fn repository() {
        assert_tidy(&check(&Tree::repository()));
    }

    #[test]
    fn finds_maps_without_an_account() {
        let code = "struct A<T> {\n    a: HashMap<JobId, T>,\n    b: Mutex<BTreeMap<(AccountId, JobId), u8>>,\n}\n\
                    struct B(Arc<Cache<[u8; 32], (AccountId, u8)>>);\n\
                    struct C;\n\
                    fn d() { let e: HashMap<u8, u8> = HashMap::new(); }\n\
                    #[cfg(test)]\nstruct F(HashMap<u8, u8>);\n\
                    struct G { by_shard: HashMap<ShardId, u8> }\n";
        let findings = check(&Tree::of(&[("src/accounts/a.rs", code)]));
        assert_finds(
            &findings,
            &["a.rs:2: a map in A has the key JobId,", "a.rs:5: a map in B has the key [u8;_],"],
        );
        let listed = "struct KeyUses(HashMap<KeyId, u8>);\nstruct Other(HashMap<KeyId, u8>);\n";
        let findings = check(&Tree::of(&[("src/accounts/key_uses.rs", listed)]));
        assert_finds(&findings, &["key_uses.rs:2: a map in Other"]);
        let gone = check(&Tree::of(&[("src/lib.rs", ""), ("src/accounts/key_uses.rs", listed)]));
        assert_eq!(gone.len(), LISTED.len(), "all listed maps but one, and the finding above");
    }

    #[test]
    fn finds_unknown_keys_of_redis() {
        let known: String =
            LISTED_KEYS.iter().map(|(name, _)| format!("fn {name}() {{}}\n")).collect();
        let find = |code: &str| check(&Tree::of(&[(KEYS, code)]));
        assert_finds(&find(&format!("fn new() {{}} fn of() {{}}\n{known}")), &[]);
        // Each function is a line of its own.
        let after = format!("keys.rs:{}: list secrets in tests/tidy", LISTED_KEYS.len() + 1);
        assert_finds(&find(&format!("{known}fn secrets() {{}}")), &[&after]);
        let turn = LISTED_KEYS.iter().take_while(|(name, _)| *name != "turn").count();
        assert_finds(
            &find(&known.replace("fn turn", "fn other")),
            &[&format!("keys.rs:{}: ", turn + 1), "there is no turn"],
        );
    }
}
