//! Tests descriptions, previews and warnings.

use super::at;
use crate::domain::cron::{Cron, FutureRun, Recurrence, describe, preview, warnings};

#[test]
fn descriptions() {
    let expected = [
        ("* * * * *", "Every minute"),
        ("*/5 * * * *", "Every 5 minutes"),
        ("*/30 * * * *", "Every 30 minutes"),
        ("0,30 * * * *", "Every 30 minutes"),
        ("*/25 * * * *", "At 0, 25 and 50 minutes past every hour"),
        ("5-59/20 * * * *", "At 5, 25 and 45 minutes past every hour"),
        ("0 * * * *", "Every hour, on the hour"),
        ("0 0-23 * * *", "Every hour, on the hour"),
        ("1 * * * *", "At 1 minute past every hour"),
        ("10-20 * * * *", "At 10 through 20 minutes past every hour"),
        ("30 9 * * 1-5", "At 09:30, Monday through Friday"),
        ("0 9,17 * * *", "At 09:00 and 17:00"),
        ("0 */4 * * *", "Every 4 hours"),
        ("0 */12 * * *", "At 00:00 and 12:00"),
        ("0 */5 * * *", "At 00:00, 05:00, 10:00, 15:00 and 20:00"),
        ("0 9-17 * * *", "Every hour from 09:00 through 17:00"),
        (
            "*/5 9-17 * * MON-FRI",
            "Every 5 minutes, from 09:00 through 17:59, Monday through Friday",
        ),
        ("30 */2 * * *", "At 30 minutes past the hour, in every 2nd hour"),
        ("* 2 * * *", "Every minute, from 02:00 through 02:59"),
        ("0,20,40 1,5,9,22 * * *", "Every 20 minutes, in the hours 01, 05, 09 and 22"),
        ("0 0 1 * *", "At 00:00, on day 1 of the month"),
        ("0 0 1,15 * *", "At 00:00, on days 1 and 15 of the month"),
        ("0 0 1-7 * *", "At 00:00, on days 1 through 7 of the month"),
        ("0 0 */2 * *", "At 00:00, on every 2nd day of the month from day 1 through 31"),
        ("0 0 13 * 5", "At 00:00, on day 13 of the month or on Friday"),
        ("0 0 1-7 * */7", "At 00:00, on days 1 through 7 of the month, but only on Sunday"),
        ("0 0 1-31 * 1", "At 00:00"),
        ("0 0 29 2 *", "At 00:00, on day 29 of the month, in February"),
        ("0 0 1 1-3 *", "At 00:00, on day 1 of the month, from January through March"),
        ("0 12 1 JAN,JUL *", "At 12:00, on day 1 of the month, in January and July"),
        ("0 0 * * 0,6", "At 00:00, on Saturday and Sunday"),
        ("0 0 * * 5-7", "At 00:00, Friday through Sunday"),
        ("0 0 * * 0-4", "At 00:00, Sunday through Thursday"),
        ("0 0 * * 0", "At 00:00, on Sunday"),
        ("0 0 * * 1,3,5", "At 00:00, on Monday, Wednesday and Friday"),
    ];
    for (expression, description) in expected {
        assert_eq!(describe(&Cron::parse(expression).unwrap()), description, "{expression}");
    }
}

fn warned(expression: &str, timezone: &str) -> Vec<String> {
    warnings(&Recurrence::parse(expression, timezone).unwrap(), at("2026-01-01T00:00"))
}

#[test]
fn most_expressions_have_no_warnings() {
    let expressions = [
        "* * * * *",
        "*/5 * * * *",
        "*/15 9-17 * * 1-5",
        "30 * * * *",
        "0 */6 * * *",
        "30 9 * * MON-FRI",
        "0 12 1 * *",
        "0 12 28 2 *",
        "0 12 * * 0",
        "*/7 9 * * *",
        "0 */5 * * 1",
    ];
    for expression in expressions {
        assert_eq!(warned(expression, "Europe/Berlin"), Vec::<String>::new(), "{expression}");
    }
}

#[test]
fn warnings_about_days_and_steps() {
    let expected: [(&str, &[&str]); 14] = [
        (
            "0 0 31 * *",
            &["It skips February, April, June, September and November: there is no day 31 then."],
        ),
        ("0 0 31 4,5 *", &["It skips April: there is no day 31 then."]),
        ("0 0 30,31 * *", &["It skips February: there is no day 30 then."]),
        (
            "0 0 29 * *",
            &["In February it runs only in leap years: there is no day 29 in other years."],
        ),
        (
            "0 0 29 2 *",
            &[
                "In February it runs only in leap years: there is no day 29 in other years.",
                "The next run is more than a year away, on 2028-02-29.",
            ],
        ),
        (
            "0 0 31 4 1",
            &[
                "Day of month and day of week are both restricted: it runs on days that match either of them.",
            ],
        ),
        (
            "0 0 1-7 * */7",
            &[
                "One of the day fields begins with *: it runs only on days that match both of them.",
                "*/7 allows one day of the week only: Sunday.",
            ],
        ),
        (
            "*/7 * * * *",
            &[
                "Every 7th minute is counted afresh each hour: the last step before a new hour is shorter.",
            ],
        ),
        ("*/60 * * * *", &["*/60 allows one minute of the hour only: 0."]),
        (
            "0 */5 * * *",
            &[
                "Every 5th hour is counted afresh each day: the last step before a new day is shorter.",
            ],
        ),
        (
            "0 0 */2 * *",
            &[
                "Every 2nd day is counted afresh each month: the last step before a new month can be shorter.",
            ],
        ),
        ("0 0 */31 * *", &["*/31 allows one day of the month only: 1."]),
        (
            "0 0 1 */5 *",
            &[
                "Every 5th month is counted afresh each year: the last step before a new year is shorter.",
            ],
        ),
        (
            "0 0 * * */2",
            &[
                "Every 2nd day is counted afresh each week: the last step before a new week is shorter.",
            ],
        ),
    ];
    for (expression, sentences) in expected {
        assert_eq!(warned(expression, "UTC"), sentences, "{expression}");
    }
    let at_the_end = Recurrence::parse("0 0 29 2 *", "UTC").unwrap();
    let sentences = warnings(&at_the_end, at("2099-01-01T00:00"));
    assert_eq!(sentences[1], "It does not run again up to the end of the year 2100.");
}

