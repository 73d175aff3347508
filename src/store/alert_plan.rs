//! Plans deliveries: decides what becomes of events, from rows that were read and locked.
//!
//! Nothing is read or written here. The store reads events, channels and incidents, and writes the
//! final plan.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::alert_content::IncidentContent;
use super::alert_items::{Event, PlannedChannel, PlannedDelivery, PlannedIncident, Standing};
use crate::domain::alert::AlertKind;
use crate::domain::alert::grouping::{
    Flow, GroupingRules, IncidentState, Judgement, Member, Verdict, concerns_host,
};
use crate::domain::ticket::HostKey;
use crate::domain::{AccountId, ChannelId, DeliveryId, EventId, IncidentId, ScheduleId, Timestamp};

/// The maximum number of schedules that an incident or a digest names.
pub(in crate::store) const NAMES: usize = 5;

/// The rows that planning has read, and the rows to be written.
pub(in crate::store) struct AlertPlan {
    pub(in crate::store) now: Timestamp,
    pub(in crate::store) rules: GroupingRules,
    /// Read: the verified channels of each schedule, in the order of its preference.
    pub(in crate::store) audience: HashMap<ScheduleId, Vec<ChannelId>>,
    pub(in crate::store) channels: BTreeMap<ChannelId, PlannedChannel>,
    pub(in crate::store) incidents: BTreeMap<(ChannelId, HostKey), PlannedIncident>,
    pub(in crate::store) members: HashMap<(IncidentId, ScheduleId), Member>,
    /// Read: the held deliveries of the incidents that are due.
    pub(in crate::store) held: BTreeMap<IncidentId, Vec<DeliveryId>>,
    /// The deliveries to be stored.
    pub(in crate::store) deliveries: Vec<PlannedDelivery>,
    /// Held deliveries that are sent one by one.
    pub(in crate::store) released: Vec<(DeliveryId, Standing)>,
    /// Incidents whose held deliveries are merged into this delivery, with their accounts.
    pub(in crate::store) merged: Vec<(IncidentId, AccountId, DeliveryId)>,
    /// The members of incidents to be stored, with their account and `true` if they are failing.
    pub(in crate::store) joined: BTreeMap<(IncidentId, ScheduleId), (AccountId, bool)>,
    /// Incidents that are over.
    pub(in crate::store) ended: BTreeSet<IncidentId>,
    pub(in crate::store) opened: u64,
    pub(in crate::store) closed: u64,
    /// The number of stored held deliveries that were merged.
    pub(in crate::store) merged_held: u64,
}

impl AlertPlan {
    /// Returns an empty plan.
    pub(in crate::store) fn new(now: Timestamp, rules: GroupingRules) -> Self {
        Self {
            now,
            rules,
            audience: HashMap::new(),
            channels: BTreeMap::new(),
            incidents: BTreeMap::new(),
            members: HashMap::new(),
            held: BTreeMap::new(),
            deliveries: Vec::new(),
            released: Vec::new(),
            merged: Vec::new(),
            joined: BTreeMap::new(),
            ended: BTreeSet::new(),
            opened: 0,
            closed: 0,
            merged_held: 0,
        }
    }

    /// Judges the incidents that are due, then processes the events.
    pub(in crate::store) fn work_out(&mut self, events: &[Event]) {
        let now = self.now;
        let due = self.incidents.iter().filter(|(_, incident)| incident.state.due_at <= now);
        let due: Vec<_> = due.map(|(key, _)| *key).collect();
        due.into_iter().for_each(|key| self.judge(key));
        for event in events {
            let channels = self.audience.get(&event.schedule).cloned().unwrap_or_default();
            if channels.is_empty() && event.wanted {
                self.add(event, None, Standing::NoChannel);
            }
            for channel in channels {
                self.take(event, channel);
            }
        }
    }

