//! The schedules that a channel's page, and the page that deletes it, name.

use serde_json::{Value, json};

use super::{key_of, with_owner};

#[tokio::test]
async fn a_channel_names_the_schedules_that_use_it() {
    let (service, ann) = with_owner(&[]).await;
    let api = key_of(&service, &ann, "deploy").await;
    let new = json!({ "type": "webhook", "label": "Ops", "config": { "url": service.target.url("/ok") } });
    let made = api.post("/v1/notification-channels", &new).await;
    let channel = made.data()["id"].as_str().expect("an id").to_owned();
    let verify = format!("/v1/notification-channels/{channel}/verify");
    assert_eq!(api.post(&verify, &Value::Null).await.status, 200);
    let page = format!("/dashboard/channels/{channel}");
    let delete = format!("{page}/delete");
    ann.get(&page).await.shows(200, &["Where used", "No schedule sends alerts to this channel."]);
    ann.get(&delete).await.shows(200, &["Delete the channel Ops?"]).hides(&["Schedules whose"]);

    let preference = json!({ "notifyOn": "failure", "channelIds": [channel] });
    let mut paths = Vec::new();
    for number in 0..51 {
        let name = json!({ "name": format!("Job <{number}>") });
        let id = api.create("https://a.example/", name).await;
        let path = format!("/v1/schedules/{id}/notifications");
        let set = api.call("PUT", &path, Some(&preference)).await.expect("answered");
        assert_eq!(set.status, 200, "{set:?}");
        paths.push(format!("/dashboard/schedules/{id}\">Job &lt;{number}&gt;</a>"));
    }
    let unrelated = api.create("https://a.example/", json!({ "name": "Unrelated" })).await;
    for path in [&page, &delete] {
        let shown = ann.get(path).await;
        shown.shows(200, &[": 51<", "These are the newest 50 of 51 schedules.", &paths[50]]);
        shown.hides(&[unrelated.as_str(), paths[0].as_str()]);
        assert_eq!(shown.text.matches("<li><a href=\"/dashboard/schedules/").count(), 50);
    }
    ann.post(&delete, &[]).await.shows(303, &[]);
    ann.get(&page).await.shows(404, &[]);
}
