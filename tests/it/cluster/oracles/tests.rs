//! Tests of the oracles on artificial histories.

use super::super::history::*;
use super::super::lapse::MINUTE;
use super::alerts::{CLAIMED, DELIVERED, FAILED, MERGED};
use super::{judge, names};

const ID: &str = "sch_1";

fn call(operation: ApiOperation, at: i64, answer: Answer) -> Call {
    Call { operation, begun_at: at, ended_at: at + 10, answer, account: 0 }
}

fn done(ids: &[&str]) -> Answer {
    Answer::Done(ids.iter().map(|id| (*id).to_owned()).collect())
}

fn job_of_tick(tick: i64) -> Job {
    Job {
        id: format!("job_{tick}"),
        schedule: ID.to_owned(),
        status: "SUCCESS".to_owned(),
        trigger: "schedule".to_owned(),
        tick,
        created: tick + 5,
        started: Some(tick + 9),
        completed: Some(tick + 30),
        updated: tick + 31,
        number: 1,
        most: 3,
        endpoint: "http://target/ok/7".to_owned(),
        body: "7".to_owned(),
        attempts: vec![Attempt {
            number: 1,
            started: Some(tick + 9),
            completed: Some(tick + 30),
            duration: Some(20),
            status: Some(200),
            error: None,
        }],
        ..Job::default()
    }
}

fn hit_of(job: &Job, attempt: u32) -> Hit {
    Hit {
        job: job.id.clone(),
        attempt,
        path: "/ok/7".to_owned(),
        body: "7".to_owned(),
        at: job.tick + 12,
        answered: Some(200),
    }
}

/// Returns a valid history with three ticks of a schedule and a trigger.
fn good() -> History {
    let names = vec!["one".to_owned()];
    let mut jobs: Vec<_> = [1, 2, 3].map(|minute| job_of_tick(minute * MINUTE)).into();
    let mut manual = job_of_tick(100_000);
    manual.trigger = "manual".to_owned();
    jobs.push(manual);
    let write = |epoch: bool| match epoch {
        true => Written::Epoch { shard: 0, epoch: 1, life: "0.1".to_owned() },
        false => Written::Fired { shard: 0, epoch: 1, life: "0.1".to_owned() },
    };
    History {
        calls: vec![
            call(ApiOperation::Create { names, minutes: 1 }, 1_000, done(&[ID])),
            call(ApiOperation::Trigger { schedule: ID.to_owned() }, 99_990, done(&["job_100000"])),
            call(ApiOperation::Read { job: "job_100000".to_owned() }, 100_000, done(&[])),
        ],
        hits: jobs.iter().map(|job| hit_of(job, 1)).collect(),
        seen: vec![Job { attempts: Vec::new(), ..jobs[0].clone() }],
        jobs,
        schedules: vec![Schedule {
            id: ID.to_owned(),
            name: "one".to_owned(),
            enabled: true,
            next: Some(4 * MINUTE),
            account: 0,
        }],
        writes: vec![write(true), write(false)],
        resource_usage: vec![ResourceUsage {
            what: "files".to_owned(),
            before: 9,
            after: 9,
            most: 9,
        }],
        cut: 3 * MINUTE + 20_000,
        read: 3 * MINUTE + 21_000,
        calm: true,
        prompt: true,
        ..History::default()
    }
}

/// Asserts the violations of a valid history after `spoil`.
#[track_caller]
fn found(expected: &[&str], spoil: impl FnOnce(&mut History)) {
    let mut history = good();
    spoil(&mut history);
    let violations = judge(&history);
    let names: Vec<_> = names(&violations).into_iter().collect();
    assert_eq!(names, expected, "{violations:#?}");
}

#[test]
fn a_good_history_is_found_to_be_good() {
    found(&[], |_| {});
}

#[test]
fn lost_ticks_are_found() {
    found(&["I1"], |history| {
        let lost = history.jobs.remove(1);
        history.hits.retain(|hit| hit.job != lost.id);
    });
    let skip = |first: i64| Skip {
        schedule: ID.to_owned(),
        first: first * MINUTE,
        last: first * MINUTE,
        count: 1,
        reason: "catch_up".to_owned(),
    };
    found(&[], |history| {
        let lost = history.jobs.remove(1);
        history.hits.retain(|hit| hit.job != lost.id);
        history.skips.push(skip(2));
    });
    found(&["I2"], |history| history.skips.push(skip(2)));
    found(&["I1"], |history| {
        let lost = history.jobs.remove(1);
        history.hits.retain(|hit| hit.job != lost.id);
        history.skips.push(Skip { count: 2, ..skip(2) });
    });
}

#[test]
fn doubled_and_stray_ticks_are_found() {
    found(&["I2"], |history| {
        let twin = Job { id: "job_twin".to_owned(), ..history.jobs[0].clone() };
        history.hits.push(hit_of(&twin, 1));
        history.jobs.push(twin);
    });
    found(&["I2"], |history| {
        let stray = job_of_tick(2 * MINUTE + 30_000);
        history.hits.push(hit_of(&stray, 1));
        history.jobs.push(stray);
    });
    found(&["I2"], |history| {
        let mut unknown = job_of_tick(100_001);
        unknown.trigger = "manual".to_owned();
        history.hits.push(hit_of(&unknown, 1));
        history.jobs.push(unknown);
    });
}

