//! `punctual user` and the member commands of `punctual account`: the operator commands on users.

use std::io::Read;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};

use super::operator::{accounts, operator, refused};
use super::settings::{SettingArgs, StoreOnly};
use super::{CliError, output};
use crate::accounts::{Accounts, Password};
use crate::config::load_part;
use crate::domain::user::{EmailAddress, Role};
use crate::store::{AccountMember, MemberChange, User};

/// The commands on users.
#[derive(Debug, Subcommand)]
pub enum UserCommand {
    /// Create a user, and print a generated password unless one is given
    Create(NewUserArgs),
    /// List all users
    List(SettingArgs<StoreOnly>),
    /// Disable a user: end all sessions and forbid new ones
    Disable(UserArgs),
    /// Enable a disabled user
    Enable(UserArgs),
    /// Set a new password, and print a generated one unless one is given; ends all sessions
    ResetPassword(PasswordArgs),
    /// Confirm the address of a user, who can then sign in with the OpenID provider
    Confirm(UserArgs),
    /// Remove the links of a user to people at the OpenID provider; ends all sessions
    Unlink(UserArgs),
    /// Make a user an operator, who sees the page of the installation in the dashboard
    AddOperator(UserArgs),
    /// Take the role of an operator away from a user
    RemoveOperator(UserArgs),
    /// End all sessions of a user
    SignOut(UserArgs),
}

/// The commands on the members of an account.
#[derive(Debug, Subcommand)]
pub enum MemberCommand {
    /// List the members of an account
    Members {
        /// The name of the account
        account: String,
        #[command(flatten)]
        settings: SettingArgs<StoreOnly>,
    },
    /// Add a user to an account
    AddUser(RoleArgs),
    /// Change the role of a member of an account
    SetRole(RoleArgs),
    /// Remove a user from an account
    RemoveUser(MemberArgs),
    /// Print an invitation link to an account; it works once, and for a week
    Invite(RoleArgs),
}

/// A user.
#[derive(Args, Debug)]
pub struct UserArgs {
    /// The user's e-mail address
    email: EmailAddress,
    #[command(flatten)]
    settings: SettingArgs<StoreOnly>,
}

/// A user to create.
#[derive(Args, Debug)]
pub struct NewUserArgs {
    /// The name of an account that the user joins
    #[arg(long, value_name = "NAME")]
    account: Option<String>,
    /// The role of the user in the account
    #[arg(long, default_value = "owner", value_parser = roles(), requires = "account")]
    role: Role,
    #[command(flatten)]
    password: PasswordArgs,
}

/// A user, and a password.
#[derive(Args, Debug)]
pub struct PasswordArgs {
    /// Read the password from standard input
    #[arg(long)]
    password_stdin: bool,
    #[command(flatten)]
    user: UserArgs,
}

/// A user and an account.
#[derive(Args, Debug)]
pub struct MemberArgs {
    /// The name of the account
    account: String,
    #[command(flatten)]
    user: UserArgs,
}

/// A user, an account and a role.
#[derive(Args, Debug)]
pub struct RoleArgs {
    #[command(flatten)]
    member: MemberArgs,
    /// The role: owners manage users and keys, members change schedules, viewers only read
    #[arg(long, value_parser = roles())]
    role: Role,
}

fn roles() -> impl TypedValueParser<Value = Role> {
    let names = Role::ALL.iter().map(|role| role.as_str());
    PossibleValuesParser::new(names).try_map(|name| name.parse::<Role>())
}

pub(super) async fn run_user(command: &UserCommand) -> Result<(), CliError> {
    match command {
        UserCommand::Create(args) => create(args).await,
        UserCommand::List(settings) => {
            let users = accounts(settings).await?.users().await.map_err(refused)?;
            output::print(&user_table(&users))
        }
        UserCommand::Disable(args) => disable(args, true).await,
        UserCommand::Enable(args) => disable(args, false).await,
        UserCommand::Confirm(args) => {
            let accounts = accounts(&args.settings).await?;
            accounts.confirm_email(operator(), &args.email).await.map_err(refused)?;
            output::print(&format!("{} is confirmed\n", args.email))
        }
        UserCommand::Unlink(args) => {
            let accounts = accounts(&args.settings).await?;
            accounts.unlink(operator(), &args.email).await.map_err(refused)?;
            output::print(&format!("{} has no link to the OpenID provider\n", args.email))
        }
        UserCommand::AddOperator(args) => set_operator(args, true).await,
        UserCommand::RemoveOperator(args) => set_operator(args, false).await,
        UserCommand::ResetPassword(args) => {
            let accounts = accounts(&args.user.settings).await?;
            let password = args.password(&accounts)?;
            let set = accounts.set_password(operator(), &args.user.email, &password).await;
            set.map_err(refused)?;
            args.print(&password)
        }
        UserCommand::SignOut(args) => {
            let accounts = accounts(&args.settings).await?;
            accounts.sign_out(operator(), &args.email).await.map_err(refused)?;
            output::print(&format!("all sessions of {} have ended\n", args.email))
        }
    }
}

