-- What sandboxes asked of their networks. Of those from before it was not written down.
ALTER TABLE sandboxes ADD COLUMN connections BIGINT NOT NULL DEFAULT 0;
ALTER TABLE sandboxes ADD COLUMN denied BIGINT NOT NULL DEFAULT 0;
ALTER TABLE sandboxes ADD COLUMN dns_queries BIGINT NOT NULL DEFAULT 0;
