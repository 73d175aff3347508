//! The conformance suite of the store: every method, and every statement of its documentation.
//!
//! A case is a function of a [`world::World`]. It is listed once, below, and runs on every adapter,
//! once without and once with faults. One line at the end adds an adapter. Tests of one adapter
//! alone are in the file or folder of its name.

mod account_deletion;
mod accounts;
mod alert_histories;
mod alerts;
mod audit;
mod changes;
mod channels;
mod claims;
mod commits;
mod damaged_rows;
mod deliveries;
mod dropped;
mod firing;
pub mod flaky;
mod hours;
mod idempotency;
mod identities;
mod incidents;
mod job_lists;
mod jobs;
mod leadership;
mod months;
mod moved;
mod overlap;
mod plans;
mod policies;
pub mod postgres;
mod preferences;
mod pruning;
mod races;
mod restored;
mod schedule_lists;
mod schedule_versions;
mod schedules;
mod secrets;
mod sessions;
mod signing;
mod skips;
pub mod sqlite;
mod starting;
mod tenancy;
mod users;
pub mod world;

/// Runs each `$module::$case` on the adapter whose stores `$open` opens, without and with faults.
macro_rules! suite {
    ($adapter:ident: $open:path; $($module:ident { $($case:ident,)* })*) => {
        mod $adapter {$(
            mod $module {$(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    use super::super::super as suite;
                    let world = suite::world::World::new($open().await).await;
                    suite::$module::$case(&world).await;
                }
            )*}
        )*
        mod with_faults {$(
            mod $module {$(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    use super::super::super::super as suite;
                    let faults = crate::conformance::faults::Faults::of(stringify!($case));
                    let world = suite::world::World::flaky($open().await, &faults).await;
                    suite::$module::$case(&world).await;
                    faults.assert_injected();
                }
            )*}
        )*}}
    };
}

