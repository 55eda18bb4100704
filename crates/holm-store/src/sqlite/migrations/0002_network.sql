-- What sandboxes may reach, and what went through. Those from before had loopback only.
ALTER TABLE accounts ADD COLUMN network TEXT;
ALTER TABLE sandboxes ADD COLUMN network TEXT NOT NULL DEFAULT '"none"';
ALTER TABLE sandboxes ADD COLUMN secrets TEXT NOT NULL DEFAULT '{}';
ALTER TABLE sandboxes ADD COLUMN bytes_out INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sandboxes ADD COLUMN bytes_in INTEGER NOT NULL DEFAULT 0;

-- Sealed under a key that is not in the database.
CREATE TABLE secrets (
    account_id      TEXT    NOT NULL REFERENCES accounts,
    name            TEXT    NOT NULL,
    sealed          BLOB    NOT NULL,
    hosts           TEXT    NOT NULL,
    headers         TEXT    NOT NULL,
    allow_plaintext INTEGER NOT NULL CHECK (allow_plaintext IN (0, 1)),
    created_at      INTEGER NOT NULL,
    updated_at      INTEGER NOT NULL,
    PRIMARY KEY (account_id, name)
) STRICT, WITHOUT ROWID;
