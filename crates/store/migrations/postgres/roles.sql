-- The two roles of the product, their grants and their policies. Applied by every `rupor migrate`; may be run again.
-- Roles belong to the server: where the migrating user may not create them, an administrator runs this file once.
--
-- rupor_app         one workspace at a time, set per transaction (rupor.workspace); nothing is visible when it is unset
-- rupor_dispatcher  claim, commit and recover for everybody; reads what a send needs; writes only through functions
--
-- Neither may write the queue's tables by hand: the functions are the boundary.

DO $$
DECLARE
    wanted name;
BEGIN
    FOREACH wanted IN ARRAY '{rupor_app, rupor_dispatcher}'::name[] LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = wanted) THEN
            BEGIN
                EXECUTE format('CREATE ROLE %I NOLOGIN NOINHERIT', wanted);
            EXCEPTION WHEN duplicate_object OR unique_violation THEN
                NULL;  -- another database of this server made it in this moment
            END;
        END IF;
    END LOOP;
END $$;

GRANT USAGE ON SCHEMA public TO rupor_app, rupor_dispatcher;

-- -- the application: reads its workspace, writes its configuration and its intake

GRANT SELECT ON workspaces, workspace_endpoints, accounts, channels, recipients, suppressions, platform_limits, rate_groups, account_heads, lane_heads, lane_counts,
    cases, messages, deliveries, ready, inflight, attempts, dedup_index, events,
    case_keys, case_pictures, held_posts, message_media, media_looks, media_origin, media_blobs, pull_sources, pull_cursors, ingest_runs, ingress_receipts,
    audiences, audience_recipients, campaigns, campaign_variants, campaign_cohorts, campaign_recipients, campaign_codes, campaign_progress, bots, bot_accounts, bot_rules, bot_inbox, bot_state, bot_outbox, bot_logs, bot_chats TO rupor_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON alerts, api_tokens TO rupor_app;
GRANT SELECT, DELETE ON outcomes TO rupor_app;
GRANT SELECT (held, held_why, key_check) ON control TO rupor_app;
GRANT UPDATE (held) ON workspaces TO rupor_app;
GRANT INSERT, UPDATE, DELETE ON workspace_endpoints, platform_limits, case_keys, case_pictures, held_posts, message_media, media_looks,
    media_origin, media_blobs, pull_sources, pull_cursors, ingest_runs, ingress_receipts,
    recipients, suppressions, bots, bot_accounts, bot_rules TO rupor_app;
GRANT INSERT, UPDATE ON cases, audiences TO rupor_app;
GRANT INSERT ON campaigns, campaign_variants, audience_recipients TO rupor_app;
GRANT INSERT ON accounts, channels TO rupor_app;
GRANT UPDATE (name, kind, tier, token_sealed, fingerprint, rate, burst, max_parallel, retry_parallel, paused, paused_why,
    paused_at, api_base, proxy, extra_roots, settings, addresses_sealed) ON accounts TO rupor_app;
GRANT UPDATE (name, target, chat_kind, enabled, disabled_by, paused_until, paused_why, error_streak, rate, max_parallel,
    ambiguity, dedup, dedup_ttl_us, max_age_us, template, parse_mode, body_max, overflow, max_media, route, quiet_hours,
    time_zone, settings) ON channels TO rupor_app;
GRANT UPDATE (case_id, facts, facts_version, tags, skipped, seen_count, last_seen_at, gone_at) ON messages TO rupor_app;
-- Append only: no UPDATE, no DELETE.
GRANT INSERT ON events TO rupor_app;
GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO rupor_app;

-- -- the dispatcher: spans workspaces, for what a send needs

GRANT SELECT ON workspaces, accounts, channels, rate_groups, messages, deliveries, attempts, recipients, media_origin,
    media_blobs, account_heads, lane_heads, pull_sources, pull_cursors TO rupor_dispatcher;
