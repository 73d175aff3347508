//! The list of jobs, filtered by a schedule that is found by its name.

use serde_json::json;

use super::{key_of, with_owner};

#[tokio::test]
async fn jobs_are_filtered_by_the_name_of_a_schedule() {
    let (service, ann) = with_owner(&[]).await;
    let api = key_of(&service, &ann, "deploy").await;
    let mut jobs = Vec::new();
    for name in ["Nightly report", "Nightly", "Weekly <b>"] {
        let id = api.create(&service.target.url("/ok"), json!({ "name": name })).await;
        let job = api.trigger(&id).await;
        api.finished(&job).await;
        jobs.push((id, job));
    }
    service.api.create("https://a.example/", json!({ "name": "Foreign" })).await;

    // One match leads to the address of its jobs.
    let found = ann.get("/dashboard/jobs?name=WEEKLY&status=SUCCESS").await;
    let weekly = format!("/dashboard/jobs?status=SUCCESS&schedule={}", jobs[2].0);
    assert_eq!((found.status, found.header("location")), (303, weekly.as_str()));
    let list = ann.get(&weekly).await;
    list.shows(
        200,
        &["Schedule: Weekly &lt;b&gt;", "Remove the filter by the schedule", &jobs[2].1],
    );
    list.shows(200, &["href=\"/dashboard/jobs?status=SUCCESS\""]);
    list.hides(&[jobs[0].1.as_str(), &jobs[1].1]);

    // So does the exact name, although another one contains it. Else there is a choice.
    let exact = ann.get("/dashboard/jobs?name=nightly").await;
    assert_eq!(exact.header("location"), format!("/dashboard/jobs?schedule={}", jobs[1].0));
    let several = ann.get("/dashboard/jobs?name=night").await;
    several.shows(200, &["Choose one:", "value=\"night\""]);
    for (id, _) in &jobs[..2] {
        several.shows(200, &[&format!("href=\"/dashboard/jobs?schedule={id}\"")]);
    }
    several.hides(&[&format!("href=\"/dashboard/jobs?schedule={}\"", jobs[2].0)]);

    // Neither a foreign name nor a part of a URL is found.
    for name in ["Foreign", "127.0.0.1", "%00", "no%20such"] {
        let none = ann.get(&format!("/dashboard/jobs?name={name}")).await;
        assert_eq!(none.status, 200, "{name}");
        none.hides(&["Choose one:", "class=\"chip\""]);
    }
    ann.get("/dashboard/jobs?name=x%3C").await.shows(200, &["contains “x&lt;”"]);

    // An id works, also that of a deleted schedule.
    let deleted = api.call("DELETE", &format!("/v1/schedules/{}", jobs[0].0), None).await;
    assert_eq!(deleted.expect("answered").status, 200);
    let by_id = ann.get(&format!("/dashboard/jobs?name={}", jobs[0].0)).await;
    let page = ann.get(by_id.header("location")).await;
    page.shows(200, &[&format!("Schedule: {}", jobs[0].0), &jobs[0].1]);
    ann.get("/dashboard/jobs?schedule=x").await.shows(200, &["Schedule: x", "No job matches."]);
}

#[tokio::test]
async fn a_search_offers_a_limited_number_of_schedules() {
    let (service, ann) = with_owner(&[]).await;
    let api = key_of(&service, &ann, "deploy").await;
    for number in 0..22 {
        api.create("https://a.example/", json!({ "name": format!("Same {number}") })).await;
    }
    api.run(&service.target.url("/ok"), json!({ "name": "z Same" })).await;
    let many = ann.get("/dashboard/jobs?name=same").await;
    many.shows(200, &["There are more. Type a longer part of the name."]);
    assert_eq!(many.text.matches("jobs?schedule=sch_").count(), 20);
}
