-- Only PostgreSQL needs a change here. SQLite gets no statistics, and is told which index to use.
SELECT 1;