GRANT SELECT, UPDATE ON control TO rupor_dispatcher;
GRANT SELECT, INSERT, UPDATE, DELETE ON nodes TO rupor_dispatcher;
GRANT INSERT, UPDATE ON workspaces TO rupor_dispatcher;
GRANT INSERT ON events TO rupor_dispatcher;
GRANT INSERT, UPDATE, DELETE ON media_blobs TO rupor_dispatcher;
GRANT USAGE ON SEQUENCE workspaces_workspace_id_seq, events_event_id_seq TO rupor_dispatcher;

DO $$
DECLARE
    wanted regclass;
BEGIN
    FOREACH wanted IN ARRAY '{workspaces, accounts, channels, rate_groups, messages, deliveries, attempts, recipients,
        media_origin, media_blobs, account_heads, lane_heads, pull_sources, pull_cursors, events}'::regclass[] LOOP
        IF NOT EXISTS (SELECT FROM pg_policy WHERE polrelid = wanted AND polname = 'dispatcher_spans') THEN
            EXECUTE format('CREATE POLICY dispatcher_spans ON %s TO rupor_dispatcher USING (true) WITH CHECK (true)', wanted);
        END IF;
    END LOOP;
END $$;

-- -- the boundary

-- Everything is closed to PUBLIC, functions of triggers too. What acts with the rights of its caller is open to both roles;
-- what acts with the owner's is named below. The schema is Rupor's own; what extensions brought is left alone.
DO $$
DECLARE
    owner    name := (SELECT pg_get_userbyid(relowner) FROM pg_class WHERE oid = 'workspaces'::regclass);
    function record;
