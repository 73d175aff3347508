//! How a schedule and its next tick stand in the due index.
//!
//! The score is the tick in milliseconds. An id of 16 bytes would cost 16 more in the server, by
//! the way it rounds what it allocates. So the leading two bytes, which say in which span of 50 days
//! the schedule was made, are kept as the score's fraction: with 11 bits of it, a score is exact
//! until the year 2109, and schedules of one tick stand in the order of their ids.

use crate::domain::{ScheduleId, Timestamp};

/// The first span that does not fit; the year 2248.
const SPANS: u16 = 2_048;

/// The score and the member of a schedule's entry.
pub(super) fn encode(schedule: ScheduleId, tick: Timestamp) -> (String, Vec<u8>) {
    let (fraction, member) = parts(schedule);
    // Eleven bits of fraction are eleven decimal digits at most.
    let fraction = format!("{:.11}", f64::from(fraction) / f64::from(SPANS));
    (format!("{}{}", tick.as_millis(), fraction.trim_start_matches('0')), member)
}

/// The member alone, to take an entry out.
pub(super) fn member(schedule: ScheduleId) -> Vec<u8> {
    parts(schedule).1
}

fn parts(schedule: ScheduleId) -> (u16, Vec<u8>) {
    let bytes = schedule.to_bytes();
    let span = u16::from_be_bytes([bytes[0], bytes[1]]);
    if span < SPANS { (span, bytes[2..].to_vec()) } else { (0, bytes.to_vec()) }
}

/// The schedule and the tick of an entry; `None` for what no leader has written.
pub(super) fn decode(score: &[u8], member: &[u8]) -> Option<(ScheduleId, Timestamp)> {
    let (tick, fraction) = split(score)?;
    let mut bytes = [0; 16];
    if member.len() == bytes.len() {
        bytes.copy_from_slice(member);
    } else {
        bytes[..2].copy_from_slice(&fraction.to_be_bytes());
        let rest = bytes.get_mut(2..).filter(|rest| rest.len() == member.len())?;
        rest.copy_from_slice(member);
    }
    Some((ScheduleId::from_bytes(bytes), tick))
}

/// The tick of a score.
pub(super) fn tick(score: &[u8]) -> Option<Timestamp> {
    split(score).map(|(tick, _)| tick)
}

#[expect(clippy::cast_possible_truncation, reason = "the parts of a score fit their types")]
#[expect(clippy::cast_sign_loss, reason = "no score is below zero")]
fn split(score: &[u8]) -> Option<(Timestamp, u16)> {
    let score: f64 = std::str::from_utf8(score).ok()?.parse().ok()?;
    let fraction = (score.fract() * f64::from(SPANS)).round();
    Some((Timestamp::from_millis(score.trunc() as i64), fraction as u16))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_read_back() {
        let bits = 0x0123_4567_89ab_cdef_0123_u128;
        for made in [0, 1, 1_700_000_000_007, 4_000_000_000_000, 8_700_000_000_000] {
            let schedule = ScheduleId::new(Timestamp::from_millis(made), bits);
            for tick in [0, 999, 1_899_999_999_999, 4_398_046_511_103] {
                let tick = Timestamp::from_millis(tick);
                let (score, member) = encode(schedule, tick);
                // As the server prints what it has read.
                let printed = score.parse::<f64>().expect("a number").to_string();
                assert_eq!(decode(printed.as_bytes(), &member), Some((schedule, tick)), "{score}");
                assert_eq!(self::member(schedule), member);
            }
        }
    }

    #[test]
    fn schedules_of_one_tick_stand_in_the_order_of_their_ids() {
        let tick = Timestamp::from_millis(1_900_000_000_000);
        let place = |made| {
            let (score, member) = encode(ScheduleId::new(Timestamp::from_millis(made), 7), tick);
            (score.parse::<f64>().expect("a number"), member)
        };
        assert!(place(1_700_000_000_000) < place(1_700_000_000_001));
        assert!(place(4_294_967_295) < place(4_294_967_296), "over the border of a span");
    }
}
