//! Plans deliveries: decides what becomes of events, from rows that were read and locked.
//!
//! Nothing is read or written here. The store reads events, channels and incidents, and writes the
//! final plan.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::claimed::IncidentContent;
use super::items::{DeliveryState, OutboxEvent, PlannedChannel, PlannedDelivery, PlannedIncident};
use crate::domain::alert::AlertKind;
use crate::domain::alert::grouping::{
    AlertFlow, GroupingRules, GroupingVerdict, IncidentMember, IncidentState, Judgement,
    concerns_host,
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
    pub(in crate::store) members: HashMap<(IncidentId, ScheduleId), IncidentMember>,
    /// Read: the held deliveries of the incidents that are due.
    pub(in crate::store) held: BTreeMap<IncidentId, Vec<DeliveryId>>,
    /// The deliveries to be stored.
    pub(in crate::store) deliveries: Vec<PlannedDelivery>,
    /// Held deliveries that are sent one by one.
    pub(in crate::store) released: Vec<(DeliveryId, DeliveryState)>,
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
    pub(in crate::store) fn work_out(&mut self, events: &[OutboxEvent]) {
        let now = self.now;
        let due = self.incidents.iter().filter(|(_, incident)| incident.state.due_at <= now);
        let due: Vec<_> = due.map(|(key, _)| *key).collect();
        due.into_iter().for_each(|key| self.judge(key));
        for event in events {
            let channels = self.audience.get(&event.schedule).cloned().unwrap_or_default();
            if channels.is_empty() && event.wanted {
                self.add(event, None, DeliveryState::NoChannel);
            }
            for channel in channels {
                self.take(event, channel);
            }
        }
    }

    fn take(&mut self, event: &OutboxEvent, channel: ChannelId) {
        let verdict = match event.kind {
            kind if !concerns_host(kind) || self.rules.incident_schedules == 0 => {
                GroupingVerdict::Alone
            }
            AlertKind::JobFailed => self.fail(event, channel),
            _ => self.recover(event, channel),
        };
        let key = (channel, event.host);
        let state = match (verdict, self.incidents.get(&key)) {
            (GroupingVerdict::Held, Some(incident)) => DeliveryState::Held(incident.id),
            (GroupingVerdict::Merged, Some(PlannedIncident { opening: Some(opening), .. })) => {
                DeliveryState::Merged(*opening)
            }
            _ if event.wanted => self.flow(channel, event),
            _ => DeliveryState::NoChannel,
        };
        if event.wanted {
            self.add(event, Some(channel), state);
        }
        let looks_done = |incident: &PlannedIncident| {
            incident.state.failing == 0 && event.kind == AlertKind::ScheduleRecovered
        };
        if verdict != GroupingVerdict::Held && self.incidents.get(&key).is_some_and(looks_done) {
            self.judge(key);
        }
    }

    /// Processes a failed job: it starts an incident or belongs to one.
    fn fail(&mut self, event: &OutboxEvent, channel: ChannelId) -> GroupingVerdict {
        let (now, rules) = (self.now, self.rules);
        let key = (channel, event.host);
        // An incident may be over although it was not judged yet. It is judged first, because it
        // must not absorb a failure that needs an alert of its own.
        if self.incidents.get(&key).is_some_and(|incident| incident.state.due_at <= now) {
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
        let key = (incident.id, event.schedule);
        let member = self.members.get(&key).copied().unwrap_or(IncidentMember::New);
        if member == IncidentMember::New && incident.names.len() < NAMES {
            incident.names.push(event.schedule_name.clone());
        }
        (incident.job, incident.changed) = (event.job, true);
        if member != IncidentMember::Failing {
            self.members.insert(key, IncidentMember::Failing);
            self.joined.insert(key, (event.account, true));
        }
        incident.state.failed(member, event.at, now, &rules)
    }

    /// Processes the recovery of a schedule, which may belong to an incident.
    fn recover(&mut self, event: &OutboxEvent, channel: ChannelId) -> GroupingVerdict {
        let Some(incident) = self.incidents.get_mut(&(channel, event.host)) else {
            return GroupingVerdict::Alone;
        };
        let key = (incident.id, event.schedule);
        if self.members.get(&key) != Some(&IncidentMember::Failing) {
            return GroupingVerdict::Alone;
        }
        self.members.insert(key, IncidentMember::Recovered);
        self.joined.insert(key, (event.account, false));
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
                let opening = self.plan_incident_alert(key, AlertKind::IncidentOpened);
                if let Some(incident) = self.incidents.get_mut(&key) {
                    incident.opening = Some(opening);
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
                self.plan_incident_alert(key, AlertKind::IncidentClosed);
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
        let held = |one: &&mut PlannedDelivery| one.state == DeliveryState::Held(incident);
        for planned in self.deliveries.iter_mut().filter(held) {
            planned.state = DeliveryState::Merged(opening);
        }
    }

    /// Releases all deliveries that an incident holds, each within the limits of its channel.
    fn release(&mut self, channel: ChannelId, incident: IncidentId, account: AccountId) {
        for held in self.held.remove(&incident).unwrap_or_default() {
            let state = self.flow_of((channel, account), held.to_bytes());
            self.released.push((held, state));
        }
        for position in 0..self.deliveries.len() {
            if self.deliveries[position].state == DeliveryState::Held(incident) {
                let id = self.deliveries[position].id;
                self.deliveries[position].state = self.flow_of((channel, account), id.to_bytes());
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
    fn plan_incident_alert(
        &mut self,
        (channel, host): (ChannelId, HostKey),
        kind: AlertKind,
    ) -> DeliveryId {
        let incident = &self.incidents[&(channel, host)];
        let (id, account, job, now) = (incident.id, incident.account, incident.job, self.now);
        let IncidentState { schedules, failing, failures, since, .. } = incident.state;
        let until = (kind == AlertKind::IncidentClosed).then_some(now.as_millis());
        let names = incident.names.clone();
        let since = since.as_millis();
        let content = IncidentContent { schedules, failing, failures, names, since, until };
        let event = EventId::of(id.to_bytes(), kind.as_str(), now);
        let state = self.flow_of((channel, account), event.to_bytes());
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
            state,
        });
        delivery
    }

    fn flow(&mut self, channel: ChannelId, event: &OutboxEvent) -> DeliveryState {
        self.flow_of((channel, event.account), event.id.to_bytes())
    }

    /// Counts one more alert to a channel and returns its state.
    fn flow_of(
        &mut self,
        (id, account): (ChannelId, AccountId),
        object: [u8; 16],
    ) -> DeliveryState {
        let (now, rules) = (self.now, self.rules);
        // The channel is no longer verified. The delivery fails with that reason when it is
        // claimed.
        let Some(channel) = self.channels.get_mut(&id) else { return DeliveryState::Due(now) };
        channel.changed = true;
        let flow = channel.flow.take(now, &rules);
        match (flow, channel.digest) {
            (AlertFlow::Send, _) => DeliveryState::Due(now.max(channel.paused_until)),
            (AlertFlow::JoinDigest, Some(digest)) => DeliveryState::Merged(digest),
            (AlertFlow::JoinDigest, None) => self.begin_digest(id, account, object, now),
            (AlertFlow::BeginDigest { due }, _) => self.begin_digest(id, account, object, due),
        }
    }

    fn begin_digest(
        &mut self,
        channel: ChannelId,
        account: AccountId,
        object: [u8; 16],
        due: Timestamp,
    ) -> DeliveryState {
        let event = EventId::of(object, AlertKind::Digest.as_str(), self.now);
        let digest = self.next_id(event, Some(channel));
        let mut paused_until = due;
        if let Some(channel) = self.channels.get_mut(&channel) {
            channel.digest = Some(digest);
            paused_until = channel.paused_until;
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
            state: DeliveryState::Due(due.max(paused_until)),
        });
        DeliveryState::Merged(digest)
    }

    /// Returns the id of the next planned delivery. Deliveries are sent in the order of their ids.
    fn next_id(&self, event: EventId, channel: Option<ChannelId>) -> DeliveryId {
        DeliveryId::of(event, channel, self.now).at_position(self.deliveries.len())
    }

    fn add(&mut self, event: &OutboxEvent, channel: Option<ChannelId>, state: DeliveryState) {
        self.deliveries.push(PlannedDelivery {
            id: self.next_id(event.id, channel),
            account: event.account,
            channel,
            event: event.id,
            schedule: Some(event.schedule),
            job: Some(event.job),
            incident: match state {
                DeliveryState::Held(incident) => Some(incident),
                _ => None,
            },
            kind: event.kind,
            at: event.at,
            failures: event.failures,
            schedule_name: Some(event.schedule_name.clone()),
            content: None,
            state,
        });
    }
}

#[cfg(test)]
mod tests;