    fn take(&mut self, event: &Event, channel: ChannelId) {
        let verdict = match event.kind {
            kind if !concerns_host(kind) || self.rules.incident_schedules == 0 => Verdict::Alone,
            AlertKind::JobFailed => self.fail(event, channel),
            _ => self.recover(event, channel),
        };
        let key = (channel, event.host);
        let standing = match (verdict, self.incidents.get(&key)) {
            (Verdict::Held, Some(incident)) => Standing::Held(incident.id),
            (Verdict::Merged, Some(PlannedIncident { opening: Some(opening), .. })) => {
                Standing::Merged(*opening)
            }
            _ if event.wanted => self.flow(channel, event),
            _ => Standing::NoChannel,
        };
        if event.wanted {
            self.add(event, Some(channel), standing);
        }
        let looks_done = |incident: &PlannedIncident| {
            incident.state.failing == 0 && event.kind == AlertKind::ScheduleRecovered
        };
        if verdict != Verdict::Held && self.incidents.get(&key).is_some_and(looks_done) {
            self.judge(key);
        }
    }

    /// Processes a failed job: it starts an incident or belongs to one.
    fn fail(&mut self, event: &Event, channel: ChannelId) -> Verdict {
        let (now, rules) = (self.now, self.rules);
        let key = (channel, event.host);
        // An incident may be over although it was not judged yet. It is judged first, because it
        // must not absorb a failure that needs an alert of its own.
        if self.incidents.get(&key).is_some_and(|known| known.state.due_at <= now) {
            self.judge(key);
        }
        let incident = self.incidents.entry(key).or_insert_with(|| PlannedIncident {
            id: IncidentId::of(event.id, channel, now),
            account: event.account,
            channel,
            host: event.host,
            state: IncidentState::new(event.at),
            opening: None,
            job: event.job,
            names: Vec::new(),
            changed: true,
        });
        let place = (incident.id, event.schedule);
        let member = self.members.get(&place).copied().unwrap_or(Member::New);
        if member == Member::New && incident.names.len() < NAMES {
            incident.names.push(event.schedule_name.clone());
        }
        (incident.job, incident.changed) = (event.job, true);
        if member != Member::Failing {
            self.members.insert(place, Member::Failing);
            self.joined.insert(place, (event.account, true));
        }
        incident.state.failed(member, event.at, now, &rules)
    }

    /// Processes the recovery of a schedule, which may belong to an incident.
    fn recover(&mut self, event: &Event, channel: ChannelId) -> Verdict {
        let Some(incident) = self.incidents.get_mut(&(channel, event.host)) else {
            return Verdict::Alone;
        };
        let place = (incident.id, event.schedule);
        if self.members.get(&place) != Some(&Member::Failing) {
            return Verdict::Alone;
        }
        self.members.insert(place, Member::Recovered);
        self.joined.insert(place, (event.account, false));
        (incident.job, incident.changed) = (event.job, true);
        incident.state.recovered(event.at, &self.rules)
    }

    /// Judges an incident and applies the decision.
    fn judge(&mut self, key: (ChannelId, HostKey)) {
        let (now, rules) = (self.now, self.rules);
        let Some(incident) = self.incidents.get_mut(&key) else { return };
        incident.changed = true;
        match incident.state.judge(now, &rules) {
            Judgement::Goes => {}
            Judgement::Open => {
                let (incident, account) = (incident.id, incident.account);
                let opening = self.tell(key, AlertKind::IncidentOpened);
                if let Some(known) = self.incidents.get_mut(&key) {
                    known.opening = Some(opening);
                }
                self.merge(incident, account, opening);
                self.opened += 1;
                // All its schedules may have recovered already: then it closes at once.
                self.judge(key);
            }
            Judgement::Release => {
                let (id, account) = (incident.id, incident.account);
                self.release(key.0, id, account);
                self.judge(key);
            }
            Judgement::Close => {
                self.tell(key, AlertKind::IncidentClosed);
                self.closed += 1;
                self.end(key);
            }
            Judgement::Forget => self.end(key),
        }
    }

    /// Merges all deliveries that an incident holds into its alert.
    fn merge(&mut self, incident: IncidentId, account: AccountId, opening: DeliveryId) {
        self.merged_held += self.held.remove(&incident).map_or(0, |held| held.len() as u64);
        self.merged.push((incident, account, opening));
        let held = |one: &&mut PlannedDelivery| one.standing == Standing::Held(incident);
        for planned in self.deliveries.iter_mut().filter(held) {
            planned.standing = Standing::Merged(opening);
        }
    }

