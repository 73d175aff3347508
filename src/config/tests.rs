use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::*;

/// Returns sources with these environment variables and options.
fn sources(variables: &[(&str, &str)], options: &[(&'static str, &str)]) -> Sources {
    Sources {
        environment: variables.iter().map(|(name, value)| (name.into(), value.into())).collect(),
        options: options.iter().map(|(key, value)| (*key, (*value).to_owned())).collect(),
        ..Sources::default()
    }
}

fn file(text: &str) -> (tempfile::TempDir, Sources) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("punctual.toml");
    std::fs::write(&path, text).expect("written");
    (folder, Sources { file: Some(path), ..Sources::default() })
}

fn mistakes(sources: &Sources) -> String {
    load(sources).expect_err("mistakes").to_string()
}

#[test]
fn the_defaults_are_valid_and_shown_as_they_are_written() {
    let loaded = load(&Sources::default()).expect("valid");
    assert_eq!(loaded.commented(), document::DEFAULTS);
    let config = loaded.config;
    let StoreChoice::Sqlite(store) = config.store else { panic!("another") };
    assert_eq!(store.path, Path::new("punctual-data/punctual.db"));
    assert!(matches!(config.cluster_mode, ClusterMode::Alone));
    assert_eq!(config.shards, 1);
    assert_eq!(config.http.limits, crate::runtime::ServeLimits::default());
    assert_eq!(config.executor.retry.base, Duration::from_secs(2));
    assert!(config.outbound.allow.is_empty());
    assert_eq!(config.outbound.deny_ports, OutboundSettings::default().deny_ports);
    assert_eq!(config.executor.slots, ExecutorSettings::default().slots);
    assert_eq!(config.executor.per_host, ExecutorSettings::default().per_host);
    let dev = load(&Sources { dev: true, ..Sources::default() }).expect("valid");
    assert_eq!(dev.config.outbound.allow.len(), 2);
}

#[test]
fn later_sources_win() {
    let (_folder, mut from_file) = file(
        "[http]\nlisten = \"1.1.1.1:1\"\nbase_path = \"/f\"\n\
        [ops]\nlisten = \"2.2.2.2:2\"\n[retry]\nbase_ms = 7\n",
    );
    from_file.environment = sources(
        &[("PUNCTUAL_HTTP_LISTEN", "3.3.3.3:3"), ("PUNCTUAL_OPS_LISTEN", "4.4.4.4:4")],
        &[],
    )
    .environment;
    from_file.options = vec![("http.listen", "5.5.5.5:5".to_owned())];
    let loaded = load(&from_file).expect("valid");
    let config = &loaded.config;
    assert_eq!(config.http.listen.to_string(), "5.5.5.5:5");
    assert_eq!(config.http.base_path, "/f");
    assert_eq!(config.ops.listen.to_string(), "4.4.4.4:4");
    assert_eq!(config.executor.retry.base, Duration::from_millis(7));
    let shown = loaded.commented();
    assert!(shown.contains("listen = \"5.5.5.5:5\"  # from --http-listen\n"), "{shown}");
    assert!(shown.contains("listen = \"4.4.4.4:4\"  # from PUNCTUAL_OPS_LISTEN\n"), "{shown}");
    assert!(shown.contains("punctual.toml\n"), "{shown}");
}

#[test]
fn shown_settings_are_a_configuration_again() {
    let given = sources(
        &[
            ("PUNCTUAL_OUTBOUND_DENY_PORTS", "22, 25"),
            ("PUNCTUAL_OUTBOUND_ALLOW", "10.0.0.0/8"),
            ("PUNCTUAL_STORE_MIGRATE", "false"),
            ("PUNCTUAL_RATE_PER_HOUR", "0"),
            ("PUNCTUAL_DATA_DIR", "a \"quoted\" folder"),
        ],
        &[],
    );
    let first = load(&given).expect("valid");
    let (_folder, again) = file(first.commented());
    let second = load(&again).expect("valid").config;
    assert_eq!(second.outbound.deny_ports, [22, 25]);
    assert_eq!(second.outbound.allow, first.config.outbound.allow);
    assert!(!second.migrate);
    assert_eq!(second.rate.per_hour, 0);
    assert_eq!(second.data_dir, first.config.data_dir);
}

#[test]
fn a_scheduler_needs_some_connections() {
    let with = |connections| sources(&[("PUNCTUAL_STORE_SCHEDULER_CONNECTIONS", connections)], &[]);
    let said = mistakes(&with("2"));
    assert!(said.contains("3 to 40"), "{said}");
    load(&with("3")).expect("valid");
}

#[test]
fn an_empty_list_is_empty() {
    let given = sources(
        &[("PUNCTUAL_OUTBOUND_DENY_PORTS", ""), ("PUNCTUAL_DNS_SERVERS", " ")],
        &[("outbound.allow", "")],
    );
    let outbound = load(&Sources { dev: true, ..given }).expect("valid").config.outbound;
    assert!(outbound.deny_ports.is_empty() && outbound.allow.is_empty());
    assert!(outbound.dns_servers.is_empty());
}

#[test]
fn all_mistakes_are_reported_at_once() {
    let (folder, mut wrong) = file(
        "log_fromat = \"json\"\n[http]\nlisten = 8080\n[retry]\n\
        cap_ms = 1\n[executor]\nslots = 1.5\n[nonsense]\n[rate]\nper_minute = [1]\n",
    );
    wrong.environment = sources(
        &[
            ("PUNCTUAL_STORE_URL", "mysql://me:secret@db/punctual"),
            ("PUNCTUAL_QUEUE_URL", "amqp://localhost"),
            ("PUNCTUAL_CLUSTER_URL", "zookeeper://x"),
            ("PUNCTUAL_ROLES", "api"),
            ("PUNCTUAL_LOG", "loud"),
            ("PUNCTUAL_SECRETS_KEYS", "a:c2VjcmV0"),
        ],
        &[],
    )
    .environment;
    wrong.options = vec![
        ("outbound.allow", "10.0.0.0/8,localhost".to_owned()),
        ("shutdown.drain_seconds", "31".to_owned()),
    ];
    let text = mistakes(&wrong);
    let path = folder.path().join("punctual.toml").display().to_string();
    for expected in [
        "13 mistakes in the configuration:\n",
        "\n  log_fromat: is not a setting; did you mean log_format?",
        "\n  nonsense: is not a setting",
        &format!("\n  http.listen = 8080 ({path}): must be an IP address and a port"),
        &format!("\n  retry.cap_ms = 1 ({path}): must not be less than retry.base_ms"),
        "\n  executor.slots = (not a plain value)",
        "\n  rate.per_minute = [1]",
        "store.url = \"mysql://me:***@db/punctual\" (PUNCTUAL_STORE_URL): must be sqlite:PATH or",
        "(PUNCTUAL_QUEUE_URL): must be redis://HOST:PORT or",
        "(PUNCTUAL_CLUSTER_URL): must be etcd://HOST:PORT",
        "(PUNCTUAL_LOG): \"loud\" is not one of",
        "shutdown.drain_seconds = \"31\" (--shutdown-drain-seconds): must not be more than",
        "secrets.keys = \"***\" (PUNCTUAL_SECRETS_KEYS): must be id:base64,…",
        "(--outbound-allow): must be addresses or networks",
    ] {
        assert!(text.contains(expected), "no {expected:?} in {text}");
    }
    assert!(!text.contains("secret@") && !text.contains("c2VjcmV0"), "{text}");
}

/// The settings of the servers of a cluster.
const SERVERS: [(&str, &str); 3] = [
    ("PUNCTUAL_STORE_URL", "postgres://me:secret@db/punctual"),
    ("PUNCTUAL_QUEUE_URL", "redis://queue:6379"),
    ("PUNCTUAL_CLUSTER_URL", "etcd://a:2379,b:2379"),
];

#[test]
fn a_cluster_needs_all_three_servers_and_any_role() {
    let [store, queue, cluster] = SERVERS;
    let all = [store, queue, cluster, ("PUNCTUAL_ROLES", "executor")];
    let config = load(&sources(&all, &[])).expect("valid").config;
    assert!(matches!(config.store, StoreChoice::Postgres(_)));
    assert_eq!(config.store.to_string(), "postgres://me:***@db/punctual");
    assert!(matches!(config.cluster_mode, ClusterMode::Cluster(_)));
    assert_eq!(config.shards, 64);
    for (some, odd) in [
        (vec![store], "store.url = \"postgres://me:***@db/punctual\""),
        (vec![queue], "queue.url = \"redis://queue:6379\""),
        (vec![cluster], "cluster.url = \"etcd://a:2379,b:2379\""),
        (vec![queue, cluster], "store.url = \"\""),
        (vec![store, cluster], "queue.url = \"memory:\""),
        (vec![store, queue], "cluster.url = \"single:\""),
    ] {
        let text = mistakes(&sources(&some, &[]));
        assert!(text.starts_with("a mistake in the configuration:\n"), "{text}");
        assert!(
            text.contains(odd) && text.contains("does not fit the other two settings"),
            "{text}"
        );
        assert!(text.contains("a cluster needs store.url = postgres://…, queue.url"), "{text}");
        load_part(&sources(&some, &[])).expect("enough for a command on the store");
    }
    assert!(mistakes(&sources(&[("PUNCTUAL_ROLES", "")], &[])).contains("at least one of"));
    let alone = mistakes(&sources(&[("PUNCTUAL_ROLES", "api")], &[]));
    assert!(alone.contains("must include api, scheduler and executor"), "{alone}");
    let pools = [store, queue, cluster, ("PUNCTUAL_STORE_API_CONNECTIONS", "30")];
    assert!(mistakes(&sources(&pools, &[])).contains("must not be more than 40 with the other"));
}

#[test]
fn files_that_cannot_be_used() {
    let missing = Sources { file: Some("/nowhere/p.toml".into()), ..Sources::default() };
    assert!(mistakes(&missing).contains("/nowhere/p.toml: the file cannot be read"));
    let (_folder, broken) = file("[http\n");
    assert!(mistakes(&broken).contains("the file is not TOML"));
    for secret in ["url = \"postgres://u:hunter2@h/db\" x\n", "url = \"hunter2\n"] {
        let (_folder, broken) = file(&format!("[store]\n{secret}"));
        let said = mistakes(&broken);
        assert!(said.contains("at line 2, column"), "{said}");
        assert!(!said.contains("hunter2"), "{said}");
    }
    let missing = sources(&[("PUNCTUAL_CONFIG", "/nowhere/q.toml")], &[]);
    assert!(mistakes(&missing).contains("/nowhere/q.toml: the file cannot be read"));
    let missing = sources(&[], &[("outbound.ca_files", "/nowhere/ca.pem")]);
    assert!(mistakes(&missing).contains("/nowhere/ca.pem cannot be read"));
    let missing = sources(&[("PUNCTUAL_SECRETS_KEYS_FILE", "/nowhere/keys")], &[]);
    assert!(mistakes(&missing).contains("(PUNCTUAL_SECRETS_KEYS_FILE): the file cannot be read"));
}

#[test]
fn keys_come_from_the_environment_or_a_file_and_are_never_shown() {
    let key = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
    let given = format!("new:{key},old:{key}");
    let loaded = load(&sources(&[("PUNCTUAL_SECRETS_KEYS", &given)], &[])).expect("valid");
    assert_eq!(loaded.config.secrets.len(), 2);
    assert!(loaded.commented().contains("keys = \"***\"  # from PUNCTUAL_SECRETS_KEYS"));
    assert!(!loaded.commented().contains(key) && loaded.warnings.is_empty());
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("keys");
    std::fs::write(&path, format!("file:{key}\n")).expect("written");
    let path = path.display().to_string();
    let in_file = ("PUNCTUAL_SECRETS_KEYS_FILE", path.as_str());
    for (mode, warns) in [(0o600, false), (0o640, false), (0o644, true)] {
        std::fs::set_permissions(&path, Permissions::from_mode(mode)).expect("set");
        let loaded = load(&sources(&[in_file], &[])).expect("valid");
        assert_eq!(loaded.config.secrets[0].id, "file");
        let warned = loaded.warnings.iter().any(|warning| warning.contains("chmod 600"));
        assert_eq!(warned, warns, "{:?}", loaded.warnings);
    }
    let both = mistakes(&sources(&[in_file, ("PUNCTUAL_SECRETS_KEYS", &given)], &[]));
    assert!(both.contains("cannot be set beside secrets.keys"), "{both}");
    std::fs::write(&path, "\n").expect("written");
    assert!(mistakes(&sources(&[in_file], &[])).contains("the file contains no key"));
}

#[test]
fn unknown_variables_are_a_warning() {
    let loaded = load(&sources(&[("PUNCTUAL_HTTP_LISTN", "x")], &[])).expect("valid");
    assert_eq!(
        loaded.warnings,
        ["PUNCTUAL_HTTP_LISTN is not a setting and is ignored; did you mean PUNCTUAL_HTTP_LISTEN?"]
    );
}

#[test]
fn plans_have_names_of_the_operators_choosing() {
    let none = load(&Sources::default()).expect("valid").config.plans;
    assert_eq!(none.all().map(|plan| plan.name.as_str()).collect::<Vec<_>>(), ["unlimited"]);
    let (_folder, given) = file(
        "[plans.free]\nschedules = 5\nshortest_interval_seconds = 300\nbody_bytes = 0\n\
        channel_types = [\"email\", \"slack\"]\nnotify_on = [\"none\"]\n[plans.pro-2]\n",
    );
    let first = load(&given).expect("valid");
    let free = first.config.plans.of("free");
    assert_eq!((free.schedules, free.body_bytes, free.channels), (Some(5), Some(0), None));
    assert_eq!(free.shortest_interval, Some(Duration::from_secs(300)));
    assert_eq!(free.channel_types.as_ref().map(Vec::len), Some(2));
    assert!(first.config.plans.named("pro-2").is_some());
    let (_folder, again) = file(first.commented());
    assert_eq!(load(&again).expect("valid").config.plans.of("free"), free);
}

#[test]
fn the_example_of_plans_is_valid() {
    let example: String = document::DEFAULTS
        .lines()
        .skip_while(|line| *line != "#   [plans.free]")
        .map(|line| format!("{}\n", line.trim_start_matches('#')))
        .collect();
    let (_folder, given) = file(&example);
    let plans = load(&given).expect("valid").config.plans;
    let names: Vec<_> = plans.all().map(|plan| plan.name.as_str()).collect();
    assert_eq!(names, ["free", "pro", "starter", "unlimited"]);
}

#[test]
fn mistakes_in_plans_are_reported() {
    let (_folder, wrong) = file(
        "[plans]\nsmall = 5\n[plans.unlimited]\n[plans.\"a b\"]\n[plans.free]\nschedule = 5\njobs_per_month = -1\n\
        channel_types = [\"fax\"]\nshortest_interval_seconds = 59\n",
    );
    let said = mistakes(&wrong);
    for part in [
        "plans.unlimited: always exists",
        "plans.a b: must be a name",
        "plans.free.schedule: is not a limit of a plan",
        "plans.free.jobs_per_month = -1: must be a whole number",
        "plans.free.channel_types = [\"fax\"]: must be some of email, slack",
        "plans.free.shortest_interval_seconds = 59: must be",
        "plans.small: must be a table",
    ] {
        assert!(said.contains(part), "{part}\n{said}");
    }
}
