// Benchmarks the jobs per second of another job queue, with the same call to the same target:
//
//   node run.mjs bullmq   REDIS_URL    TARGET COUNT
//   node run.mjs graphile POSTGRES_URL TARGET COUNT
//
// All jobs are queued before the worker starts. The only output is the number.

import { Pool } from "undici";

const [, , name, url, target, count] = process.argv;
const IN_FLIGHT = 256;
const pool = new Pool(new URL(target).origin, { connections: IN_FLIGHT });

async function call() {
  const answer = await pool.request({ path: "/", method: "GET" });
  await answer.body.text();
  if (answer.statusCode !== 200) throw new Error(`status ${answer.statusCode}`);
}

// Counts finished jobs. `all` resolves when `total` jobs have finished.
function counter(total) {
  let done;
  const all = new Promise((resolve) => (done = resolve));
  let finished = 0;
  return { all, one: () => ++finished === total && done() };
}

async function bullmq(total) {
  const { Queue, Worker } = await import("bullmq");
  const { default: Redis } = await import("ioredis");
  const connection = new Redis(url, { maxRetriesPerRequest: null });
  // The durable settings, for use where jobs must not be lost.
  await connection.config("SET", "appendonly", "yes");
  await connection.config("SET", "appendfsync", "everysec");
  const queue = new Queue("bench", { connection });
  for (let made = 0; made < total; made += 1000) {
    await queue.addBulk(Array.from({ length: Math.min(1000, total - made) }, () => ({ name: "call", data: {} })));
  }
  const { all, one } = counter(total);
  const start = process.hrtime.bigint();
  const worker = new Worker("bench", call, { connection, concurrency: IN_FLIGHT });
  worker.on("completed", one);
  await all;
  const took = Number(process.hrtime.bigint() - start) / 1e9;
  await worker.close();
  await queue.obliterate({ force: true });
  await connection.config("SET", "appendonly", "no");
  return took;
}

async function graphile(total) {
  const { run, runMigrations } = await import("graphile-worker");
  const { default: pg } = await import("pg");
  await runMigrations({ connectionString: url });
  const client = new pg.Client(url);
  await client.connect();
  await client.query("SELECT graphile_worker.add_job('call') FROM generate_series(1, $1)", [total]);
  const silent = { debug() {}, info() {}, warn() {}, error: console.error };
  const { Logger } = await import("graphile-worker");
  const { all, one } = counter(total);
  const start = process.hrtime.bigint();
  const runner = await run({
    preset: {
      worker: {
        connectionString: url,
        concurrentJobs: IN_FLIGHT,
        localQueue: { size: 500 },
        completeJobBatchDelay: 0,
        logger: new Logger(() => (level, text) => level === "error" && silent.error(text)),
      },
    },
    taskList: { call },
  });
  runner.events.on("job:complete", one);
  await all;
  const took = Number(process.hrtime.bigint() - start) / 1e9;
  await runner.stop();
  await client.end();
  return took;
}

const took = await { bullmq, graphile }[name](Number(count));
console.log(Math.round(Number(count) / took));
process.exit(0);