async fn create(args: &NewUserArgs) -> Result<(), CliError> {
    let UserArgs { email, settings } = &args.password.user;
    let accounts = accounts(settings).await?;
    let account = match &args.account {
        Some(name) => Some(accounts.named(name).await.map_err(refused)?),
        None => None,
    };
    let password = args.password.password(&accounts)?;
    let joins = account.as_ref().map(|account| (account, args.role));
    accounts.create_user(operator(), email, &password, joins).await.map_err(refused)?;
    args.password.print(&password)
}

async fn disable(args: &UserArgs, disabled: bool) -> Result<(), CliError> {
    let accounts = accounts(&args.settings).await?;
    accounts.disable_user(operator(), &args.email, disabled).await.map_err(refused)?;
    let now = if disabled { "is disabled; all sessions have ended" } else { "can sign in again" };
    output::print(&format!("{} {now}\n", args.email))
}

async fn set_operator(args: &UserArgs, is_operator: bool) -> Result<(), CliError> {
    let accounts = accounts(&args.settings).await?;
    accounts.set_operator(operator(), &args.email, is_operator).await.map_err(refused)?;
    let now = if is_operator { "is an operator" } else { "is no longer an operator" };
    output::print(&format!("{} {now}\n", args.email))
}

impl PasswordArgs {
    /// Returns the first line of standard input or a generated password.
    fn password(&self, accounts: &Accounts) -> Result<Password, CliError> {
        if !self.password_stdin {
            return Ok(accounts.new_password());
        }
        let mut text = String::new();
        // This limit is above the maximum length of a password, so that a longer password is
        // rejected instead of cut.
        let read = std::io::stdin().lock().take(2_048).read_to_string(&mut text);
        read.map_err(|error| CliError::failed(format!("cannot read the password: {error}")))?;
        let line = text.lines().next().unwrap_or_default();
        Password::new(line).map_err(CliError::usage)
    }

    /// Prints a generated password, which is shown only once.
    fn print(&self, password: &Password) -> Result<(), CliError> {
        let said = if self.password_stdin { "the password is set" } else { password.reveal() };
        output::print(&format!("{said}\n"))
    }
}

pub(super) async fn run_member(command: &MemberCommand) -> Result<(), CliError> {
    match command {
        MemberCommand::Members { account, settings } => {
            let accounts = accounts(settings).await?;
            let account = accounts.named(account).await.map_err(refused)?;
            let members = accounts.members(&account).await.map_err(refused)?;
            output::print(&member_table(&members))
        }
        MemberCommand::AddUser(args) => change(&args.member, MemberChange::Add(args.role)).await,
        MemberCommand::SetRole(args) => change(&args.member, MemberChange::Set(args.role)).await,
        MemberCommand::RemoveUser(args) => change(args, MemberChange::Remove).await,
        MemberCommand::Invite(args) => invite(args).await,
    }
}

async fn change(args: &MemberArgs, change: MemberChange) -> Result<(), CliError> {
    let UserArgs { email, settings } = &args.user;
    let accounts = accounts(settings).await?;
    let account = accounts.named(&args.account).await.map_err(refused)?;
    accounts.change_member(operator(), &account, email, change).await.map_err(refused)?;
    let name = &account.name;
    let members = accounts.members(&account).await.map_err(refused)?;
    let member = members.iter().find(|member| member.email == *email);
    output::print(&match member {
        Some(member) => format!("{email} is {} of {name}\n", member.role),
        None => format!("{email} does not belong to {name}\n"),
    })
}

async fn invite(args: &RoleArgs) -> Result<(), CliError> {
    let UserArgs { email, settings } = &args.member.user;
    let public_url = load_part(&settings.sources())?.config.users.public_url.ok_or_else(|| {
        CliError::usage(
            "http.public_url is not set: links begin with it (PUNCTUAL_HTTP_PUBLIC_URL)",
        )
    })?;
    let accounts = accounts(settings).await?;
    let account = accounts.named(&args.member.account).await.map_err(refused)?;
    let link = accounts.invite(operator(), &account, email, args.role, &public_url).await;
    output::print(&format!("{}\n", link.map_err(refused)?))
}

fn user_table(users: &[User]) -> String {
    let row = |user: &User| {
        let state = if user.disabled_at.is_some() { "disabled" } else { "active" };
        let role = if user.operator_since.is_some() { "operator" } else { "user" };
        let (id, email) = (user.id.to_string(), user.email.to_string());
        [id, email, user.created_at.to_string(), state.to_owned(), role.to_owned()]
    };
    let rows: Vec<_> = users.iter().map(row).collect();
    output::table(["ID", "EMAIL", "CREATED", "STATE", "ROLE"], &rows)
}

fn member_table(members: &[AccountMember]) -> String {
    let row = |member: &AccountMember| {
        let (id, email) = (member.user.to_string(), member.email.to_string());
        [id, email, member.role.to_string(), member.since.to_string()]
    };
    let rows: Vec<_> = members.iter().map(row).collect();
    output::table(["ID", "EMAIL", "ROLE", "SINCE"], &rows)
}
