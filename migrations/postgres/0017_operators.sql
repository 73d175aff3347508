-- operator_since: the time at which the user became an operator, who sees the servers, replicas and
-- shards of the installation. Empty for all other users. The role grants nothing in accounts.
ALTER TABLE users ADD COLUMN operator_since bigint;