#[test]
fn disabled_schedules_must_not_tick_and_enabled_ones_must() {
    let switch = |on, at| {
        let operation = ApiOperation::Switch { schedule: ID.to_owned(), on };
        call(operation, at, done(&[]))
    };
    found(&["I2"], |history| {
        history.calls.push(switch(false, 90_000));
        history.calls.push(switch(true, 150_000));
    });
    found(&["I2"], |history| {
        history.calls.push(switch(false, 90_000));
        history.calls.push(switch(true, 150_000));
        // The tick was due while the schedule was off. Its job was made after it was on again.
        let late = &mut history.jobs[1];
        (late.created, late.started) = (151_000, Some(151_010));
        (late.completed, late.updated) = (Some(151_030), 151_031);
        (late.attempts[0].started, late.attempts[0].completed) = (late.started, late.completed);
        let id = late.id.clone();
        let hit = history.hits.iter_mut().find(|hit| hit.job == id).expect("sent");
        hit.at = 151_020;
    });
    found(&[], |history| {
        history.calls.push(switch(false, 90_000));
        history.calls.push(switch(true, 150_000));
        let off = history.jobs.remove(1);
        history.hits.retain(|hit| hit.job != off.id);
    });
    found(&["I1"], |history| {
        history.calls.push(switch(false, 90_000));
        history.calls.push(switch(true, 150_000));
        for tick in [3, 2] {
            let gone = history.jobs.remove(tick - 1);
            history.hits.retain(|hit| hit.job != gone.id);
        }
    });
    found(&["I7"], |history| history.calls.push(switch(false, 199_995)));
}

#[test]
fn early_and_late_ones_are_found() {
    found(&["I8"], |history| history.hits[0].at = MINUTE - 60);
    found(&["I8"], |history| {
        history.latest_ms = Some(3);
    });
    found(&["I8"], |history| history.hits.iter_mut().for_each(|hit| hit.at += 2_000));
    found(&["I8"], |history| history.rescued = history.jobs.len() as u64);
}

#[test]
fn wrong_attempts_are_found() {
    found(&["I3"], |history| {
        let again = hit_of(&history.jobs[0], 1);
        history.hits.push(again);
    });
    found(&["I3"], |history| {
        let unknown = hit_of(&history.jobs[0], 2);
        history.hits.push(unknown);
    });
    found(&["I3", "I6"], |history| history.jobs[0].attempts[0].number = 2);
    found(&["I3", "I6"], |history| {
        history.jobs[0].number = 4;
        history.seen.clear();
    });
}

#[test]
fn jobs_that_do_not_end_or_change_after_their_end_are_found() {
    found(&["I4"], |history| {
        history.seen.clear();
        history.jobs[0].status = "PENDING".to_owned();
    });
    found(&["I5"], |history| history.jobs[0].completed = Some(MINUTE + 31));
    found(&["I5"], |history| history.jobs[1].started = Some(MINUTE));
    found(&["I5"], |history| {
        history.seen.push(Job { id: "job_gone".to_owned(), ..job_of_tick(MINUTE) });
    });
    found(&["I5"], |history| history.jobs[1].attempts[0].duration = Some(90));
    found(&["I5"], |history| history.jobs[1].attempts[0].started = None);
    found(&["I5"], |history| {
        let job = &mut history.jobs[1];
        job.endpoint = "http://target/slow/25/ok/7".to_owned();
    });
}

#[test]
fn calls_that_take_too_long_are_found() {
    let late = |history: &mut History| {
        let job = &mut history.jobs[1];
        job.updated = job.tick + 40_000;
    };
    found(&["I4"], late);
    found(&[], |history| {
        late(history);
        history.faults.push(FaultPeriod { begun_at: 0, over_at: 2 * MINUTE + 31_000 });
    });
    found(&["I4"], |history| {
        late(history);
        history.faults.push(FaultPeriod { begun_at: 0, over_at: 2 * MINUTE + 9_000 });
    });
    found(&[], |history| {
        late(history);
        history.latest_ms = Some(30_000);
    });
}

#[test]
fn store_and_target_that_differ_are_found() {
    found(&["I6"], |history| {
        history.hits.push(Hit { job: "job_unknown".to_owned(), attempt: 1, ..Hit::default() });
    });
    found(&["I6"], |history| history.hits[0].answered = Some(500));
    found(&["I6"], |history| history.hits[0].body = "8".to_owned());
    found(&["I3", "I6"], |history| drop(history.hits.remove(0)));
}

