//! Signing up, and then signing in with the same input.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};

use super::oidc::provider_link;
use super::{entered, messages, refused, shown};
use crate::accounts::{Password, SignIn, SignUp, SignedIn, UserError};
use crate::dashboard::form::{FormFields, FormMessages};
use crate::dashboard::visitor::VisitorAddress;
use crate::dashboard::widgets::{FormField, general_message};
use crate::dashboard::{Dashboard, DashboardParts};

pub(super) async fn show(State(dashboard): State<Dashboard>) -> Response {
    shown(
        &dashboard,
        "Sign up",
        &form(&dashboard, &FormFields::default(), &FormMessages::default()),
    )
}

pub(super) async fn submit(
    State(dashboard): State<Dashboard>,
    VisitorAddress(address): VisitorAddress,
    fields: FormFields,
) -> Response {
    let invitation = None;
    match sign_up(&dashboard, &fields, invitation, address).await {
        Ok(signed_in) => entered(&dashboard, &signed_in, ""),
        Err(error) => match messages(error) {
            Ok(messages) => refused(&dashboard, "Sign up", &form(&dashboard, &fields, &messages)),
            Err(error) => error.into_response(),
        },
    }
}

/// Creates the user of the form and signs in.
pub(super) async fn sign_up(
    dashboard: &DashboardParts,
    fields: &FormFields,
    invitation: Option<&str>,
    address: std::net::IpAddr,
) -> Result<SignedIn, UserError> {
    let (email, text) = (fields.text("email"), fields.text("password"));
    let password = Password::new(text)?;
    let account = fields.text("account");
    let sign_up = SignUp { email, password: &password, account, invitation, address };
    dashboard.users.sign_up(sign_up).await?;
    let sign_in = SignIn { email, password: text, address, previous: None };
    dashboard.users.sign_in(sign_in).await
}

fn form(dashboard: &DashboardParts, fields: &FormFields, messages: &FormMessages) -> Markup {
    html! {
        h1 { "Sign up" }
        (general_message(messages))
        form method="post" action=(dashboard.path("/sign-up")) {
            (FormField::new("email", "E-mail address", fields.text("email"))
                .required().input("email", messages))
            (FormField::new("password", "Password", "")
                .hint("At least 10 characters.").required().input("new-password", messages))
            (FormField::new("account", "Name of your account", fields.text("account"))
                .hint("Such as the name of your team. Its members share schedules.")
                .required().input("text", messages))
            button type="submit" { "Sign up" }
        }
        (provider_link(dashboard, ""))
        p { "Already a user? " a href=(dashboard.path("/sign-in")) { "Sign in" } }
    }
}
