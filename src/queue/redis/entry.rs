//! The encoding of a schedule and its next tick in the due index.
//!
//! The score is the tick in milliseconds, the member is the schedule's id and its account's. A
//! member that is two bytes shorter takes 16 bytes less in the server, because of how the server
//! rounds what it allocates. So the first two bytes, which say in which span of 50 days the
//! schedule was made, are kept as the score's fraction. With 11 bits of fraction a score is exact
//! until the year 2109, and the schedules of one tick are sorted by their ids.

use crate::domain::{AccountId, ScheduleId, Timestamp};
use crate::queue::OwnedSchedule;

/// The first span that does not fit; it begins in the year 2248.
const SPANS: u16 = 2_048;
/// The length of both ids in bytes.
const WHOLE: usize = 32;

/// Returns the score and the member of a schedule's entry.
pub(super) fn encode(schedule: OwnedSchedule, tick: Timestamp) -> (String, Vec<u8>) {
    let (fraction, member) = parts(schedule);
    // Eleven bits of fraction are at most eleven decimal digits.
    let fraction = format!("{:.11}", f64::from(fraction) / f64::from(SPANS));
    (format!("{}{}", tick.as_millis(), fraction.trim_start_matches('0')), member)
}

/// Returns only the member, to remove an entry.
pub(super) fn member(schedule: OwnedSchedule) -> Vec<u8> {
    parts(schedule).1
}

fn parts(schedule: OwnedSchedule) -> (u16, Vec<u8>) {
    let bytes = whole(schedule);
    let span = u16::from_be_bytes([bytes[0], bytes[1]]);
    if span < SPANS { (span, bytes[2..].to_vec()) } else { (0, bytes.to_vec()) }
}

/// Returns both ids in full, without moving bytes into the score.
pub(super) fn whole(schedule: OwnedSchedule) -> [u8; WHOLE] {
    let mut bytes = [0; WHOLE];
    bytes[..16].copy_from_slice(&schedule.schedule.to_bytes());
    bytes[16..].copy_from_slice(&schedule.account.to_bytes());
    bytes
}

/// Reads the ids that [`whole`] has written; `None` if the bytes have another form.
pub(super) fn of_whole(bytes: &[u8]) -> Option<OwnedSchedule> {
    let (schedule, account) = bytes.split_first_chunk()?;
    let (schedule, account) = (ScheduleId::from_bytes(*schedule), account.try_into().ok()?);
    Some(OwnedSchedule { schedule, account: AccountId::from_bytes(account) })
}

/// The score of an entry, as it was read.
#[derive(Clone, Copy)]
pub(super) struct Score {
    pub(super) tick: Timestamp,
    /// The first two bytes of a member that is two bytes shorter.
    span: u16,
}

impl Score {
    /// Reads a score in the form in which the server prints it; `None` for anything else.
    #[expect(clippy::cast_possible_truncation, reason = "the parts of a score fit their types")]
    #[expect(clippy::cast_sign_loss, reason = "no score is below zero")]
    pub(super) fn read(printed: &[u8]) -> Option<Self> {
        let score: f64 = std::str::from_utf8(printed).ok()?.parse().ok()?;
        let span = (score.fract() * f64::from(SPANS)).round();
        Some(Self { tick: Timestamp::from_millis(score.trunc() as i64), span: span as u16 })
    }

    /// Returns the schedule of a member with this score; `None` for a member that no leader has
    /// written.
    pub(super) fn schedule(self, member: &[u8]) -> Option<OwnedSchedule> {
        if member.len() == WHOLE {
            return of_whole(member);
        }
        let mut bytes = [0; WHOLE];
        bytes[..2].copy_from_slice(&self.span.to_be_bytes());
        bytes.get_mut(2..).filter(|rest| rest.len() == member.len())?.copy_from_slice(member);
        of_whole(&bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made_at(ms: i64, bits: u128) -> OwnedSchedule {
        let at = Timestamp::from_millis(ms);
        OwnedSchedule { schedule: ScheduleId::new(at, bits), account: AccountId::new(at, !bits) }
    }

    #[test]
    fn entries_read_back() {
        let bits = 0x0123_4567_89ab_cdef_0123_u128;
        for made in [0, 1, 1_700_000_000_007, 4_000_000_000_000, 8_700_000_000_000] {
            let schedule = made_at(made, bits);
            for tick in [0, 999, 1_899_999_999_999, 4_398_046_511_103] {
                let tick = Timestamp::from_millis(tick);
                let (score, member) = encode(schedule, tick);
                // The form in which the server prints the number.
                let printed = score.parse::<f64>().expect("a number").to_string();
                let score = Score::read(printed.as_bytes()).expect("a score");
                assert_eq!((score.schedule(&member), score.tick), (Some(schedule), tick));
                assert_eq!(self::member(schedule), member);
            }
        }
    }

    #[test]
    fn schedules_of_one_tick_stand_in_the_order_of_their_ids() {
        let tick = Timestamp::from_millis(1_900_000_000_000);
        let position = |made| {
            let (score, member) = encode(made_at(made, 7), tick);
            (score.parse::<f64>().expect("a number"), member)
        };
        assert!(position(1_700_000_000_000) < position(1_700_000_000_001));
        assert!(position(4_294_967_295) < position(4_294_967_296), "over the border of a span");
    }
}