#[test]
fn broken_promises_are_found() {
    found(&["I7"], |history| history.schedules[0].id = "sch_2".to_owned());
    found(&["I7"], |history| {
        let gone = history.jobs.pop().expect("the manual one");
        history.hits.retain(|hit| hit.job != gone.id);
    });
    let change = |ended_at| {
        let (schedule, body) = (ID.to_owned(), "new".to_owned());
        call(ApiOperation::Change { schedule, minutes: 1, body }, ended_at, done(&[]))
    };
    found(&["I7"], |history| history.calls.push(change(70_000)));
    found(&[], |history| history.calls.push(change(199_995)));
    found(&["I7"], |history| {
        let names = vec!["one".to_owned(), "two".to_owned()];
        history.faults.push(FaultPeriod { begun_at: 0, over_at: 9_000 });
        history.calls.push(call(ApiOperation::Create { names, minutes: 0 }, 1, Answer::Lost));
    });
    let refused = |status, code: &str| Answer::Refused { status, code: code.to_owned() };
    let other = || ApiOperation::Trigger { schedule: ID.to_owned() };
    found(&["I7"], |history| {
        history.calls.push(call(other(), 1, refused(503, "SERVICE_UNAVAILABLE")));
    });
    found(&[], |history| {
        history.faults.push(FaultPeriod { begun_at: 0, over_at: 9_000 });
        history.calls.push(call(other(), 1, refused(503, "SERVICE_UNAVAILABLE")));
    });
    found(&["I7"], |history| {
        history.faults.push(FaultPeriod { begun_at: 0, over_at: 9_000 });
        history.calls.push(call(other(), 1, refused(500, "INTERNAL_ERROR")));
    });
    found(&["I7"], |history| {
        history.calls.push(call(
            ApiOperation::Delete { schedule: ID.to_owned() },
            199_995,
            done(&[]),
        ));
    });
}

#[test]
fn answers_that_reveal_foreign_objects_are_found() {
    let probe = |code: u16, said: &str| Probe {
        what: "GET it".to_owned(),
        of_other: (code, said.to_owned()),
        of_unknown: (404, "none".to_owned()),
    };
    found(&[], |history| history.probes = vec![probe(404, "none"), probe(503, "later")]);
    found(&["I9"], |history| history.probes = vec![probe(404, "not yours")]);
    found(&["I9"], |history| history.probes = vec![probe(200, "all of it")]);
    found(&["I9"], |history| history.schedules[0].name = "mine".to_owned());
    found(&["I9"], |history| history.schedules[0].account = 1);
    found(&["I9"], |history| history.jobs[1].account = 1);
}

#[test]
fn writes_of_old_leaders_are_found() {
    let raise = |epoch, life: &str| Written::Epoch { shard: 0, epoch, life: life.to_owned() };
    let job = |epoch, life: &str| Written::Fired { shard: 0, epoch, life: life.to_owned() };
    found(&[], |history| history.writes = vec![raise(1, "0.1"), raise(2, "1.1"), job(2, "1.1")]);
    found(&["I10"], |history| {
        history.writes = vec![raise(1, "0.1"), raise(2, "1.1"), job(2, "0.1")];
    });
    found(&["I10"], |history| history.writes = vec![raise(2, "0.1"), raise(2, "1.1")]);
}

#[test]
fn loops_that_stand_still_and_use_that_grows_are_found() {
    found(&["I11"], |history| history.schedules[0].next = Some(2 * MINUTE));
    found(&["I11"], |history| history.schedules[0].next = None);
    found(&["I12"], |history| history.resource_usage[0].after = 10);
}

#[test]
fn ends_without_an_alert_or_with_two_are_found() {
    let alert_of = |job: &Job, status: i16| Alert {
        job: job.id.clone(),
        event: format!("evt_{}", job.id),
        kind: "job.succeeded".to_owned(),
        status,
        is_merged: status == MERGED,
    };
    let alerting = |history: &mut History, change: &dyn Fn(&mut History)| {
        history.alerting = vec![ID.to_owned()];
        history.alerts = history.jobs.iter().map(|job| alert_of(job, DELIVERED)).collect();
        history.received = history.alerts.iter().map(|alert| alert.event.clone()).collect();
        change(history);
    };
    let right: [&dyn Fn(&mut History); 3] = [
        &|_| (),
        &|history| history.alerts[0] = alert_of(&history.jobs[0], MERGED),
        // Jobs that ended before the preference was set have no alert.
        &|history| {
            history.alerting_since = 10 * MINUTE;
            history.alerts.clear();
        },
    ];
    let wrong: [&dyn Fn(&mut History); 7] = [
        &|history| drop(history.alerts.remove(1)),
        &|history| history.alerts.push(alert_of(&history.jobs[1], MERGED)),
        &|history| history.alerts[1].status = CLAIMED,
        &|history| history.alerts[1].status = FAILED,
        &|history| {
            history.alerts[1] = Alert { is_merged: false, ..alert_of(&history.jobs[1], MERGED) }
        },
        &|history| history.alerts[1].kind = "job.failed".to_owned(),
        &|history| drop(history.received.pop_first()),
    ];
    for change in right {
        found(&[], |history| alerting(history, change));
    }
    for change in wrong {
        found(&["I13"], |history| alerting(history, change));
    }
}
