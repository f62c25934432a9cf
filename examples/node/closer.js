// A closer: claims unpaid orders in batches, closes each, acknowledges them.
//
//   node closer.js redis://127.0.0.1:6400 orders closer-1 [redis|ioredis] [PROTOCOL] [WORK_MS]
//
// SIGTERM ends it after the order in hand: what is left goes back at once.
'use strict';
const { setTimeout: sleep } = require('node:timers/promises');
const { connect, isFinal } = require('./orderwheel.js');

const [COUNT, LEASE_MS, BLOCK_MS] = [10, 30000, 2000];

// The database does not answer: no order's fault, so no try is counted.
class Away extends Error {}

class Closer {
  // close(order) gives the status that the database has then: closed, or paid if it was paid.
  constructor(open, queue, owner, close) {
    // In hand, also over a lost connection: rows claimed and not closed, done and not acknowledged.
    Object.assign(this, { open, queue, owner, close, wheel: null, stop: false, rows: [], done: [] });
  }

  // Until stop. Each failure waits longer, up to five seconds.
  async run() {
    let wait = 100;
    while (!this.stop) {
      try {
        await this.step();
        wait = 100;
      } catch (error) {
        if (isFinal(error)) throw error;
        console.error(`${error.message}; again in ${wait} ms`);
        if (!(error instanceof Away)) this.disconnect();
        await sleep(wait * (0.8 + Math.random() * 0.4));
        wait = Math.min(2 * wait, 5000);
      }
    }
    this.disconnect();
  }

  // One batch. Gives the outcome per order that was acknowledged.
  async step() {
    if (!this.wheel) {
      this.wheel = await this.open();
      await this.giveBack('DELAY', 0);
    }
    this.rows = await this.wheel.claim(
      this.queue, this.owner, 'COUNT', COUNT, 'PX', LEASE_MS, 'BLOCK', BLOCK_MS, 'SESSION');
    const began = performance.now();
    let acknowledged = began;
    const outcomes = {};
    while (this.rows.length > 0) {
      const [order] = this.rows;
      const now = performance.now();
      if (this.stop || now - began > order.lease_ms / 2) break;
      try {
        this.done.push([order.id, order.fence, await this.close(order)]);
      } catch (error) {
        if (error instanceof Away) {
          await this.giveBack('ERROR', error.message);
          throw error;
        }
        // An ERROR may have 256 bytes.
        const why = error.message.slice(0, 64);
        await this.wheel.order('ORDER.NACK', this.queue, order.id, order.fence, 'ERROR', why);
      }
      this.rows.shift();
      // A closer that dies repeats what it did not acknowledge: a second's work at most.
      if (now - acknowledged > 1000) {
        Object.assign(outcomes, await this.acknowledge());
        acknowledged = now;
      }
    }
    return Object.assign(outcomes, await this.giveBack('DELAY', 0));
  }

  // Whatever is not OK has another holder, or is finished: nothing is left to do.
  async acknowledge() {
    const { done } = this;
    if (done.length === 0) return {};
    const replies = await this.wheel.call('ORDER.MACK', this.queue, 'STATUSES', done.length, ...done.flat());
    this.done = [];
    return Object.fromEntries(done.map(([id], at) => [id, replies[at]]));
  }

  // Acknowledges what is closed and hands back what is not; no try is counted.
  async giveBack(...options) {
    const outcomes = await this.acknowledge();
    if (this.rows.length > 0) {
      const words = this.rows.flatMap(({ id, fence }) => [id, fence]);
      await this.wheel.call('ORDER.MNACK', this.queue, this.rows.length, ...words, 'UNTRIED', ...options);
      this.rows = [];
    }
    return outcomes;
  }

  // What is still in hand is offered to others at once.
  disconnect() {
    this.wheel?.end();
    this.wheel = null;
  }
}

// The closer as a program, with WORK_MS in the place of a database.
async function main([url, queue = 'orders', owner = 'closer-1', client = 'redis', protocol = '2', workMs = '0']) {
  const close = async (order) => {
    // Yours: UPDATE orders SET status = 'closed', fence = :fence
    //        WHERE id = :id AND status = 'unpaid' AND fence < :fence
    await sleep(Number(workMs));
    console.log(`closed ${order.id} ${order.fence}`);
    return 'closed';
  };
  const closer = new Closer(() => connect(url, client, Number(protocol), BLOCK_MS + 5000), queue, owner, close);
  for (const signal of ['SIGTERM', 'SIGINT']) process.on(signal, () => { closer.stop = true; });
  await closer.run();
}

if (require.main === module) {
  main(process.argv.slice(2)).catch((error) => {
    console.error(error.message);
    process.exit(1);
  });
}

module.exports = { Closer, Away };