macro_rules! every_case {
    ($adapter:ident: $open:path) => {
        suite! { $adapter: $open;
            accounts {
                names_are_unique,
                a_key_reads_back_and_is_listed_newest_first,
                a_key_needs_an_account,
                revoking_is_for_good,
                a_rotated_key_and_its_successor_overlap,
                a_key_that_is_rotated_twice_is_followed_by_what_it_was_made_as,
                a_full_account_can_rotate_without_an_overlap,
                only_a_key_of_the_account_that_works_is_rotated,
                rotations_at_once_never_make_too_many_keys,
                usage_counts_this_month,
                the_last_use_of_keys_is_kept,
            }
            plans {
                a_plan_is_kept_and_can_change,
                of_two_creations_at_once_one_fits,
                a_batch_counts_whole,
                an_account_has_ten_keys_at_most,
                ticks_of_a_suspended_account_do_not_fire,
                nothing_of_a_suspended_or_deleted_account_is_changed,
                schedules_that_were_read_before_their_account_changed_do_not_fire,
                a_change_of_another_account_does_not_stop_a_firing,
                one_call_fires_in_all_shards_but_those_of_newer_leaders,
                jobs_are_reserved_up_to_the_quota,
                another_plan_counts_the_month_again,
                of_many_reservations_at_once_none_is_too_much,
                a_month_begins_with_the_jobs_made_in_it,
                a_job_by_hand_is_counted_if_it_is_made,
                of_many_jobs_by_hand_none_is_too_much,
                another_plan_comes_before_or_after_what_it_limits,
            }
            months {
                many_jobs_are_counted_once_however_many_ask,
                a_caller_that_does_not_wait_ends_no_count,
                a_job_by_hand_comes_after_the_count,
                another_plan_gives_nothing_back,
                counters_of_old_months_go,
            }
            audit {
                an_entry_has_actor_action_and_origin,
                every_change_is_entered_once,
                changes_of_members_are_entered,
                a_new_member_is_entered_once,
                changes_of_a_user_are_entered_in_each_account,
                changes_without_an_account_are_entered_for_the_installation,
                operators_are_entered_for_the_installation,
                calls_without_an_effect_are_not_entered,
                failed_calls_are_not_entered,
                of_many_at_once_each_is_entered,
                entries_are_filtered_and_paged,
                old_entries_go_in_small_batches,
            }
            idempotency {
                the_first_call_runs_and_its_answer_is_kept,
                a_key_is_of_one_account,
                a_released_or_forgotten_key_can_be_used_again,
                the_effect_leaves_a_receipt_in_its_transaction,
                a_receipt_names_the_created_objects_in_order,
                a_call_that_has_lost_its_key_has_no_effect,
                of_many_at_once_one_runs,
                old_answers_go_in_small_batches,
            }
            schedules {
                one_reads_back_whole,
                creation_is_all_or_nothing,
                a_disabled_one_has_no_next_tick,
                a_thousand_at_once,
                deleting_ends_waiting_jobs_and_keeps_history,
                deleting_lets_the_attempt_under_way_end,
            }
            changes {
                a_change_replaces_everything,
                a_job_keeps_the_version_it_was_made_with,
                an_old_read_is_stale,
                a_tick_fired_in_between_makes_it_stale,
                disabling_stops_ticks,
                the_note_of_a_pause_ends_with_it,
                of_many_at_once_one_wins,
            }
            schedule_lists {
                every_sort_pages_by_cursor_and_by_offset,
                filters_and_totals,
                failing_ones_have_failures_in_a_row,
                recurrences_are_counted_by_expression_and_timezone,
                contains_takes_no_patterns,
                the_endpoint_is_the_current_one,
                a_page_ends_before_it_is_too_large,
            }
            schedule_versions {
                they_are_listed_newest_first_with_their_authors,
                they_are_listed_in_pages,
                they_go_when_no_job_needs_them,
                those_of_others_and_of_deleted_schedules_are_not_there,
                rows_of_a_deleted_account_are_not_found,
            }
            skips {
                consecutive_ones_are_one_range,
                a_job_or_another_reason_begins_a_new_range,
                the_count_stops_at_its_cap,
                superseded_ticks_are_recorded,
                they_are_listed_newest_first_in_pages,
            }
            jobs {
                a_manual_one_starts_at_once,
                a_manual_one_needs_a_schedule,
                retrying_makes_a_new_job_by_the_current_version,
                cancelling_a_waiting_one_ends_it,
                cancelling_a_running_one_lets_no_attempt_follow,
                cancelled_by_an_older_command_it_ends_after_its_start,
                all_attempts_are_kept,
            }
            job_lists {
                filters,
                pages_by_cursor_and_by_offset,
                time_bounds_are_inclusive,
                the_total_stops_at_ten_thousand,
                responses_are_cut_at_a_character,
                a_page_ends_before_it_is_too_large,
            }
            firing {
                the_shards_are_fixed_once,
                the_installation_is_numbered_once,
                an_epoch_rises,
                shards_show_their_leaders_and_waiting_work,
                a_tick_becomes_a_job_and_moves_on,
                firing_again_changes_nothing,
                an_older_epoch_changes_nothing,
                changed_schedules_are_stale,
                nothing_starts_early_or_moves_back,
                a_job_that_exists_is_not_made_again,
                the_last_tick_leaves_none,
                catching_up_makes_jobs_and_skips,
                next_ticks_come_in_pages,
                candidates_are_the_schedules_that_can_fire,
                jobs_that_have_not_begun_are_counted_by_schedule,
            }
            restored {
                due_ticks_are_skipped_and_recorded,
                corrupt_rows_are_left_and_reported,
            }
            starting {
                fired_jobs_are_claimed,
                started_jobs_are_handed_to_no_other_executor,
                a_claim_is_recalled_and_takes_nothing_more,
                a_lost_answer_is_recalled,
                starting_again_changes_nothing,
                a_restarted_job_sends_the_request_of_its_version,
                others_start_beside_a_job_that_exists,
                an_older_epoch_starts_nothing,
                each_job_of_a_mixed_batch_starts_or_has_a_ticket,
                started_jobs_bring_their_signing_secrets,
                firings_against_the_rules_are_refused,
            }
            overlap {
                skip_lets_one_run,
                the_stored_policy_holds_not_the_one_that_was_read,
                one_batch_takes_schedules_of_every_policy,
                queue_one_holds_one_more,
                the_first_claim_tells_that_a_job_was_held,
                waiting_for_a_retry_counts_as_active,
                manual_jobs_neither_block_nor_are_blocked,
                several_late_ticks_find_their_places,
                cancelling_the_active_one_lets_the_held_one_follow,
                cancelling_the_held_one_makes_room,
                deleting_ends_both,
                a_job_that_exists_does_not_become_active,
            }
            policies {
                away_from_allow_the_newest_unfinished_becomes_active,
                to_allow_the_held_one_starts,
                from_queue_to_skip_the_held_one_still_follows,
            }
            claims {
                one_claimer_of_many_gets_a_job,
                the_late_jobs_of_each_account_are_found_beside_those_of_others,
                a_claim_is_whole,
                only_jobs_that_may_start_are_claimed,
                attempts_are_numbered_and_limited,
                renewing_extends_all_claims_of_one_executor,
                without_a_lease_nothing_is_claimed,
                leases_are_removed_when_no_claim_needs_them,
                late_ones_are_found_oldest_first,
                late_ones_are_found_page_by_page,
                lost_claims_are_found_oldest_first,
                the_claims_of_an_executor_are_found_by_their_beginning,
                unfinished_jobs_are_counted_to_a_cap,
                waiting_jobs_are_counted_to_a_cap,
            }
            commits {
                success_and_failure_are_final,
                a_retry_waits_for_its_time,
                without_an_attempt_left_a_retry_fails,
                a_lost_claim_changes_nothing,
                the_second_end_of_a_job_is_lost,
                a_lost_executor_leaves_no_response,
                any_bytes_can_be_stored,
                large_responses_in_one_batch,
                the_streak_counts_failures_since_a_success,
                an_older_run_does_not_become_the_last,
                cancelled_jobs_count_nothing,
            }
            hours {
                jobs_are_counted_in_the_hour_of_their_end,
                a_job_is_counted_once_at_its_end,
                the_jobs_of_a_month_have_ended_in_it_or_not_at_all,
                cancelled_jobs_are_counted_by_themselves,
                of_many_batches_at_once_each_job_is_counted,
                old_hours_go_in_small_batches,
                rows_of_a_deleted_account_are_not_found,
            }
            races {
                two_leaders_fire_a_tick_once,
                triggers_come_before_or_after_a_delete,
                changes_come_before_or_after_a_suspension,
                ticks_come_before_or_after_a_delete,
                a_cancel_and_an_end_agree,
                a_cancel_and_a_claim_agree,
                writes_that_fail_do_not_touch_others,
            }
            dropped {
                a_creation_is_whole_or_absent,
                a_firing_is_whole_or_absent,
                reads_can_be_dropped,
            }
            leadership {
                replicas_are_alive_as_long_as_they_say,
                replicas_say_which_servers_they_work_without,
                a_leader_is_replaced_by_one_replica,
                a_shard_without_a_leader_is_taken_by_one_replica,
            }
            tenancy {
                schedules_of_other_accounts_are_not_found,
                jobs_of_other_accounts_are_not_found,
                keys_of_other_accounts_are_not_found,
                members_of_other_accounts_are_not_found,
            }
            users {
                addresses_are_unique,
                a_new_user_and_its_account_are_all_or_nothing,
                a_changed_password_ends_sessions_and_resets,
                a_password_is_hashed_again_only_while_it_is_the_same,
                a_disabled_user_is_out_at_once,
                sessions_know_that_their_user_is_an_operator,
                all_sessions_of_a_user_have_the_display_of_times,
                members_and_their_roles,
                an_account_keeps_an_owner,
                two_owners_cannot_both_leave,
                an_invitation_is_for_one_address_once,
                invitations_expire_and_are_taken_back,
            }
            identities {
                one_belongs_to_one_user,
                a_link_is_entered_once_in_every_account_of_the_user,
                only_a_confirmed_address_is_linked,
                mailed_links_confirm_the_address,
                unlinking_ends_the_sessions,
                a_user_is_created_with_one_or_not_at_all,
                a_new_user_joins_all_accounts_that_have_invited_the_address,
            }
            sessions {
                one_is_found_by_its_digest_until_it_expires,
                use_extends_one_up_to_its_end,
                none_is_made_by_an_old_password,
                they_end_one_or_all,
                a_reset_sets_the_password_once,
                a_reset_expires_and_is_replaced,
                expired_sessions_are_removed_in_small_batches,
            }
            signing {
                an_account_has_one_from_the_beginning,
                only_jobs_that_sign_are_given_secrets,
                a_new_secret_and_the_one_before_overlap,
                of_many_rotations_at_once_two_sign,
            }
            channels {
                one_reads_back_and_is_listed_newest_first,
                of_many_at_once_none_is_too_much,
                a_change_of_the_destination_resets_verified,
                tests_are_counted_for_an_hour,
                deleting_a_channel_detaches_it_and_fails_waiting_alerts,
                deliveries_to_an_unverified_channel_fail,
                accounts_that_are_suspended_or_gone_are_refused,
            }
            preferences {
                one_is_there_from_the_beginning_and_replaced_whole,
                a_channel_that_fails_its_test_does_not_change,
                jobs_that_end_from_then_on_raise_events_by_it,
                it_goes_with_its_schedule,
                channels_are_deleted_before_or_after_it_is_set,
                the_schedules_that_name_a_channel_are_found,
            }
            alerts {
                commits_raise_the_events_of_the_policy,
                commits_that_read_raise_the_same,
                a_commit_that_does_not_end_a_run_raises_nothing,
                an_event_becomes_a_delivery_for_each_channel,
                an_alert_without_a_receiver_is_recorded,
                of_many_relays_at_once_each_event_is_one_delivery,
                alerts_of_one_batch_are_sent_in_their_order,
                a_flood_becomes_a_digest,
                a_digest_that_is_about_to_be_sent_takes_in_nothing_more,
                it_is_known_what_there_is_to_do,
                nothing_of_a_deleted_account_is_alerted,
            }
            incidents {
                a_host_that_is_down_is_reported_once_and_so_is_its_return,
                a_few_failures_are_sent_one_by_one,
                hosts_and_channels_are_told_apart,
                short_incidents_are_reported_in_order,
                the_same_schedule_fails_and_recovers_within_one_batch,
                gathered_events_of_a_lost_channel_fail,
                a_channel_that_is_lost_just_then_leaves_no_incident,
            }
            deliveries {
                one_of_many_claimers_gets_each,
                claims_are_bounded_and_fair,
                accounts_and_types_get_their_share,
                a_channel_with_very_much_to_do_hides_no_other,
                a_try_that_is_lost_is_recorded_and_made_again,
                claims_of_a_process_that_was_alone_end_at_once,
                an_end_takes_effect_under_its_claim_only,
                a_failed_try_waits_for_its_time,
                a_channel_whose_destination_is_gone_loses_verified,
                a_result_for_an_old_configuration_does_not_count_for_the_new_one,
                a_failed_one_is_delivered_again,
                a_delivery_can_be_redelivered_repeatedly,
                they_are_listed_newest_first_in_pages,
                lists_are_filtered,
                the_total_stops_at_ten_thousand,
                old_ones_go_in_small_batches,
            }
            alert_histories {
                whatever_happens_every_event_is_reported_or_recorded,
            }
            account_deletion {
                a_deleted_account_is_unusable_at_once,
                its_attempts_are_to_be_aborted_until_it_is_gone,
                its_rows_are_removed_in_small_batches,
                it_is_gone_when_nothing_can_follow,
                accounts_of_others_stay_whole,
                versions_and_skips_are_read_in_pages,
            }
            pruning {
                old_jobs_skips_and_versions_go,
                unfinished_jobs_and_used_versions_stay,
                a_round_is_bounded,
                a_shorter_history_goes_row_by_row,
                keys_that_are_over_go,
                signing_secrets_that_are_over_go,
            }
        }
    };
}

/// The suite, once for each adapter.
mod on {
    every_case!(sqlite: crate::conformance::store::sqlite::open);
    every_case!(postgres: crate::conformance::store::postgres::open);
}
