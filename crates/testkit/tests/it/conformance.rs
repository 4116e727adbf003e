//! Runs every conformance case on every store.

/// A module for a store, with a test for each case that applies to it.
macro_rules! suite {
    ($store:ident: $fixture:ty, $($kind:ident),+) => {
        mod $store {
            $($kind! { $fixture })+
        }
    };
}

macro_rules! tests {
    ($fixture:ty; $($theme:ident { $($case:ident)+ })+) => {
        $(mod $theme {
            $(#[tokio::test]
            async fn $case() {
                let fixture = <$fixture>::open().await;
                backstitch_testkit::conformance::$theme::$case(&fixture).await;
            })+
        })+
    };
}

/// Cases for every store.
macro_rules! every_store {
    ($fixture:ty) => {
        tests! { $fixture;
            commit_and_fence {
                a_new_saga_is_read_back_as_it_was_written
                a_saga_that_nobody_started_is_not_there
                every_kind_of_event_is_read_back
                a_log_is_read_in_parts
                whoever_appends_a_number_first_has_decided
                whoever_comes_first_in_a_batch_has_decided
                a_number_beyond_the_next_one_is_fenced
                a_decision_about_an_unknown_saga_is_fenced
                a_second_start_of_the_same_saga_is_fenced
                a_fenced_decision_does_not_disturb_its_neighbours
                an_empty_batch_is_no_work
                a_row_shows_what_was_decided_last
                a_decision_with_many_events_is_written_whole
                a_saga_can_end_with_its_first_decision
                nothing_follows_a_good_end
                only_a_new_try_follows_a_failed_rollback
            }
            atomicity {
                an_applied_decision_is_there_as_a_whole
                nothing_of_a_fenced_start_is_visible
                nothing_of_a_fenced_update_is_visible
                nothing_of_a_held_up_decision_is_visible
                nothing_of_a_decision_after_the_end_is_visible
                nothing_of_a_repeated_or_conflicting_start_is_visible
                a_mixed_batch_leaves_exactly_its_winners
                what_was_applied_survives_the_process
            }
            claims {
                a_repeated_start_answers_with_the_first_saga
                a_repeated_start_changes_nothing_in_a_saga_that_went_on
                another_request_under_a_used_key_is_a_conflict
                the_same_key_in_another_scope_is_another_key
                a_start_is_repeated_within_one_batch
                a_fenced_start_leaves_its_key_free
                a_key_is_remembered_by_the_next_process
            }
            inbox {
                messages_wait_in_their_order
                a_message_for_nobody_is_refused
                a_message_for_an_ended_saga_is_refused
                an_unseen_message_holds_up_the_end
                an_unseen_message_holds_up_nothing_else
                waiting_mail_does_not_disturb_the_neighbours
                messages_are_consumed_by_the_decision_they_cause
                a_fenced_decision_leaves_the_messages_waiting
                a_node_hears_of_mail_for_its_own_sagas_only
                idle_saga_is_released_with_its_messages
                saga_with_a_newer_event_is_not_released
                a_message_makes_an_unowned_saga_due
                messages_wait_for_the_next_process
                the_last_message_goes_with_the_end
            }
            nodes {
                every_life_has_a_higher_number
                a_node_that_joined_is_alive
                a_number_that_nobody_got_is_not_alive
                a_node_is_listed_from_its_joining_to_its_leaving
                a_node_that_left_is_not_alive
            }
            adoption {
                a_dead_nodes_saga_is_taken_over_and_its_log_says_so
                an_announced_adoption_is_told_with_it
                the_old_owners_decision_is_fenced
                nothing_is_adopted_twice
                adoption_goes_in_batches_until_nothing_is_left
                a_definition_the_node_lacks_is_skipped
                an_unowned_saga_is_adopted_once_it_is_due
                released_saga_is_adopted_without_an_event
                a_nodes_own_sagas_are_left_alone
                an_ended_saga_is_never_adopted
                an_adopted_log_does_not_go_back_in_time
                the_next_due_time_is_that_of_a_saga_the_node_can_run
                a_leaving_nodes_sagas_are_due_at_once
                the_next_process_takes_up_what_was_left
            }
            definitions {
                a_definition_is_read_back_as_it_was_kept
                a_version_never_changes
                the_highest_version_is_found_without_its_number
                an_unknown_definition_is_not_there
                a_definition_is_there_for_the_next_process
                a_staged_version_waits_to_be_applied
                only_the_next_version_is_staged
                a_name_that_belongs_to_code_is_not_declared
                documents_of_different_kinds_share_no_names
                a_document_knows_when_it_changed_last
                staging_replaces_what_was_staged
                only_the_version_that_is_meant_is_applied
                a_version_is_kept_and_active_together_or_not_at_all
                of_many_who_activate_a_version_at_once_one_is_taken
                only_the_version_that_is_meant_is_discarded
                a_discarded_version_leaves_its_number_behind
                what_is_not_staged_is_neither_applied_nor_discarded
                declarations_are_listed_by_name
                sagas_in_flight_are_counted_by_version
                declarations_are_there_for_the_next_process
            }
            jobs {
                a_worker_gets_the_job_as_it_was_asked_for
                a_job_is_leased_by_one_worker_only
                a_job_is_leased_once_it_is_due
                a_worker_gets_jobs_of_its_queues_only
                the_oldest_jobs_go_first
                a_job_is_completed_once
                a_failed_job_waits_for_its_retry_or_is_given_up
                a_result_under_an_old_token_is_refused
                an_expired_lease_costs_no_attempt_and_the_fifth_ends_the_job
                a_job_that_is_given_up_is_told
                a_heartbeat_extends_the_lease
                a_job_that_is_given_back_is_due_at_once_and_costs_nothing
                a_job_is_given_back_by_its_holder_only
                a_saga_has_one_active_job_for_a_subject
                two_sagas_may_ask_for_the_same_thing
                reports_are_answered_each_for_itself
                reports_follow_the_kernels_lease_rule
                an_unknown_job_is_not_there
                a_lease_holds_across_processes
            }
            work {
                lease_tells_its_saga_when_it_began
                decision_withdraws_jobs_that_no_worker_has
                an_answer_ends_the_job_and_tells_its_saga
                a_failure_ends_the_job_and_tells_its_saga
                an_answer_under_an_old_token_is_refused
                an_answer_counts_once
                an_answer_needs_a_lease
                an_answer_makes_an_unowned_saga_due
                an_ended_saga_takes_no_answer_but_the_job_is_over
                an_answer_waits_for_the_next_process
                an_unseen_answer_holds_up_the_end
                a_job_that_nobody_leased_is_withdrawn
                a_leased_job_is_not_withdrawn
                a_job_whose_lease_ran_out_is_withdrawn
                only_the_job_that_is_meant_is_withdrawn
                the_job_of_an_ended_saga_is_withdrawn_without_a_word
                a_job_is_either_leased_or_withdrawn
                a_product_gives_its_jobs_up_itself
                a_saga_is_told_of_an_attempt_that_nobody_brings_back
                nobody_is_told_of_a_lost_job_that_no_saga_waits_for
                the_job_of_a_paused_saga_waits_until_it_goes_on
            }
            retention {
                what_is_over_is_removed_at_its_time
                a_key_outlives_its_message_and_can_then_be_used_anew
                what_is_not_over_is_never_removed
                a_retry_and_what_it_stands_for_go_in_their_order
                old_messages_are_removed_in_batches
                a_walk_goes_on_past_messages_that_stay
                a_walk_goes_on_past_keys_that_stay
                a_topic_that_is_not_meant_stays
                a_message_that_is_asked_for_again_meanwhile_stays
                a_key_that_is_used_anew_meanwhile_stays
            }
            old_sagas {
                an_ended_saga_goes_with_all_that_is_its_own
                the_bulk_of_a_saga_is_that_of_its_log
                a_key_is_free_once_its_saga_is_gone
                nothing_else_is_removed_whatever_is_asked_for
                a_saga_is_as_old_as_its_end
                a_saga_with_something_left_to_do_stays
                a_failed_saga_that_is_taken_up_again_stays
                whoever_comes_after_the_removal_finds_nothing
                a_walk_meets_each_saga_once_and_ends_in_time
            }
            outbox {
                a_sender_gets_the_message_as_it_was_written
                a_message_is_claimed_by_one_sender_only
                a_delivered_message_is_never_sent_again
                an_aborted_message_is_never_sent_again
                a_failed_message_is_sent_again_at_its_time
                an_abandoned_message_is_taken_over_in_doubt
                a_report_under_an_old_lock_changes_nothing
                a_repeated_report_changes_nothing
                a_repeated_key_keeps_the_first_message
                the_same_key_in_another_topic_is_another_message
                messages_are_claimed_oldest_first_and_in_batches
                an_ordering_key_lets_one_message_go_at_a_time
                an_abandoned_message_is_not_overtaken
                the_next_due_message_is_known
                the_oldest_message_that_is_not_out_is_known
                the_age_of_those_that_wait_is_known
                gaps_between_those_that_wait_make_none_of_them_older_or_younger
                of_a_long_queue_the_oldest_are_counted
                a_message_is_there_for_the_next_process
            }
            messages {
                a_key_is_taken_once
                a_batch_is_judged_one_by_one
                a_key_of_the_engines_own_is_refused
                a_message_is_read_as_it_stands
                a_message_that_is_given_back_is_due_at_once
                a_message_that_is_too_old_is_given_up
                a_message_that_is_too_old_is_not_claimed
                a_wait_ends_when_the_message_expires
                what_its_writer_has_not_counted_is_counted_by_whoever_meets_it_first
                an_aborted_message_is_sent_again_as_a_new_one
                messages_are_listed_newest_first
                each_topic_gives_its_own_share
                a_long_queue_behind_one_key_keeps_its_order
            }
            ordering {
                a_scope_keeps_order_across_topics
                an_expired_message_lets_the_next_topic_go
                without_a_scope_a_key_holds_in_its_topic_alone
                a_retried_message_keeps_its_scope
                messages_behind_others_hide_none_that_can_go
            }
            listing {
                every_filter_finds_all_of_its_sagas_newest_first
                pages_stay_as_they_are_while_new_sagas_start
                a_saga_is_found_by_what_it_is_now
                heads_tell_how_far_logs_go
            }
            health {
                an_empty_store_is_well
                sagas_are_counted_by_status
                a_saga_is_stuck_when_nothing_is_due_for_too_long
                only_what_no_living_node_has_is_called_stuck_by_the_store
                the_longest_stuck_come_first
                rows_are_read_by_their_ids
                sagas_that_wait_for_a_definition_are_named
                a_dead_nodes_saga_of_an_unknown_definition_is_named
            }
            survey {
                what_is_looked_after_is_not_adrift
                what_nothing_will_move_is_adrift
                owners_are_told_once_and_whether_they_live
                what_waits_is_told_by_definition
                queues_are_told_with_their_first_job
                queues_of_one_kind_hide_none_of_another
                topics_are_told_with_how_late_they_are
            }
        }
    };
}