BEGIN
    EXECUTE format('ALTER DEFAULT PRIVILEGES FOR ROLE %I REVOKE EXECUTE ON ROUTINES FROM PUBLIC', owner);
    FOR function IN
        SELECT p.oid::regprocedure AS signature, p.prosecdef OR p.prorettype = 'trigger'::regtype AS is_closed
          FROM pg_proc AS p
         WHERE p.pronamespace = 'public'::regnamespace AND pg_get_userbyid(p.proowner) = owner
           AND NOT EXISTS (SELECT FROM pg_depend AS d
                            WHERE d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e')
    LOOP
        EXECUTE format('REVOKE ALL ON ROUTINE %s FROM PUBLIC', function.signature);
        IF NOT function.is_closed THEN
            EXECUTE format('GRANT EXECUTE ON ROUTINE %s TO rupor_app, rupor_dispatcher', function.signature);
        END IF;
    END LOOP;
END $$;

GRANT EXECUTE ON FUNCTION
    enqueue_messages_and_deliveries(bigint, jsonb), claim_deliveries(bigint, text, integer, integer, boolean, bigint),
    next_claim_at(bigint), await_due_account(bigint, integer), commit_outcomes(bigint[], bigint[], uuid[], text[], timestamptz[], jsonb[], bigint[], bigint[]), record_parts(jsonb), renew_leases(jsonb, bigint),
    recover_leases(bigint, integer), reserve_slots(bigint, bigint, integer), reserve_slots_for(bigint, bigint, bigint[], integer), reserve_lane_slot(bigint, bigint), requeue_deliveries(bigint, bigint[]),
    cancel_deliveries(bigint, bigint[]), remove_channel(bigint, bigint), retarget_channel(bigint, bigint, text),
    move_channel(bigint, bigint, bigint, text),
    resume_account(bigint, bigint), resume_channel(bigint, bigint),
    lock_channel(bigint, bigint), lock_account(bigint, bigint),
    close_channel_until(bigint, bigint, timestamptz), endpoint_by_secret(text),
    retain_rows(bigint, interval, interval, interval, integer, jsonb),
    post_gone(bigint, text, text), revise_message(bigint, bigint, jsonb), follow_up(bigint, jsonb), deliver_message(bigint, bigint, jsonb),
    refile_keys(bigint, bigint[], bigint, bigint),
    lock_workspace(bigint), open_lane(bigint, bigint, bigint, bigint, integer, double precision, text),
    enqueue_for_recipients(bigint, bigint, bigint, bigint[], boolean, timestamptz), approach_recipient(bigint, bigint, bigint, timestamptz),
    people_of_accounts(bigint, bigint), set_recipient_status(bigint, bigint, text, text),
    suppress_people(bigint, text, text[], bigint, text, text),
    move_campaign(bigint, bigint, bigint, text, text, timestamptz, text, jsonb),
    freeze_campaign(bigint, bigint, text, text, text, text, boolean, bigint[], bigint[], bigint, boolean, bigint, bigint),
    prepare_wave(bigint, bigint, bigint), feed_campaign(bigint, bigint, boolean, bigint, bigint),
    recall_campaign(bigint, bigint, bigint),
    note_progress(bigint, bigint, bigint), rest_part(bigint, bigint, bigint, text), shut_cohorts(bigint, bigint, bigint[], timestamptz[], bigint), end_retries(bigint, bigint, bigint),
    edit_campaign(bigint, bigint, bigint, integer, bigint), pace_campaign(bigint, bigint, bigint, double precision, boolean),
    let_rest_follow(bigint, bigint, timestamptz), judge_campaign_from(bigint, bigint, bigint, jsonb),
    anybody_again(bigint, bigint, jsonb)
    TO rupor_app;
GRANT EXECUTE ON FUNCTION
    claim_deliveries(bigint, text, integer, integer, boolean, bigint), next_claim_at(bigint), await_due_account(bigint, integer), commit_outcomes(bigint[], bigint[], uuid[], text[], timestamptz[], jsonb[], bigint[], bigint[]),
    record_parts(jsonb), replay_outcomes(jsonb), renew_leases(jsonb, bigint), recover_leases(bigint, integer), reserve_slots(bigint, bigint, integer), reserve_slots_for(bigint, bigint, bigint[], integer), reserve_lane_slot(bigint, bigint),
    endpoint_by_secret(text), api_token_by_secret(text), retain_rows(bigint, interval, interval, interval, integer, jsonb), lease_sources(text, integer, integer, interval), close_runs(interval, text),
    approach_recipient(bigint, bigint, bigint, timestamptz), collect_media(interval, integer), forget_receipts(interval),
    rotate_key(bytea, bytea, bigint[], bytea[], bytea[], bytea[], bytea[], text[], bigint, bigint[], bytea[], bytea[])
    TO rupor_dispatcher;

-- -- the mailbox of the bot: what happens in one workspace is the application's, turns are taken for everybody

GRANT EXECUTE ON FUNCTION
    bot_receive(bigint, bigint, jsonb, text, text, bigint), bot_commit_turns(bigint, jsonb), bot_hook(text),
    bot_snapshot(bigint, interval, bigint), bot_forget(bigint, bigint, text),
    bot_settle_call(bigint, bigint, integer, text, bigint, text, jsonb), bot_decided(bigint, bigint, text)
    TO rupor_app;
GRANT EXECUTE ON FUNCTION
    bot_claim_turns(integer, bigint, integer), bot_next_turn(), bot_decisions(integer), bot_lease_accounts(text, bigint, integer), bot_hook(text),
    bot_retain(interval, interval, integer, bigint, bigint), bot_claim_calls(integer, bigint, text[]), bot_next_call()
    TO rupor_dispatcher;

-- -- whole steps for another orchestrator. Those that act with the rights of their caller need no line here, but of what
-- -- they call the dispatcher commits the turns that it claims for everybody: a turn is ended by its token alone.

GRANT EXECUTE ON FUNCTION begin_ingest(text, text, text), finish_ingest(bigint, bigint, bigint, text, jsonb) TO rupor_app;
GRANT EXECUTE ON FUNCTION begin_send(bigint, bigint, uuid), bot_commit_turns(bigint, jsonb) TO rupor_dispatcher;
