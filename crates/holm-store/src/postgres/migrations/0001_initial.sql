-- The same as for SQLite: times are microseconds since 1970, durations microseconds, money
-- micro-units, JSON text. Ids compare by their bytes, whatever the database's language.

CREATE TABLE accounts (
    id            TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    name          TEXT   NOT NULL,
    created_at    BIGINT NOT NULL,
    max_sandboxes BIGINT,
    max_lifetime  BIGINT,
    disabled_at   BIGINT
);
CREATE INDEX accounts_newest ON accounts (created_at, id);

CREATE TABLE api_keys (
    id           TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    account_id   TEXT COLLATE "C" NOT NULL REFERENCES accounts,
    hash         BYTEA  NOT NULL UNIQUE CHECK (length(hash) = 32),
    name         TEXT   NOT NULL,
    prefix       TEXT   NOT NULL,
    scopes       TEXT   NOT NULL,
    created_at   BIGINT NOT NULL,
    expires_at   BIGINT,
    last_used_at BIGINT,
    revoked_at   BIGINT
);
CREATE INDEX api_keys_newest ON api_keys (account_id, created_at, id);

CREATE TABLE nodes (
    id        TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    boot_id   TEXT   NOT NULL,
    last_seen BIGINT NOT NULL
);

CREATE TABLE sandboxes (
    id               TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    account_id       TEXT COLLATE "C" NOT NULL REFERENCES accounts,
    node_id          TEXT COLLATE "C" NOT NULL REFERENCES nodes,
    key_id           TEXT COLLATE "C" REFERENCES api_keys,
    session          TEXT,
    name             TEXT,
    template         TEXT   NOT NULL,
    size             TEXT   NOT NULL,
    vcpus            BIGINT NOT NULL,
    memory_mb        BIGINT NOT NULL,
    disk_mb          BIGINT NOT NULL,
    disk_inodes      BIGINT NOT NULL,
    max_processes    BIGINT NOT NULL,
    vcpus_asked      BIGINT NOT NULL,
    metadata         TEXT   NOT NULL,
    lifetime         BIGINT NOT NULL,
    price_per_second BIGINT NOT NULL CHECK (price_per_second >= 0),
    state            TEXT   NOT NULL
        CHECK (state IN ('provisioning', 'running', 'deleting', 'deleted', 'failed')),
    created_at       BIGINT NOT NULL,
    ready_at         BIGINT,
    expires_at       BIGINT,
    ended_reason     TEXT,
    ended_at         BIGINT,
    metered_until    BIGINT,
    adoption         TEXT,
    version          BIGINT NOT NULL,
    CHECK ((ended_reason IS NULL) = (ended_at IS NULL)),
    CHECK ((metered_until IS NULL) = (ready_at IS NULL))
);
CREATE INDEX sandboxes_newest ON sandboxes (account_id, created_at, id);
CREATE INDEX sandboxes_newest_of_all ON sandboxes (created_at, id);
CREATE INDEX sandboxes_alive ON sandboxes (account_id, created_at, id)
    WHERE state NOT IN ('deleted', 'failed');
CREATE INDEX sandboxes_alive_on ON sandboxes (node_id) WHERE state NOT IN ('deleted', 'failed');

CREATE TABLE idempotency (
    account_id  TEXT COLLATE "C" NOT NULL REFERENCES accounts,
    key         TEXT   NOT NULL,
    fingerprint TEXT   NOT NULL,
    sandbox_id  TEXT COLLATE "C" NOT NULL REFERENCES sandboxes,
    expires_at  BIGINT NOT NULL,
    PRIMARY KEY (account_id, key)
);
CREATE INDEX idempotency_expiry ON idempotency (account_id, expires_at);
CREATE INDEX idempotency_sandbox ON idempotency (sandbox_id);