/// Cases for stores with tables.
macro_rules! sql_store {
    ($fixture:ty) => {
        tests! { $fixture;
            rules {
                events_are_never_changed
                a_log_lives_as_long_as_its_saga
                a_saga_at_its_good_end_never_changes
                a_compensated_saga_never_changes
                a_failed_saga_can_only_be_taken_up_again
                an_active_saga_is_never_deleted
                a_status_that_does_not_exist_is_refused
                a_key_of_a_start_names_its_saga
            }
            unreadable {
                a_message_that_cannot_be_read_holds_up_no_other
                a_job_that_cannot_be_read_holds_up_no_other
                a_products_job_that_cannot_be_read_is_left_to_the_product
                a_key_that_cannot_be_read_holds_up_no_other_start
            }
        }
    };
}

suite!(sqlite: backstitch_testkit::conformance::SqliteFixture, every_store, sql_store);
suite!(postgres: backstitch_testkit::conformance::PostgresFixture, every_store, sql_store);

#[test]
fn every_case_is_run() {
    let list = include_str!("conformance.rs");
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/conformance");
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let theme = path.file_stem().unwrap().to_string_lossy().into_owned();
        if !list.contains(&format!(" {theme} {{")) {
            continue;
        }
        let source = std::fs::read_to_string(&path).unwrap();
        for case in source.lines().filter_map(|line| line.strip_prefix("pub async fn ")) {
            let name = case.split('(').next().unwrap();
            assert!(list.contains(&format!(" {name}\n")), "{theme}::{name} is not in the list of cases");
        }
    }
}