#[test]
fn warnings_about_the_clock() {
    assert_eq!(
        warned("30 2 * * *", "Europe/Berlin"),
        [
            "On 2026-03-29 the clock of Europe/Berlin moves from 02:00 forward to 03:00: runs \
             that are due in between happen once, after the change.",
            "On 2026-10-25 the clock of Europe/Berlin moves from 03:00 back to 02:00: runs that \
             are due in between happen once, in the first pass.",
        ]
    );
    assert_eq!(
        warned("30 */2 * * *", "Europe/Berlin"),
        [
            "On 2026-03-29 the clock of Europe/Berlin moves from 02:00 forward to 03:00: runs \
             that are due in between are skipped on that day.",
            "On 2026-10-25 the clock of Europe/Berlin moves from 03:00 back to 02:00: runs that \
             are due in between happen in both passes.",
        ]
    );
    assert_eq!(
        warned("15 2 * * *", "Australia/Lord_Howe"),
        ["On 2026-10-04 the clock of Australia/Lord_Howe moves from 02:00 forward to 02:30: \
             runs that are due in between happen once, after the change."]
    );
    let apia = Recurrence::parse("0 12 30 12 *", "Pacific/Apia").unwrap();
    assert_eq!(
        warnings(&apia, at("2011-06-01T00:00")),
        ["On 2011-12-30 the clock of Pacific/Apia moves from 00:00 forward to 2011-12-31 \
             00:00: runs that are due in between happen once, after the change."]
    );
}

fn first_run(expression: &str, timezone: &str, from: &str) -> FutureRun {
    preview(&Recurrence::parse(expression, timezone).unwrap(), at(from), 1).remove(0)
}

#[test]
fn runs_show_the_wall() {
    let recurrence = Recurrence::parse("0 9 * * 1-5", "America/New_York").unwrap();
    let runs = preview(&recurrence, at("2026-03-06T14:00"), 3);
    let shown: Vec<_> = runs.iter().map(|run| (run.utc, run.local.as_str())).collect();
    let expected = [
        (at("2026-03-09T13:00"), "2026-03-09T09:00:00-04:00"),
        (at("2026-03-10T13:00"), "2026-03-10T09:00:00-04:00"),
        (at("2026-03-11T13:00"), "2026-03-11T09:00:00-04:00"),
    ];
    assert_eq!(shown, expected);
    assert!(runs.iter().all(|run| run.note.is_none()));
    assert_eq!(
        first_run("0 0 * * *", "UTC", "2026-01-01T00:00").local,
        "2026-01-02T00:00:00+00:00"
    );
    assert_eq!(preview(&recurrence, at("2100-12-30T15:00"), 9).len(), 1);
    assert_eq!(preview(&recurrence, at("2026-01-01T00:00"), 0), []);
}

#[test]
fn runs_note_changes_of_the_clock() {
    let expected = [
        (
            "30 2 * * *",
            "2026-03-28T12:00",
            "2026-03-29T03:00:00+02:00",
            Some("2026-03-29 02:30 is skipped by the clock; it runs at the end of the gap."),
        ),
        (
            "*/15 2 * * *",
            "2026-03-28T12:00",
            "2026-03-29T03:00:00+02:00",
            Some(
                "4 times from 2026-03-29 02:00 to 2026-03-29 02:45 are skipped by the clock; they \
                 run once, at the end of the gap.",
            ),
        ),
        ("0 3 * * *", "2026-03-28T12:00", "2026-03-29T03:00:00+02:00", None),
        ("*/30 * * * *", "2026-03-29T00:45", "2026-03-29T03:00:00+02:00", None),
        (
            "30 2 * * *",
            "2026-10-24T12:00",
            "2026-10-25T02:30:00+02:00",
            Some("02:30 is shown twice on this day; it runs the first time."),
        ),
        ("30 3 * * *", "2026-10-24T12:00", "2026-10-25T03:30:00+01:00", None),
        (
            "30 * * * *",
            "2026-10-25T00:00",
            "2026-10-25T02:30:00+02:00",
            Some("02:30 is shown twice on this day; this is the first time."),
        ),
        (
            "30 * * * *",
            "2026-10-25T01:00",
            "2026-10-25T02:30:00+01:00",
            Some("02:30 is shown twice on this day; this is the second time."),
        ),
    ];
    for (expression, from, local, note) in expected {
        let run = first_run(expression, "Europe/Berlin", from);
        assert_eq!((run.local.as_str(), run.note.as_deref()), (local, note), "{expression}");
    }
}
