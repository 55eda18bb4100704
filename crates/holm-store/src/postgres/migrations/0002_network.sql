-- What sandboxes may reach, and what went through. Those from before had loopback only.
ALTER TABLE accounts ADD COLUMN network TEXT;
ALTER TABLE sandboxes ADD COLUMN network TEXT NOT NULL DEFAULT '"none"';
ALTER TABLE sandboxes ADD COLUMN secrets TEXT NOT NULL DEFAULT '{}';
ALTER TABLE sandboxes ADD COLUMN bytes_out BIGINT NOT NULL DEFAULT 0;
ALTER TABLE sandboxes ADD COLUMN bytes_in BIGINT NOT NULL DEFAULT 0;

-- Sealed under a key that is not in the database.
CREATE TABLE secrets (
    account_id      TEXT COLLATE "C" NOT NULL REFERENCES accounts,
    name            TEXT COLLATE "C" NOT NULL,
    sealed          BYTEA  NOT NULL,
    hosts           TEXT   NOT NULL,
    headers         TEXT   NOT NULL,
    allow_plaintext BIGINT NOT NULL CHECK (allow_plaintext IN (0, 1)),
    created_at      BIGINT NOT NULL,
    updated_at      BIGINT NOT NULL,
    PRIMARY KEY (account_id, name)
);
