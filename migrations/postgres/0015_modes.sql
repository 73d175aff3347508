-- Each replica of a cluster has a row, not only those that lead, and says whether it works without
-- etcd (the cluster) or Redis (the queue). Replicas of before say neither, and give the shards of
-- leaders that have died to all rows that are cut_off: so one that leads nothing never is.
ALTER TABLE replicas ADD COLUMN without_cluster boolean NOT NULL DEFAULT false;
ALTER TABLE replicas ADD COLUMN without_queue boolean NOT NULL DEFAULT false;
