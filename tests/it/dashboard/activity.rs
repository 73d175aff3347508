//! The charts of finished jobs on the overview.

use super::with_owner;
use crate::harness::wait::until;

#[tokio::test]
async fn finished_jobs_are_charted_over_the_range_of_the_address() {
    let (service, user) = with_owner(&[]).await;
    let job = user.first_job(&service.target.url("/seq/404")).await;
    until("the job has failed", async || {
        user.get(&job).await.text.contains("Why it failed").then_some(())
    })
    .await;
    for (range, text) in [
        ("", "24 hours"),
        ("24h", "24 hours"),
        ("7d", "7 days"),
        ("30d", "30 days"),
        ("%3Cscript%3E", "24 hours"),
    ] {
        let query = format!("/dashboard?range={range}");
        let page = user.get(&query).await;
        page.shows(
            200,
            &[
                "Finished jobs</h2>",
                "0 succeeded, 1 failed, 0 cancelled. Success rate: 0.0 %.",
                &format!("aria-current=\"true\">{text}</a>"),
                &format!("in the last {text}, at most 1. The table below has the values.\""),
                "Start lag</h3>",
                "Finished jobs as a table</summary>",
            ],
        );
        assert_eq!(page.text.matches("<rect class=\"failed\"").count(), 1, "{range}");
    }
    // Those of another account are its own.
    let eve = crate::harness::pages::PageVisitor::sign_up(service.api.address(), "eve").await;
    let page = eve.get("/dashboard").await;
    assert!(!page.text.contains("Finished jobs"), "{}", page.text);
}

#[tokio::test]
async fn without_finished_jobs_there_is_no_chart() {
    let (service, user) = with_owner(&[]).await;
    let api = super::key_of(&service, &user, "for schedules").await;
    let new = serde_json::json!({ "isEnabled": false });
    api.create(&service.target.url("/ok"), new).await;
    let page = user.get("/dashboard?range=7d").await;
    page.shows(200, &["No job ended in the last 7 days.", "aria-label=\"Range of the charts\""]);
    assert!(!page.text.contains("Finished jobs as a table"), "{}", page.text);
}
