-- Sandboxes that can be paused, and what that costs. Those from before are not paused by themselves.
ALTER TABLE sandboxes DROP CONSTRAINT sandboxes_state_check;
ALTER TABLE sandboxes ADD CONSTRAINT sandboxes_state_check
    CHECK (state IN ('provisioning', 'running', 'paused', 'deleting', 'deleted', 'failed'));

ALTER TABLE sandboxes ADD COLUMN paused_price BIGINT NOT NULL DEFAULT 0 CHECK (paused_price >= 0);
ALTER TABLE sandboxes ADD COLUMN auto_pause BIGINT;
ALTER TABLE sandboxes ADD COLUMN auto_resume BIGINT NOT NULL DEFAULT 1 CHECK (auto_resume IN (0, 1));
ALTER TABLE sandboxes ADD COLUMN turned_at BIGINT;
ALTER TABLE sandboxes ADD COLUMN paused_seconds BIGINT NOT NULL DEFAULT 0;
