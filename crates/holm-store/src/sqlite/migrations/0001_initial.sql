-- Times are microseconds since 1970, durations microseconds, money micro-units, JSON text.

CREATE TABLE accounts (
    id            TEXT    NOT NULL PRIMARY KEY,
    name          TEXT    NOT NULL,
    created_at    INTEGER NOT NULL,
    max_sandboxes INTEGER,
    max_lifetime  INTEGER,
    disabled_at   INTEGER
) STRICT;
CREATE INDEX accounts_newest ON accounts (created_at, id);

CREATE TABLE api_keys (
    id           TEXT    NOT NULL PRIMARY KEY,
    account_id   TEXT    NOT NULL REFERENCES accounts,
    hash         BLOB    NOT NULL UNIQUE CHECK (length(hash) = 32),
    name         TEXT    NOT NULL,
    prefix       TEXT    NOT NULL,
    scopes       TEXT    NOT NULL,
    created_at   INTEGER NOT NULL,
    expires_at   INTEGER,
    last_used_at INTEGER,
    revoked_at   INTEGER
) STRICT;
CREATE INDEX api_keys_newest ON api_keys (account_id, created_at, id);

CREATE TABLE nodes (
    id        TEXT    NOT NULL PRIMARY KEY,
    boot_id   TEXT    NOT NULL,
    last_seen INTEGER NOT NULL
) STRICT;

CREATE TABLE sandboxes (
    id               TEXT    NOT NULL PRIMARY KEY,
    account_id       TEXT    NOT NULL REFERENCES accounts,
    node_id          TEXT    NOT NULL REFERENCES nodes,
    key_id           TEXT    REFERENCES api_keys,
    session          TEXT,
    name             TEXT,
    template         TEXT    NOT NULL,
    size             TEXT    NOT NULL,
    vcpus            INTEGER NOT NULL,
    memory_mb        INTEGER NOT NULL,
    disk_mb          INTEGER NOT NULL,
    disk_inodes      INTEGER NOT NULL,
    max_processes    INTEGER NOT NULL,
    vcpus_asked      INTEGER NOT NULL,
    metadata         TEXT    NOT NULL,
    lifetime         INTEGER NOT NULL,
    price_per_second INTEGER NOT NULL CHECK (price_per_second >= 0),
    state            TEXT    NOT NULL
        CHECK (state IN ('provisioning', 'running', 'deleting', 'deleted', 'failed')),
    created_at       INTEGER NOT NULL,
    ready_at         INTEGER,
    expires_at       INTEGER,
    ended_reason     TEXT,
    ended_at         INTEGER,
    metered_until    INTEGER,
    adoption         TEXT,
    version          INTEGER NOT NULL,
    CHECK ((ended_reason IS NULL) = (ended_at IS NULL)),
    CHECK ((metered_until IS NULL) = (ready_at IS NULL))
) STRICT;
CREATE INDEX sandboxes_newest ON sandboxes (account_id, created_at, id);
CREATE INDEX sandboxes_newest_of_all ON sandboxes (created_at, id);
CREATE INDEX sandboxes_alive ON sandboxes (account_id, created_at, id)
    WHERE state NOT IN ('deleted', 'failed');
CREATE INDEX sandboxes_alive_on ON sandboxes (node_id) WHERE state NOT IN ('deleted', 'failed');