    /// Releases all deliveries that an incident holds, each within the limits of its channel.
    fn release(&mut self, channel: ChannelId, incident: IncidentId, account: AccountId) {
        for held in self.held.remove(&incident).unwrap_or_default() {
            let standing = self.flow_of((channel, account), held.to_bytes());
            self.released.push((held, standing));
        }
        for place in 0..self.deliveries.len() {
            if self.deliveries[place].standing == Standing::Held(incident) {
                let id = self.deliveries[place].id;
                self.deliveries[place].standing = self.flow_of((channel, account), id.to_bytes());
            }
        }
    }

    fn end(&mut self, key: (ChannelId, HostKey)) {
        let Some(incident) = self.incidents.remove(&key) else { return };
        self.joined.retain(|(of, _), _| *of != incident.id);
        self.members.retain(|(of, _), _| *of != incident.id);
        self.ended.insert(incident.id);
    }

    /// Plans the alert about an incident.
    fn tell(&mut self, (channel, host): (ChannelId, HostKey), kind: AlertKind) -> DeliveryId {
        let incident = &self.incidents[&(channel, host)];
        let (id, account, job, now) = (incident.id, incident.account, incident.job, self.now);
        let IncidentState { schedules, failing, failures, since, .. } = incident.state;
        let until = (kind == AlertKind::IncidentClosed).then_some(now.as_millis());
        let names = incident.names.clone();
        let since = since.as_millis();
        let content = IncidentContent { schedules, failing, failures, names, since, until };
        let event = EventId::of(id.to_bytes(), kind.as_str(), now);
        let standing = self.flow_of((channel, account), event.to_bytes());
        let delivery = self.next_id(event, Some(channel));
        self.deliveries.push(PlannedDelivery {
            id: delivery,
            account,
            channel: Some(channel),
            event,
            schedule: None,
            job: Some(job),
            incident: Some(id),
            kind,
            at: now,
            failures,
            schedule_name: None,
            content: Some(
                serde_json::to_string(&content).expect("numbers and texts have a JSON form"),
            ),
            standing,
        });
        delivery
    }

    fn flow(&mut self, channel: ChannelId, event: &Event) -> Standing {
        self.flow_of((channel, event.account), event.id.to_bytes())
    }

    /// Counts one more alert to a channel and returns its state.
    fn flow_of(&mut self, (id, account): (ChannelId, AccountId), object: [u8; 16]) -> Standing {
        let (now, rules) = (self.now, self.rules);
        // The channel is no longer verified. The delivery fails with that reason when it is
        // claimed.
        let Some(channel) = self.channels.get_mut(&id) else { return Standing::Due(now) };
        channel.changed = true;
        let flow = channel.flow.take(now, &rules);
        match (flow, channel.digest) {
            (Flow::Send, _) => Standing::Due(now.max(channel.paused_until)),
            (Flow::JoinDigest, Some(digest)) => Standing::Merged(digest),
            (Flow::JoinDigest, None) => self.begin_digest(id, account, object, now),
            (Flow::BeginDigest { due }, _) => self.begin_digest(id, account, object, due),
        }
    }

    fn begin_digest(
        &mut self,
        channel: ChannelId,
        account: AccountId,
        object: [u8; 16],
        due: Timestamp,
    ) -> Standing {
        let event = EventId::of(object, AlertKind::Digest.as_str(), self.now);
        let digest = self.next_id(event, Some(channel));
        let mut paused_until = due;
        if let Some(known) = self.channels.get_mut(&channel) {
            known.digest = Some(digest);
            paused_until = known.paused_until;
        }
        self.deliveries.push(PlannedDelivery {
            id: digest,
            account,
            channel: Some(channel),
            event,
            schedule: None,
            job: None,
            incident: None,
            kind: AlertKind::Digest,
            at: self.now,
            failures: 0,
            schedule_name: None,
            content: None,
            standing: Standing::Due(due.max(paused_until)),
        });
        Standing::Merged(digest)
    }

    /// Returns the id of the next planned delivery. Deliveries are sent in the order of their ids.
    fn next_id(&self, event: EventId, channel: Option<ChannelId>) -> DeliveryId {
        DeliveryId::of(event, channel, self.now).at_place(self.deliveries.len())
    }

