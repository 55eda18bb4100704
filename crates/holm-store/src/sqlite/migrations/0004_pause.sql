-- Sandboxes that can be paused, and what that costs. Those from before are not paused by themselves.
-- A check cannot be changed here, only dropped with its column.
DROP INDEX sandboxes_alive;
DROP INDEX sandboxes_alive_on;
ALTER TABLE sandboxes RENAME COLUMN state TO state_before;
ALTER TABLE sandboxes ADD COLUMN state TEXT NOT NULL DEFAULT 'provisioning'
    CHECK (state IN ('provisioning', 'running', 'paused', 'deleting', 'deleted', 'failed'));
UPDATE sandboxes SET state = state_before;
ALTER TABLE sandboxes DROP COLUMN state_before;
CREATE INDEX sandboxes_alive ON sandboxes (account_id, created_at, id)
    WHERE state NOT IN ('deleted', 'failed');
CREATE INDEX sandboxes_alive_on ON sandboxes (node_id) WHERE state NOT IN ('deleted', 'failed');

ALTER TABLE sandboxes ADD COLUMN paused_price INTEGER NOT NULL DEFAULT 0 CHECK (paused_price >= 0);
ALTER TABLE sandboxes ADD COLUMN auto_pause INTEGER;
ALTER TABLE sandboxes ADD COLUMN auto_resume INTEGER NOT NULL DEFAULT 1 CHECK (auto_resume IN (0, 1));
ALTER TABLE sandboxes ADD COLUMN turned_at INTEGER;
ALTER TABLE sandboxes ADD COLUMN paused_seconds INTEGER NOT NULL DEFAULT 0;
