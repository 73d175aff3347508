//! Texts that are not an expression or not a timezone, and unusual texts that are valid.

use crate::domain::cron::{
    Cron, InvalidCron, InvalidRecurrence, InvalidTimezone, Recurrence, parse_timezone,
};

const REFUSED: &[&str] = &[
    "",
    " ",
    "*",
    "* * * *",
    "* * * * * *",
    "0 * * * * *",
    "0 0 1 1 * 2026",
    "0 0 0 1 1 * 2026",
    "@daily",
    "@hourly",
    "@reboot",
    "@every 5m",
    "60 * * * *",
    "-1 * * * *",
    "+1 * * * *",
    "1.5 * * * *",
    "0x1 * * * *",
    "* 24 * * *",
    "* * 0 * *",
    "* * 32 * *",
    "* * * 0 *",
    "* * * 13 *",
    "* * * * 8",
    "* * * * -7",
    "*/0 * * * *",
    "1/0 * * * *",
    "1-5/0 * * * *",
    "*/00 * * * *",
    "*/-1 * * * *",
    "*/ * * * *",
    "/5 * * * *",
    "*/5/5 * * * *",
    "1-5/2/2 * * * *",
    "*/a * * * *",
    "30-10 * * * *",
    "* 22-2 * * *",
    "* * * DEC-JAN *",
    "* * * * FRI-MON",
    "* * * * 6-0",
    "* * * * SAT-0",
    "* * * * 7-1",
    "1- * * * *",
    "-5 * * * *",
    "1-2-3 * * * *",
    "*-5 * * * *",
    "5-* * * * *",
    "** * * * *",
    "*5 * * * *",
    "5* * * * *",
    ", * * * *",
    "1, * * * *",
    ",1 * * * *",
    "1,,2 * * * *",
    "1 ,2 * * * *",
    "0 0 L * *",
    "0 0 1W * *",
    "0 0 LW * *",
    "0 0 L-1 * *",
    "0 0 * * 5L",
    "0 0 * * 5#2",
    "0 0 * * MON#1",
    "0 0 ? * *",
    "0 0 * * ?",
    "H * * * *",
    "~ * * * *",
    "0 0 * JANUARY *",
    "0 0 * JA *",
    "0 0 * * MONDAY",
    "0 0 * * TUES",
    "0 0 * * JAN",
    "0 0 * MON *",
    "JAN * * * *",
    "0 0 MON * *",
    "0 0 * * MON-",
    "0 0 30 2 *",
    "0 0 30,31 FEB *",
    "0 0 31 4 *",
    "0 0 31 2,4,6,9,11 *",
    "0 0 30 2 */2",
    "0 0 31 4 *,1",
    "0\n0 * * *",
    "0 0 * * *\n",
    "0\u{a0}0 * * *",
    "0\u{3000}0 * * *",
    "\u{ff11} * * * *",
    "\u{661} * * * *",
    "0 0 * * \u{17f}un",
    "0 0 * * *\0",
    "'0 0 * * *'",
    "0 0 * * * # daily",
    "99999999999999999999 * * * *",
    "0-4294967296 * * * *",
];

#[test]
fn refused() {
    let long = format!("{} * * * *", vec!["1"; 125].join(","));
    assert_eq!(long.len(), 257);
    for text in REFUSED.iter().copied().chain([long.as_str()]) {
        let error = Cron::parse(text).expect_err(text);
        assert_eq!(error.to_string(), "Invalid cron expression");
    }
}

#[test]
fn a_refusal_has_a_reason() {
    let reason = |text| Cron::parse(text).expect_err(text).reason(text);
    for (text, expected) in [
        ("61 * * * *", "minute 61: must be 0 to 59, "),
        ("* 24 * * *", "hour 24: must be 0 to 23, "),
        ("* * 1,32 * *", "day of month 1,32: must be 1 to 31, "),
        ("* * * JUNE *", "month JUNE: must be 1 to 12 or JAN to DEC, "),
        ("* * * *  8 ", "day of week 8: must be 0 to 7 or SUN to SAT, "),
        ("* * * *", "it has 4 fields and must have five: minute, hour, day of month, month, "),
        ("@daily", "it has 1 fields and must have five: "),
        ("0 0 30 2 *", "no month has that day"),
    ] {
        assert!(reason(text).starts_with(expected), "{text}: {}", reason(text));
    }
    assert_eq!(reason(&"0,".repeat(200)), "it is longer than 255 characters");
}

