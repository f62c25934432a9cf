// Delayed jobs in BullMQ, for the row "ways":
//
//   bullmq.js SOCKET fill COUNT DELAY_MS               adds jobs; prints "filled"
//   bullmq.js SOCKET close COUNT START_MS WINDOW_MS    adds jobs due within the window, works on
//                                                      them; prints how late each came, milliseconds
"use strict";
const { Queue, Worker } = require("bullmq");

const [path, task, ...numbers] = process.argv.slice(2);
const [count, second, window] = numbers.map(Number);
const connection = { path, maxRetriesPerRequest: null };
const queue = new Queue("orders", { connection });

// Adds jobs, a thousand at a time.
async function add(from, deadline) {
  for (let first = 0; first < count; first += 1000) {
    const jobs = [];
    for (let n = first; n < Math.min(count, first + 1000); n += 1) {
      const at = deadline(n);
      const id = `${from}:${String(n).padStart(15, "0")}`;
      const opts = { delay: Math.max(0, at - Date.now()), removeOnComplete: true };
      jobs.push({ name: "close", data: { id, status: "unpaid", at }, opts });
    }
    await queue.addBulk(jobs);
  }
}

async function main() {
  if (task === "fill") {
    await add("far", () => Date.now() + second);
    console.log("filled");
  } else {
    await add("due", () => second + Math.floor(Math.random() * window));
    let left = count;
    const done = new Promise((resolve) => {
      const close = async (job) => {
        console.log(Date.now() - job.data.at);
        left -= 1;
        if (left === 0) resolve();
      };
      const worker = new Worker("orders", close, { connection, concurrency: 10 });
      worker.on("error", (error) => console.error(error.message));
    });
    await done;
  }
  process.exit(0);
}

main();
