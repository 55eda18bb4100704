-- Ports of sandboxes that may be reached from outside.
CREATE TABLE ports (
    sandbox_id   TEXT COLLATE "C" NOT NULL REFERENCES sandboxes,
    port         BIGINT NOT NULL CHECK (port BETWEEN 1 AND 65535),
    public       BIGINT NOT NULL CHECK (public IN (0, 1)),
    extend_lease BIGINT NOT NULL CHECK (extend_lease IN (0, 1)),
    created_at   BIGINT NOT NULL,
    PRIMARY KEY (sandbox_id, port)
);