#[test]
fn taken() {
    let fits = format!("{} * * * *", vec!["1"; 124].join(","));
    assert_eq!(fits.len(), 255);
    let texts = [
        "0 0 29 2 *",
        "0 0 29-31 2 *",
        "0 0 30 2 1",
        "0 0 31 2,3 *",
        "\t0  0\t \t* * *  ",
        "00 007 * * *",
        "59-59 * * * *",
        "0-59/59 * * * *",
        "*/99999999999999999999 * * * *",
        "* * * * 7-7",
        "* * * * 0-7",
        "* * * * SAT-SUN",
        "* * * jan-DEC sun-sat",
        "*,*,* * * * *",
        &fits,
    ];
    for text in texts {
        assert!(Cron::parse(text).is_ok(), "{text:?}");
    }
}

#[test]
fn one_meaning_in_two_spellings() {
    let same = [
        ("0 0 * * 0", "0 0 * * SUN"),
        ("0 0 * * 7", "0 0 * * SUN"),
        ("0 0 * * 5-7", "0 0 * * fri,sat,sun"),
        ("0 0 * * 5-7", "0 0 * * FRI-SUN"),
        ("0 0 1 jan *", "0 0 1 1 *"),
        ("5/20 * * * *", "5,25,45 * * * *"),
        ("0 5/9 * * *", "0 5-23/9 * * *"),
        ("0 0 29/1 * *", "0 0 29-31 * *"),
        ("0 0 1 9/2 *", "0 0 1 9,11 *"),
        ("0 0 * * 1/3", "0 0 * * 1,4,7"),
        ("0 0 * * MON/6", "0 0 * * 0,1"),
        (" 00 0 * * *", "0 0 * * *"),
    ];
    for (one, other) in same {
        assert_eq!(Cron::parse(one).unwrap(), Cron::parse(other).unwrap(), "{one}");
    }
    let different = [("0 0 */1 * 1", "0 0 1-31 * 1"), ("0 * * * *", "0 0-23 * * *")];
    for (one, other) in different {
        assert_ne!(Cron::parse(one).unwrap(), Cron::parse(other).unwrap(), "{one}");
    }
}

#[test]
fn timezones() {
    for name in ["UTC", "Europe/Berlin", "Asia/Calcutta", "US/Eastern", "EST5EDT", "Etc/GMT+5"] {
        assert_eq!(parse_timezone(name).map(chrono_tz::Tz::name), Ok(name));
    }
    let texts = [
        "",
        " ",
        "utc",
        "europe/berlin",
        "EUROPE/BERLIN",
        " UTC",
        "UTC ",
        "Europe/Berlin\0",
        "Europe/Atlantis",
        "Europe",
        "+01:00",
        "UTC+1",
        "CEST",
        "Local",
        "localtime",
        "../../etc/passwd",
        "Europe\\Berlin",
        "Europe__Berlin",
    ];
    for text in texts {
        assert_eq!(parse_timezone(text), Err(InvalidTimezone), "{text:?}");
    }
    assert_eq!(InvalidTimezone.to_string(), "Invalid timezone");
}

#[test]
fn a_recurrence_says_which_text_is_wrong() {
    let error = |expression, timezone| Recurrence::parse(expression, timezone).unwrap_err();
    assert_eq!(error("x", "UTC"), InvalidRecurrence::Cron(InvalidCron::FieldCount(1)));
    assert_eq!(error("* * * * *", "x"), InvalidRecurrence::Timezone(InvalidTimezone));
    assert_eq!(error("x", "x").to_string(), "Invalid cron expression");
    assert_eq!(error("* * * * *", "x").to_string(), "Invalid timezone");
}