-- Append-only. Each entry follows the one before: next number, sum carried on.
CREATE TABLE ledger (
    id            TEXT COLLATE "C" NOT NULL UNIQUE,
    account_id    TEXT COLLATE "C" NOT NULL REFERENCES accounts,
    seq           BIGINT NOT NULL,
    kind          TEXT   NOT NULL CHECK (kind IN ('topup', 'usage', 'adjust')),
    amount        BIGINT NOT NULL CHECK (amount <> 0),
    balance_after BIGINT NOT NULL,
    sandbox_id    TEXT COLLATE "C" REFERENCES sandboxes,
    from_at       BIGINT,
    to_at         BIGINT,
    reference     TEXT,
    created_at    BIGINT NOT NULL,
    PRIMARY KEY (account_id, seq),
    UNIQUE (sandbox_id, from_at),
    UNIQUE (account_id, reference),
    CHECK ((kind = 'usage') = (sandbox_id IS NOT NULL)),
    CHECK ((sandbox_id IS NULL) = (from_at IS NULL)),
    CHECK ((sandbox_id IS NULL) = (to_at IS NULL)),
    CHECK (from_at IS NULL OR from_at < to_at)
);

-- The functions look their table up beside the one that fired them, whatever the search path.
CREATE FUNCTION ledger_follows() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    last_seq     BIGINT := 0;
    last_balance BIGINT := 0;
    found_seq    BIGINT;
    found_sum    BIGINT;
BEGIN
    EXECUTE format(
        'SELECT seq, balance_after FROM %I.%I WHERE account_id = $1 ORDER BY seq DESC LIMIT 1',
        TG_TABLE_SCHEMA, TG_TABLE_NAME)
        INTO found_seq, found_sum USING NEW.account_id;
    IF found_seq IS NOT NULL THEN
        last_seq := found_seq;
        last_balance := found_sum;
    END IF;
    IF NEW.seq <> last_seq + 1 OR NEW.balance_after <> last_balance + NEW.amount THEN
        RAISE EXCEPTION 'a ledger entry must follow the last one';
    END IF;
    RETURN NEW;
END $$;

CREATE FUNCTION append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the table % is append-only', TG_TABLE_NAME;
END $$;

CREATE TRIGGER ledger_follows BEFORE INSERT ON ledger
    FOR EACH ROW EXECUTE FUNCTION ledger_follows();
CREATE TRIGGER ledger_no_change BEFORE UPDATE OR DELETE ON ledger
    FOR EACH ROW EXECUTE FUNCTION append_only();
CREATE TRIGGER ledger_no_truncate BEFORE TRUNCATE ON ledger
    FOR EACH STATEMENT EXECUTE FUNCTION append_only();

-- Append-only. No references: an event may name what is not there.
CREATE TABLE audit (
    id         TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    at         BIGINT NOT NULL,
    account_id TEXT COLLATE "C",
    key_id     TEXT COLLATE "C",
    action     TEXT   NOT NULL,
    target     TEXT,
    outcome    TEXT   NOT NULL CHECK (outcome IN ('done', 'refused', 'failed')),
    detail     TEXT   NOT NULL
);
CREATE INDEX audit_newest ON audit (account_id, at, id);
CREATE INDEX audit_newest_of_all ON audit (at, id);

CREATE TRIGGER audit_no_change BEFORE UPDATE OR DELETE ON audit
    FOR EACH ROW EXECUTE FUNCTION append_only();
CREATE TRIGGER audit_no_truncate BEFORE TRUNCATE ON audit
    FOR EACH STATEMENT EXECUTE FUNCTION append_only();

CREATE TABLE outbox (
    event_id        TEXT COLLATE "C" NOT NULL,
    target          TEXT COLLATE "C" NOT NULL,
    account_id      TEXT COLLATE "C" NOT NULL REFERENCES accounts,
    kind            TEXT   NOT NULL,
    payload         TEXT   NOT NULL,
    created_at      BIGINT NOT NULL,
    attempts        BIGINT NOT NULL,
    next_attempt_at BIGINT NOT NULL,
    done_at         BIGINT,
    delivered       BIGINT,
    PRIMARY KEY (event_id, target)
);
CREATE INDEX outbox_due ON outbox (target, next_attempt_at) WHERE done_at IS NULL;
CREATE INDEX outbox_done ON outbox (done_at) WHERE done_at IS NOT NULL;
