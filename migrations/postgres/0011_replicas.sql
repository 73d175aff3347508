-- The replicas that lead shards, by their own word. Leaders that have died are found by it while the
-- cluster cannot say who is alive. cut_off: the cluster does not answer this replica. alive_until: in
-- milliseconds since 1970.
CREATE TABLE replicas (
    name        text PRIMARY KEY,
    cut_off     boolean NOT NULL,
    alive_until bigint NOT NULL
);
