//! The overview of an account, and its link to the list of failing schedules.

use super::with_owner;
use crate::harness::wait::until;

#[tokio::test]
async fn failing_schedules_and_the_load_are_shown() {
    let (service, user) = with_owner(&[]).await;
    let job = user.first_job(&service.target.url("/seq/404")).await;
    until("the job has failed", async || {
        user.get(&job).await.text.contains("Why it failed").then_some(())
    })
    .await;
    let page = user.get("/dashboard").await.text;
    assert!(page.contains("Failing now</h2>") && page.contains("127.0.0.1</a>"), "{page}");
    // The schedule runs at 09:00.
    assert!(page.contains("09:00 with 1 run."), "{page}");
    assert_eq!(page.matches("<rect class=\"load\"").count(), 1, "{page}");

    let listed = async |query: &str| {
        let page = user.get(&format!("/dashboard/schedules?{query}")).await.text;
        (page.contains("127.0.0.1</a>"), page)
    };
    let (found, page) = listed("outcome=failing").await;
    assert!(found && page.contains("<option value=\"failing\" selected>"), "{page}");
    assert!(!listed("outcome=fine").await.0);

    // A paused schedule does not fail any more.
    let mut store = service.store().await;
    sqlx::query("UPDATE schedules SET is_enabled = 0").execute(&mut store).await.expect("paused");
    let page = user.get("/dashboard").await;
    page.shows(200, &["<dt>Failing now</dt><dd>0</dd>"]).hides(&["Failing now</h2>"]);
    assert!(!listed("outcome=failing").await.0);
    assert!(listed("outcome=fine").await.0);
}
