//! Labels for calls: the operations of the store, the queue and the cluster.

use super::Label;

macro_rules! operations {
    ($(#[$doc:meta])* $type:ident { $($name:ident)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $type(usize);

        impl $type {
            /// The names of all operations.
            pub const NAMES: &'static [&'static str] = &[$(stringify!($name),)*];

            /// Returns the operation of this name. In a constant, a name that is not in the list is
            /// a compile error.
            pub const fn named(name: &str) -> Self {
                let mut index = 0;
                while index < Self::NAMES.len() {
                    if is_same(Self::NAMES[index].as_bytes(), name.as_bytes()) {
                        return Self(index);
                    }
                    index += 1;
                }
                panic!("an operation that telemetry/metrics/operations.rs does not list")
            }
        }

        impl Label for $type {
            const NAME: &'static str = "operation";
            const COUNT: usize = Self::NAMES.len();

            fn value_index(self) -> usize {
                self.0
            }

            fn text(index: usize) -> &'static str {
                Self::NAMES[index]
            }
        }
    };
}

/// Returns `true` if two texts are equal. Unlike `==`, it works in constants.
pub(super) const fn is_same(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    let mut index = 0;
    while index < one.len() {
        if one[index] != other[index] {
            return false;
        }
        index += 1;
    }
    true
}

operations! {
    /// A method of the store's contract.
    StoreOperation {
        create_account accounts account usage jobs_made set_plan set_suspended plans_beside
        create_key keys rotate_key revoke_key key note_key_uses
        reserve_jobs await_jobs begin_months plans_of
        create_schedules schedule schedules schedule_versions recurrences change_schedule
        delete_schedule skips
        create_job retry_job cancel_job job jobs
        set_up_shards installation raise_epoch next_ticks candidates unstarted fire
        fire_and_claim
        renew_replica end_replica leadership replace_leader
        claim recall renew aborts commit late late_of_each expired claims_of
        hours prune_hours
        ping time prepare prune short_histories prune_account prune_keys shard_records unfinished waiting
        create_user user user_named users set_password rehash_password disable_user confirm_email set_operator
        set_time_display members memberships role change_member create_invitation invitations delete_invitation
        accept_invitation create_session session sessions extend_session end_sessions create_reset
        reset complete_reset prune_logins
        identity_user link_identity unlink_identities create_identity_user
        use_keys key_proofs stale_secrets reseal forget_keys
        enter_rotation enter_restoration enter_reading audit_log prune_audit_log
        reserve keep_answer release prune_answers
        make_first_secrets signing_secrets rotate_signing_secret prune_signing_secrets
        versions skips_of months delete_account deleted_accounts
        accounts_to_erase rows_left erase
        create_channel channels channel change_channel delete_channel count_test verify_channel
        unverify_channel
        preference set_preference channel_uses
        alert_work relay claim_deliveries release_deliveries complete_tries deliveries delivery
        redeliver prune_deliveries
    }
}

operations! {
    /// A method of the queue's contract.
    QueueOperation {
        adopt rebuild set_due due hint take_hints push put_back take count give_back ping
    }
}

operations! {
    /// A request to etcd.
    ClusterOperation {
        connect status get put delete txn watch lease_grant lease_keep_alive lease_revoke
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_is_found_by_its_name() {
        const RENEW: StoreOperation = StoreOperation::named("renew");
        assert_eq!(StoreOperation::text(RENEW.value_index()), "renew");
        let mut names = StoreOperation::NAMES.to_vec();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), StoreOperation::NAMES.len());
    }
}
