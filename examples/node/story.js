// The life of some orders: node story.js redis://127.0.0.1:6400 [redis|ioredis] [PROTOCOL]
// Prints a line per chapter; examples/README.md shows them.
'use strict';
const { connect } = require('./orderwheel.js');
const { Closer } = require('./closer.js');
const { listen } = require('./subscriber.js');

const [QUEUE, ONCE] = ['story', 'story:once'];

async function story(url = 'redis://127.0.0.1:6400', client = 'redis', protocol = 2) {
  const wheel = await connect(url, client, protocol);
  await wheel.call('DEL', QUEUE, ONCE);
  await wheel.call('ORDER.CONFIG', QUEUE, 'SET', 'max-attempts', 2, 'backoff-ms', 50);

  // Create: commit the order in the database, then schedule it. Safe to repeat.
  const deadline = Date.now() + 900000;
  const payload = '\0\r\n{"sku":7}';
  const create = ['ORDER.SCHEDULE', QUEUE, '1001', 'PXAT', deadline, 'STATUS', 'unpaid', 'PAYLOAD', payload];
  console.log(`create       1001 ${(await wheel.order(...create)).outcome}, again ${(await wheel.order(...create)).outcome}`);

  // Read: a missing order is null, not an error.
  let order = await wheel.get(QUEUE, '1001');
  const whole = order.payload === payload && order.deadline === deadline ? 'whole' : 'broken';
  const missing = (await wheel.get(QUEUE, '1999')) === null ? 'null' : 'there';
  console.log(`read         1001 ${order.status}, payload ${whole}; 1999 ${missing}`);

  // Pay: lock, take the money, write it into the database, then finish with the fence.
  const lock = await wheel.lease('ORDER.LOCK', QUEUE, '1001', 'pay:9f3c', 'PX', 60000);
  const other = await wheel.lease('ORDER.LOCK', QUEUE, '1001', 'pay:77aa', 'PX', 60000);
  const paid = await wheel.order('ORDER.FINISH', QUEUE, '1001', 'FENCE', lock.fence, 'STATUS', 'paid', 'RESULT', 'pay:9f3c');
  const twice = await wheel.order('ORDER.FINISH', QUEUE, '1001', 'STATUS', 'paid', 'RESULT', 'pay:77aa');
  console.log(`pay          lock ${lock.outcome}, another's ${other.outcome}, paid ${paid.outcome}, `
    + `second payment ${twice.outcome} by ${twice.result}`);

  // Close: a closer's batch.
  let mended = false;
  const closer = new Closer(() => connect(url, client, protocol), QUEUE, 'closer-1', async ({ id, attempt }) => {
    if (id === '1003') return 'paid'; // the database knows better
    if (id === '1004' && attempt === 1) throw new Error('mail is down');
    if (id === '1005' && !mended) throw new Error('no such stock');
    if (id === '1008') closer.stop = true; // as on SIGTERM
    return 'closed';
  });
  const until = async (id, state) => {
    for (;;) {
      const found = await wheel.get(QUEUE, id);
      if (found.state === state) return found;
      await closer.step();
    }
  };
  await wheel.call('ORDER.MSCHEDULE', QUEUE, 'PX', 2, '1002', 0, '1003', 0, 'STATUS', 'unpaid');
  const said = [];
  for (const [id, outcome] of Object.entries(await closer.step())) {
    said.push(`${id} ${(await wheel.get(QUEUE, id)).status} ${outcome}`);
  }
  console.log(`close        ${said.join(', ')}`);

  // Retry: NACK with the reason; it is offered again after a wait that grows.
  await wheel.order('ORDER.SCHEDULE', QUEUE, '1004', 'PX', 0, 'STATUS', 'unpaid');
  await closer.step();
  order = await wheel.get(QUEUE, '1004');
  console.log(`retry        1004 try ${order.attempt}: ${order.error}; closed at try ${(await until('1004', 'finished')).attempt}`);

  // Dead letter: the last try failed. Mend what was wrong, offer it again.
  await wheel.order('ORDER.SCHEDULE', QUEUE, '1005', 'PX', 0, 'STATUS', 'unpaid');
  order = await until('1005', 'dead');
  mended = true;
  const [moved, left] = await wheel.call('ORDER.REQUEUE', QUEUE, 'ID', '1005');
  console.log(`dead letter  1005 ${order.state} after ${order.attempt}: ${order.error}; `
    + `requeued ${moved}, left ${left}, then ${(await until('1005', 'finished')).status}`);

  // Hint: an event names what fell due; ask the queue for it.
  let hint;
  const due = new Promise((resolve) => { hint = (...what) => resolve(what); });
  const unlisten = await listen(url, hint, client, protocol);
  await wheel.order('ORDER.SCHEDULE', QUEUE, '1006', 'PX', 100, 'STATUS', 'unpaid');
  const [from, id] = await due;
  unlisten();
  const [row] = await wheel.claim(from, 'story', 'ID', id);
  const hinted = await wheel.order('ORDER.ACK', from, id, row.fence, 'STATUS', 'closed');
  console.log(`hint         ${id} fell due, ${hinted.status} ${hinted.outcome}`);

  // Run once: the result of the first run is kept for whoever asks again.
  const once = (...words) => wheel.lease('ORDER.LOCK', ONCE, '1001:mail', ...words);
  const first = await once('attempt-1', 'PX', 30000, 'FP', 'hash-a');
  await wheel.order('ORDER.ACK', ONCE, '1001:mail', first.fence, 'STATUS', 'done', 'RESULT', '42');
  const again = await once('attempt-2', 'PX', 30000, 'FP', 'hash-a');
  const wrong = await once('attempt-3', 'PX', 30000, 'FP', 'hash-b');
  console.log(`run once     ${first.outcome}, again ${again.outcome} with ${again.result}, another request ${wrong.outcome}`);

  // Transaction: both or neither. CLAIM does not wait in it.
  const both = [
    ['ORDER.SCHEDULE', QUEUE, '1007', 'PX', '0', 'STATUS', 'unpaid'],
    ['ORDER.CLAIM', QUEUE, 'story', 'BLOCK', '100000'],
  ];
  const multi = wheel.client.multi();
  both.forEach((words) => (multi.addCommand ? multi.addCommand(words) : multi.call(...words)));
  // ioredis gives [error, reply] per command.
  const replies = (await multi.exec()).map((reply) => (client.startsWith('ioredis') ? reply[1] : reply));
  const [[bought, fence]] = replies[1];
  const stale = await wheel.order('ORDER.ACK', QUEUE, '1007', fence + 1, 'STATUS', 'closed');
  const done = await wheel.order('ORDER.ACK', QUEUE, '1007', fence, 'STATUS', 'closed');
  console.log(`transaction  ${bought} claimed, another fence ${stale.outcome}, its own ${done.outcome}`);

  // Stop: the order in hand is finished, the rest goes back untried.
  await wheel.call('ORDER.MSCHEDULE', QUEUE, 'PX', 3, '1008', 0, '1009', 0, '1010', 0, 'STATUS', 'unpaid');
  const outcomes = await closer.step();
  const back = await Promise.all(['1009', '1010'].map((name) => wheel.get(QUEUE, name)));
  console.log(`stop         1008 closed ${outcomes['1008']}; `
    + back.map(({ id: name, state, attempt }) => `${name} ${state} with ${attempt} tries`).join(', '));
  closer.disconnect();

  // Error: an exception, and it names the argument.
  await wheel.order('ORDER.SCHEDULE', QUEUE, '1011', 'PX', 'soon').catch((error) => {
    console.log(`error        ${error.message}`);
  });
  wheel.end();
}

const [url, client, protocol] = process.argv.slice(2);
story(url, client, Number(protocol ?? 2)).catch((error) => {
  console.error(error);
  process.exit(1);
});