CREATE TABLE idempotency (
    account_id  TEXT    NOT NULL REFERENCES accounts,
    key         TEXT    NOT NULL,
    fingerprint TEXT    NOT NULL,
    sandbox_id  TEXT    NOT NULL REFERENCES sandboxes,
    expires_at  INTEGER NOT NULL,
    PRIMARY KEY (account_id, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX idempotency_expiry ON idempotency (account_id, expires_at);
CREATE INDEX idempotency_sandbox ON idempotency (sandbox_id);

-- Append-only. Each entry follows the one before: next number, sum carried on.
CREATE TABLE ledger (
    id            TEXT    NOT NULL UNIQUE,
    account_id    TEXT    NOT NULL REFERENCES accounts,
    seq           INTEGER NOT NULL,
    kind          TEXT    NOT NULL CHECK (kind IN ('topup', 'usage', 'adjust')),
    amount        INTEGER NOT NULL CHECK (amount <> 0),
    balance_after INTEGER NOT NULL,
    sandbox_id    TEXT    REFERENCES sandboxes,
    from_at       INTEGER,
    to_at         INTEGER,
    reference     TEXT,
    created_at    INTEGER NOT NULL,
    PRIMARY KEY (account_id, seq),
    UNIQUE (sandbox_id, from_at),
    UNIQUE (account_id, reference),
    CHECK ((kind = 'usage') = (sandbox_id IS NOT NULL)),
    CHECK ((sandbox_id IS NULL) = (from_at IS NULL)),
    CHECK ((sandbox_id IS NULL) = (to_at IS NULL)),
    CHECK (from_at IS NULL OR from_at < to_at)
) STRICT;

CREATE TRIGGER ledger_follows BEFORE INSERT ON ledger
WHEN NEW.seq <> 1 + COALESCE(
        (SELECT seq FROM ledger WHERE account_id = NEW.account_id ORDER BY seq DESC LIMIT 1), 0)
  OR NEW.balance_after <> NEW.amount + COALESCE(
        (SELECT balance_after FROM ledger WHERE account_id = NEW.account_id
         ORDER BY seq DESC LIMIT 1), 0)
BEGIN
    SELECT RAISE(ABORT, 'a ledger entry must follow the last one');
END;
-- An INSERT OR REPLACE removes without firing the trigger of a removal.
CREATE TRIGGER ledger_no_replace BEFORE INSERT ON ledger
WHEN EXISTS (SELECT 1 FROM ledger WHERE id = NEW.id)
  OR EXISTS (SELECT 1 FROM ledger WHERE sandbox_id = NEW.sandbox_id AND from_at = NEW.from_at)
  OR EXISTS (SELECT 1 FROM ledger
             WHERE account_id = NEW.account_id AND reference = NEW.reference)
BEGIN
    SELECT RAISE(ABORT, 'the ledger is append-only');
END;
CREATE TRIGGER ledger_no_update BEFORE UPDATE ON ledger
BEGIN
    SELECT RAISE(ABORT, 'the ledger is append-only');
END;
CREATE TRIGGER ledger_no_delete BEFORE DELETE ON ledger
BEGIN
    SELECT RAISE(ABORT, 'the ledger is append-only');
END;

-- Append-only. No references: an event may name what is not there.
CREATE TABLE audit (
    id         TEXT    NOT NULL PRIMARY KEY,
    at         INTEGER NOT NULL,
    account_id TEXT,
    key_id     TEXT,
    action     TEXT    NOT NULL,
    target     TEXT,
    outcome    TEXT    NOT NULL CHECK (outcome IN ('done', 'refused', 'failed')),
    detail     TEXT    NOT NULL
) STRICT;
CREATE INDEX audit_newest ON audit (account_id, at, id);
CREATE INDEX audit_newest_of_all ON audit (at, id);

CREATE TRIGGER audit_no_update BEFORE UPDATE ON audit
BEGIN
    SELECT RAISE(ABORT, 'the audit log is append-only');
END;
CREATE TRIGGER audit_no_delete BEFORE DELETE ON audit
BEGIN
    SELECT RAISE(ABORT, 'the audit log is append-only');
END;

CREATE TABLE outbox (
    event_id        TEXT    NOT NULL,
    target          TEXT    NOT NULL,
    account_id      TEXT    NOT NULL REFERENCES accounts,
    kind            TEXT    NOT NULL,
    payload         TEXT    NOT NULL,
    created_at      INTEGER NOT NULL,
    attempts        INTEGER NOT NULL,
    next_attempt_at INTEGER NOT NULL,
    done_at         INTEGER,
    delivered       INTEGER,
    PRIMARY KEY (event_id, target)
) STRICT;
CREATE INDEX outbox_due ON outbox (target, next_attempt_at) WHERE done_at IS NULL;
CREATE INDEX outbox_done ON outbox (done_at) WHERE done_at IS NOT NULL;
