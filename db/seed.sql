-- An example workspace: a shelter with one Telegram bot, two channels and one post on its way.
-- The token is a stand-in that no key opens; set a real one with the application.
--   psql -d DATABASE -f db/seed.sql        (as the owner of the tables)

INSERT INTO workspaces (workspace_id, name, created_at)
VALUES (1, 'Приют «Хвост»', rupor_now());

INSERT INTO accounts (account_id, workspace_id, platform, name, token_sealed, fingerprint, rate, created_at)
VALUES (1, 1, 'telegram', 'Бот приюта', '\x00', 'example', 20, rupor_now());

INSERT INTO channels (channel_id, workspace_id, account_id, platform, name, target, chat_kind, dedup, dedup_ttl_us, created_at)
VALUES (1, 1, 1, 'telegram', 'Потеряшки города', '-1001000000001', 'channel', 'fingerprint', 259200000000, rupor_now()),
       (2, 1, 1, 'telegram', 'Чат волонтёров', '-1000002', 'group', 'content', 604800000000, rupor_now());

-- Ids given by hand do not move the counters behind them.
SELECT setval('workspaces_workspace_id_seq', 1), setval('accounts_account_id_seq', 1), setval('channels_channel_id_seq', 2);

SELECT enqueue_messages_and_deliveries(1, '[{
    "source": "vk:-990000101", "origin_id": "1", "kind": "lost",
    "payload": {"text": "Пропала собака, рыжая, откликается на Берту. Телефон +7 975 000-00-01"},
    "content_hash": "example", "fingerprint": "example", "tags": ["kind:lost", "animal:dog", "has:phone"],
    "origin": {"owner_id": -990000101, "post_id": 1}, "channels": [1, 2]
}]');
