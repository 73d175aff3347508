//! Changing passwords.

use punctual::accounts::UserError;

use super::world::{HOME, PASSWORD, World, password};

#[tokio::test]
async fn a_new_password_ends_the_other_sessions() {
    let w = World::new().await;
    w.user("ann").await;
    let other = w.sign_in("ann", PASSWORD).await.expect("signed in");
    let this = w.sign_in("ann", PASSWORD).await.expect("signed in");
    let session = w.users.visit(&this.token, HOME).await.expect("a session");
    let new = password("another horse");
    for wrong in ["incorrect horse", ""] {
        let refused = w.users.change_password(&session, wrong, &new).await;
        assert!(matches!(refused, Err(UserError::WrongCredentials)), "{refused:?}");
    }
    w.users.change_password(&session, PASSWORD, &new).await.expect("changed");
    assert!(w.is_signed_in(&this.token).await && !w.is_signed_in(&other.token).await);
    w.sign_in("ann", PASSWORD).await.expect_err("refused");
    w.sign_in("ann", "another horse").await.expect("signed in");
}
