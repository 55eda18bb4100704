-- Ports of sandboxes that may be reached from outside.
CREATE TABLE ports (
    sandbox_id   TEXT    NOT NULL REFERENCES sandboxes,
    port         INTEGER NOT NULL CHECK (port BETWEEN 1 AND 65535),
    public       INTEGER NOT NULL CHECK (public IN (0, 1)),
    extend_lease INTEGER NOT NULL CHECK (extend_lease IN (0, 1)),
    created_at   INTEGER NOT NULL,
    PRIMARY KEY (sandbox_id, port)
) STRICT, WITHOUT ROWID;
