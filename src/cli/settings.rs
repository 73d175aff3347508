//! Command-line options for the settings of the configuration, generated from the list of settings.

use std::marker::PhantomData;
use std::path::PathBuf;

use clap::error::Error;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches, value_parser};

use crate::config::{Sources, settings};

/// The settings that a command accepts as options. The other settings still apply if they are set
/// in the file or the environment.
pub trait SettingsSelection: Clone + Send + Sync + 'static {
    /// Returns `true` if the setting with this key is accepted.
    fn takes(key: &str) -> bool;
    /// Hides the options in `-h`, because there are many; `--help` shows them.
    const MANY: bool = false;
}

/// All settings.
#[derive(Clone, Debug)]
pub struct AllSettings;

impl SettingsSelection for AllSettings {
    fn takes(_: &str) -> bool {
        true
    }
    const MANY: bool = true;
}

/// The location of the store.
#[derive(Clone, Debug)]
pub struct StoreOnly;

impl SettingsSelection for StoreOnly {
    fn takes(key: &str) -> bool {
        matches!(key, "data_dir" | "store.url" | "store.password_file" | "secrets.keys_file")
    }
}

/// The access to the target store of a copy, and its number of shards.
#[derive(Clone, Debug)]
pub struct CopyTarget;

impl SettingsSelection for CopyTarget {
    fn takes(key: &str) -> bool {
        matches!(key, "store.password_file" | "cluster.shards" | "secrets.keys_file")
    }
}

/// The locations of the store, the queue and the cluster.
#[derive(Clone, Debug)]
pub struct ServersOnly;

impl SettingsSelection for ServersOnly {
    fn takes(key: &str) -> bool {
        let section = key.split('.').next().unwrap_or(key);
        matches!(key, "data_dir" | "secrets.keys_file")
            || matches!(section, "store" | "queue" | "cluster")
    }
}

/// The address of the operations listener.
#[derive(Clone, Debug)]
pub struct OpsOnly;

impl SettingsSelection for OpsOnly {
    fn takes(key: &str) -> bool {
        key == "ops.listen"
    }
}

/// The settings given as options.
#[derive(Clone, Debug)]
pub struct SettingArgs<S> {
    file: Option<PathBuf>,
    options: Vec<(&'static str, String)>,
    selection: PhantomData<S>,
}

impl<S> SettingArgs<S> {
    /// Returns these options, the environment and the file as sources, for `serve` and all other
    /// commands.
    pub(super) fn sources(&self) -> Sources {
        self.sources_for(false)
    }

    /// Returns the same sources, with the defaults of `dev`.
    pub(super) fn dev_sources(&self) -> Sources {
        self.sources_for(true)
    }

    fn sources_for(&self, dev: bool) -> Sources {
        let environment = Sources::from_environment(dev, self.file.clone());
        Sources { options: self.options.clone(), ..environment }
    }
}

const FILE: &str = "config";

impl<S: SettingsSelection> Args for SettingArgs<S> {
    fn augment_args(command: Command) -> Command {
        let file = Arg::new(FILE).long("config").value_name("FILE");
        let file = file.value_parser(value_parser!(PathBuf));
        let file = file.help("A TOML file with settings [env: PUNCTUAL_CONFIG]");
        let command = command.arg(file.help_heading("Settings"));
        settings().iter().filter(|setting| S::takes(setting.key)).fold(
            command,
            |command, setting| {
                let note = format!("[default: {}] [env: {}]", setting.default, setting.variable);
                let option =
                    Arg::new(setting.key).long(setting.option.as_str()).value_name("VALUE");
                let option =
                    option.help(format!("{} {note}", setting.help)).help_heading("Settings");
                command.arg(option.hide_short_help(S::MANY).allow_hyphen_values(true))
            },
        )
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<S: SettingsSelection> FromArgMatches for SettingArgs<S> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let taken = settings().iter().filter(|setting| S::takes(setting.key));
        let options = taken.filter_map(|setting| {
            Some((setting.key, matches.get_one::<String>(setting.key)?.clone()))
        });
        let file = matches.get_one::<PathBuf>(FILE).cloned();
        Ok(Self { file, options: options.collect(), selection: PhantomData })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::super::args::{Cli, Command as Parsed};

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn options_become_settings() {
        let given = ["punctual", "config", "--http-listen", "[::]:80", "--outbound-allow", ""];
        let Parsed::Config(args) = Cli::parse_from(given).command else { panic!("another") };
        let expected = [("http.listen", "[::]:80".to_owned()), ("outbound.allow", String::new())];
        assert_eq!(args.options, expected);
        assert_eq!(args.sources().options, expected);
    }
}