    fn add(&mut self, event: &Event, channel: Option<ChannelId>, standing: Standing) {
        self.deliveries.push(PlannedDelivery {
            id: self.next_id(event.id, channel),
            account: event.account,
            channel,
            event: event.id,
            schedule: Some(event.schedule),
            job: Some(event.job),
            incident: match standing {
                Standing::Held(incident) => Some(incident),
                _ => None,
            },
            kind: event.kind,
            at: event.at,
            failures: event.failures,
            schedule_name: Some(event.schedule_name.clone()),
            content: None,
            standing,
        });
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::domain::JobId;
    use crate::domain::alert::grouping::{ChannelFlow, Stage};

    const RULES: GroupingRules = GroupingRules {
        per_minute: 0,
        incident_schedules: 3,
        gather: Duration::from_millis(500),
        gather_most: Duration::from_secs(2),
        calm: Duration::from_secs(60),
        stale: Duration::from_secs(600),
        longest: Duration::from_secs(3_600),
    };
    const HOST: HostKey = HostKey(7);

    fn ms(ms: i64) -> Timestamp {
        Timestamp::from_millis(ms)
    }

    fn channel(n: u128) -> ChannelId {
        ChannelId::new(ms(0), n)
    }

    /// Returns an event of a schedule.
    fn event(schedule: u8, kind: AlertKind, at: i64) -> Event {
        let mut job = [schedule; 16];
        job[1] = u8::try_from(kind.as_str().len()).expect("short");
        let id = EventId::of(job, kind.as_str(), ms(at));
        Event {
            id,
            account: AccountId::new(ms(0), 1),
            schedule: ScheduleId::from_bytes([schedule; 16]),
            job: JobId::from_bytes(job),
            kind,
            at: ms(at),
            host: HOST,
            failures: 1,
            wanted: true,
            schedule_name: format!("schedule {schedule}"),
        }
    }

    fn failed(schedule: u8, at: i64) -> Event {
        event(schedule, AlertKind::JobFailed, at)
    }

    fn recovered(schedule: u8, at: i64) -> Event {
        event(schedule, AlertKind::ScheduleRecovered, at)
    }

    fn verified() -> PlannedChannel {
        PlannedChannel {
            paused_until: ms(0),
            flow: ChannelFlow::default(),
            digest: None,
            changed: false,
        }
    }

    /// Returns a plan at `now` whose schedules alert one channel.
    fn plan(now: i64, rules: GroupingRules) -> AlertPlan {
        let mut plan = AlertPlan::new(ms(now), rules);
        plan.channels.insert(channel(1), verified());
        for schedule in 0..9 {
            plan.audience.insert(ScheduleId::from_bytes([schedule; 16]), vec![channel(1)]);
        }
        plan
    }

    /// Returns the plan of the next pass, which reads the rows that `before` has written.
    fn next(before: &AlertPlan, now: i64) -> AlertPlan {
        let mut next = plan(now, before.rules);
        for (id, channel) in &before.channels {
            let digest = channel.digest.filter(|_| channel.flow.has_digest);
            next.channels.insert(*id, PlannedChannel { digest, changed: false, ..*channel });
        }
        for (key, incident) in &before.incidents {
            let incident = PlannedIncident { changed: false, ..incident.clone() };
            if incident.state.due_at <= next.now {
                let held = before.deliveries.iter().filter_map(|planned| {
                    (planned.standing == Standing::Held(incident.id)).then_some(planned.id)
                });
                next.held.insert(incident.id, held.collect());
            }
            next.incidents.insert(*key, incident);
        }
        next.members = before.members.clone();
        next
    }

    fn kinds(plan: &AlertPlan) -> Vec<AlertKind> {
        plan.deliveries.iter().map(|planned| planned.kind).collect()
    }

    fn standings(plan: &AlertPlan) -> Vec<Standing> {
        plan.deliveries.iter().map(|planned| planned.standing).collect()
    }

    #[test]
    fn what_nobody_wants_leaves_nothing() {
        let mut plan = plan(1_000, RULES);
        let unwanted = |event| Event { wanted: false, ..event };
        plan.audience.remove(&ScheduleId::from_bytes([2; 16]));
        plan.work_out(&[unwanted(recovered(1, 900)), unwanted(recovered(2, 900))]);
        assert!(plan.deliveries.is_empty() && plan.incidents.is_empty());
        plan.work_out(&[recovered(2, 900)]);
        assert_eq!(standings(&plan), [Standing::NoChannel]);
        assert_eq!(plan.deliveries[0].channel, None);
    }

    #[test]
    fn deliveries_sort_as_they_were_planned() {
        let mut plan = plan(1_000, GroupingRules { per_minute: 2, ..RULES });
        let events: Vec<Event> =
            (0..9).map(|schedule| event(schedule, AlertKind::JobSucceeded, 900)).collect();
        plan.work_out(&events);
        let ids: Vec<DeliveryId> = plan.deliveries.iter().map(|planned| planned.id).collect();
        assert_eq!(ids.len(), 10);
        assert!(ids.is_sorted_by(|a, b| a < b));
        let digest = plan.channels[&channel(1)].digest.expect("begun");
        let merged = |planned: &&PlannedDelivery| planned.standing == Standing::Merged(digest);
        assert_eq!(plan.deliveries.iter().filter(merged).count(), 7);
        assert_eq!(plan.deliveries[2].id, digest, "it begins with the first that is too much");
    }

    #[test]
    fn a_channel_that_asked_for_a_pause_is_told_after_it() {
        let mut plan = plan(1_000, GroupingRules { per_minute: 1, ..RULES });
        let paused = PlannedChannel { paused_until: ms(90_000), ..verified() };
        plan.channels.insert(channel(1), paused);
        plan.work_out(&[
            event(1, AlertKind::JobSucceeded, 900),
            event(2, AlertKind::JobSucceeded, 900),
        ]);
        let due = Standing::Due(ms(90_000));
        assert_eq!(standings(&plan)[..2], [due, due], "and so is its digest");
    }

    #[test]
    fn what_was_held_and_what_comes_are_merged_alike() {
        let mut first = plan(1_000, RULES);
        first.work_out(&[failed(1, 900), failed(2, 901)]);
        let id = first.incidents[&(channel(1), HOST)].id;
        assert_eq!(standings(&first), [Standing::Held(id); 2]);
        assert_eq!((first.joined.len(), first.opened), (2, 0));

        let mut second = next(&first, 1_400);
        second.work_out(&[failed(3, 1_300)]);
        assert_eq!(standings(&second), [Standing::Held(id)]);
        // The incident is due, and one more failure arrives in the same pass: it is merged too.
        let mut third = next(&second, 1_900);
        third.held.insert(id, vec![first.deliveries[0].id, second.deliveries[0].id]);
        third.work_out(&[failed(4, 1_850)]);
        assert_eq!(kinds(&third), [AlertKind::IncidentOpened, AlertKind::JobFailed]);
        let opening = third.deliveries[0].id;
        assert_eq!(standings(&third), [Standing::Due(ms(1_900)), Standing::Merged(opening)]);
        assert_eq!((third.opened, third.merged_held), (1, 2));
        assert_eq!(third.merged, [(id, AccountId::new(ms(0), 1), opening)]);
        let known = &third.incidents[&(channel(1), HOST)];
        assert_eq!((known.opening, known.state.stage), (Some(opening), Stage::Open));
        assert_eq!((known.state.schedules, known.names.len()), (4, 4));
    }

    #[test]
    fn too_few_are_released_through_the_flow_of_the_channel() {
        let rules = GroupingRules { per_minute: 1, ..RULES };
        let mut first = plan(1_000, rules);
        first.work_out(&[failed(1, 900), failed(2, 901)]);
        let mut second = next(&first, 1_500);
        second.work_out(&[]);
        assert_eq!(kinds(&second), [AlertKind::Digest]);
        let digest = second.deliveries[0].id;
        let [a, b] = &second.released[..] else { panic!("{:?}", second.released) };
        assert_eq!((a.0, a.1), (first.deliveries[0].id, Standing::Due(ms(1_500))));
        assert_eq!((b.0, b.1), (first.deliveries[1].id, Standing::Merged(digest)));
        // The alert about an incident counts against the limit of the channel, too.
        let mut third = next(&second, 2_000);
        third.work_out(&[failed(3, 1_900), failed(4, 1_900)]);
        let mut fourth = next(&third, 2_500);
        fourth.work_out(&[]);
        assert_eq!(kinds(&fourth), [AlertKind::IncidentOpened]);
        assert_eq!(standings(&fourth), [Standing::Merged(digest)]);
        let opening = fourth.deliveries[0].id;
        assert_eq!(fourth.incidents[&(channel(1), HOST)].opening, Some(opening));
    }

    #[test]
    fn a_failure_after_an_incident_that_nobody_looked_at_is_told_anew() {
        let mut first = plan(1_000, RULES);
        first.work_out(&[failed(1, 900), failed(2, 900), failed(3, 900)]);
        let mut second = next(&first, 1_500);
        second.work_out(&[]);
        assert_eq!(kinds(&second), [AlertKind::IncidentOpened]);
        let before = second.incidents[&(channel(1), HOST)].id;
        // All notifiers were down, and the incident became stale meanwhile.
        let mut third = next(&second, 700_000);
        third.work_out(&[failed(1, 699_000)]);
        let now = &third.incidents[&(channel(1), HOST)];
        assert_ne!(now.id, before);
        assert_eq!(third.ended.iter().copied().collect::<Vec<_>>(), [before]);
        assert_eq!(standings(&third), [Standing::Held(now.id)]);
        assert!(third.joined.keys().all(|(incident, _)| *incident == now.id));
    }

    #[test]
    fn a_recovery_closes_it_at_once_and_the_next_failure_begins_another() {
        let mut first = plan(1_000, RULES);
        first.work_out(&[failed(1, 900), failed(2, 900), failed(3, 900)]);
        let mut second = next(&first, 1_500);
        second.work_out(&[]);
        let opening = second.deliveries[0].id;
        let mut third = next(&second, 9_000);
        let unwanted = Event { wanted: false, ..recovered(3, 8_000) };
        third.work_out(&[recovered(1, 8_000), recovered(2, 8_000), unwanted, failed(4, 8_500)]);
        let expected = [
            AlertKind::ScheduleRecovered,
            AlertKind::ScheduleRecovered,
            AlertKind::IncidentClosed,
            AlertKind::JobFailed,
        ];
        assert_eq!(kinds(&third), expected);
        assert_eq!(standings(&third)[..2], [Standing::Merged(opening); 2]);
        assert_eq!((third.closed, third.ended.len(), third.incidents.len()), (1, 1, 1));
        // A schedule that fails, recovers and fails again counts once in the incident.
        let mut fourth = next(&third, 9_100);
        fourth.work_out(&[recovered(4, 9_050), failed(4, 9_060)]);
        let known = &fourth.incidents[&(channel(1), HOST)];
        assert_eq!((known.state.schedules, known.state.failing), (1, 1));
        assert_eq!(known.names, ["schedule 4"]);
    }

    #[test]
    fn others_recover_by_themselves() {
        let mut first = plan(1_000, RULES);
        first.work_out(&[failed(1, 900)]);
        let mut second = next(&first, 1_500);
        second.work_out(&[recovered(5, 1_400)]);
        assert_eq!(standings(&second), [Standing::Due(ms(1_500))], "it was not of the incident");
        // An incident in stage `Watching` ends when its only schedule recovers.
        let mut third = next(&second, 3_000);
        third.work_out(&[recovered(1, 2_900)]);
        assert_eq!(standings(&third), [Standing::Due(ms(3_000))]);
        assert!(third.incidents.is_empty() && third.ended.len() == 1);
    }

    #[test]
    fn without_incidents_each_goes_its_own_way() {
        let mut plan = plan(1_000, GroupingRules { incident_schedules: 0, ..RULES });
        plan.work_out(&[failed(1, 900), failed(2, 900), failed(3, 900), recovered(1, 950)]);
        assert_eq!(standings(&plan), [Standing::Due(ms(1_000)); 4]);
        assert!(plan.incidents.is_empty());
    }
}
