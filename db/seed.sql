-- An example workspace: a lost-pets volunteer with channels on Telegram and MAX, a VK wall to read, a post that goes to all
-- channels, and a bot that answers in MAX.
-- Everything is invented. Play it into a migrated scratch database: psql --file db/seed.sql DATABASE
-- May be played twice: what is there stays as it is.
-- The tokens here are sealed with nobody's key: set real ones with `rupor apply` before anything is sent.

BEGIN;

INSERT INTO workspaces (workspace_id, name)
VALUES (1, 'Лапа помощи')
ON CONFLICT DO NOTHING;

SET LOCAL rupor.workspace = '1';

INSERT INTO accounts (account_id, workspace_id, platform, name, kind, token_sealed, fingerprint, rate)
VALUES (1, 1, 'telegram', 'бот приюта', 'bot', '\x00', 'seed-telegram', 30),
       (2, 1, 'max', 'бот в MAX', 'bot', '\x00', 'seed-max', 30)
ON CONFLICT DO NOTHING;

-- The heads of the queue follow by trigger.
INSERT INTO channels (channel_id, workspace_id, account_id, name, target, chat_kind, rate, ambiguity, dedup, dedup_ttl_us)
VALUES (1, 1, 1, 'канал «Пропал питомец»', '-1001000000001', 'channel', 1, 'resend_once', 'content', 259200000000),
       (2, 1, 1, 'чат волонтёров', '-1001000000002', 'group', 0.33, 'resend_once', 'content', 259200000000),
       (3, 1, 2, 'канал в MAX', '-70000000000001', 'channel', 1, 'reconcile', 'content', 259200000000)
ON CONFLICT DO NOTHING;

-- A bot of two rules that hears by a webhook: /hooks/max/seed-hook, or workflow 11 with key=seed-hook. Its secret is nobody's:
-- `rupor bot hooks set` draws one.
INSERT INTO bots (bot_id, workspace_id, name, active_version)
VALUES (1, 1, 'справка', 1)
ON CONFLICT DO NOTHING;

INSERT INTO bot_rules (workspace_id, bot_id, version, rules)
VALUES (1, 1, 1, $rules$engine = 1
start = "menu"
fallback = ["Не понял. Напишите «нашёл» или «потерял»."]

[states.menu]

[[rules]]
name = "found"
on = { text = "нашёл" }
reply = "Спасибо! Пришлите место и фото одним сообщением."

[[rules]]
name = "cancel"
on = { command = "cancel" }
interrupt = true
reply = "Хорошо."
goto = "menu"
$rules$)
ON CONFLICT DO NOTHING;

INSERT INTO bot_accounts (account_id, workspace_id, bot_id, receive, hook_key, hook_secret_hash)
VALUES (2, 1, 1, 'webhook', 'seed-hook', encode(sha256(gen_random_uuid()::text::bytea), 'hex'))
ON CONFLICT DO NOTHING;

INSERT INTO pull_sources (source_id, workspace_id, kind, name, address, created_at)
VALUES (1, 1, 'vk', 'Потеряшки Примерска', '-300000001', rupor_now())
ON CONFLICT DO NOTHING;

INSERT INTO pull_cursors (source_id, workspace_id, updated_at)
VALUES (1, 1, rupor_now())
ON CONFLICT DO NOTHING;

SELECT setval(pg_get_serial_sequence(t.name, t.id), greatest(t.at_least, nextval(pg_get_serial_sequence(t.name, t.id)) - 1))
  FROM (VALUES ('workspaces', 'workspace_id', 1), ('accounts', 'account_id', 2), ('channels', 'channel_id', 3), ('bots', 'bot_id', 1),
               ('pull_sources', 'source_id', 1)) AS t (name, id, at_least);

SELECT enqueue_messages_and_deliveries(1, '[{
    "source": "vk:-300000001",
    "origin_id": "1",
    "content_hash": "seed-1",
    "kind": "lost",
    "payload": {"text": "Пропала собака, рыжая, отзывается на Искру. Примерск, ул. Садовая. +7 900 000-00-00"},
    "origin": {"owner_id": -300000001, "post_id": 1},
    "channels": [1, 2, 3]
}]');

COMMIT;
