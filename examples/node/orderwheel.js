// orderwheel over node-redis or ioredis, RESP2 and RESP3: commands, replies as objects, errors.
// A call rejects on an error and gives null for null. Fences stay below 2^52: a number is exact.
'use strict';

const ORDER = ['outcome', 'state', 'status', 'deadline', 'rev', 'lease_ms', 'was', 'result'];
const LEASE = ['outcome', 'fence', 'lease_ms', 'holds', 'state', 'status', 'result'];
const ROW = ['id', 'fence', 'deadline', 'attempt', 'lease_ms', 'status', 'payload'];

const zip = (names, values) => Object.fromEntries(names.map((name, at) => [name, values[at]]));
const pairs = (flat) => zip(flat.filter((_, at) => at % 2 === 0), flat.filter((_, at) => at % 2 === 1));

// A reply by name: an object in RESP3, an array in RESP2, names and values in turn from ioredis 6.
const named = (names, reply) => {
  if (!Array.isArray(reply)) return { ...reply };
  return reply[0] === names[0] ? pairs(reply) : zip(names, reply);
};

// Whether no second try mends it: a mistake in the program, or a right that it lacks.
const isFinal = (error) => /^(ERR|WRONGTYPE|NOPERM|NOAUTH|WRONGPASS) /.test(error.message);

// One connection: SESSION leases end with it. `send` takes the words, `end` ends it.
class Orderwheel {
  constructor(client, send, end) {
    Object.assign(this, { client, end, call: (...words) => send(words.map(String)) });
  }

  // SCHEDULE, FINISH, STATUS, ACK, NACK.
  async order(...words) { return named(ORDER, await this.call(...words)); }

  // LOCK, RENEW, UNLOCK, BREAK.
  async lease(...words) { return named(LEASE, await this.call(...words)); }

  // One order, or null if it is missing.
  async get(queue, id) {
    const reply = await this.call('ORDER.GET', queue, id);
    return Array.isArray(reply) ? pairs(reply) : reply;
  }

  // The rows of a CLAIM, one object per order.
  async claim(...words) { return (await this.call('ORDER.CLAIM', ...words)).map((row) => zip(ROW, row)); }
}

// client: redis or ioredis. The library does not reconnect: who holds leases must know that they ended.
// A reply is waited for `readMs`: longer than any BLOCK.
async function connect(url, client = 'redis', protocol = 2, readMs = 10000) {
  if (client.startsWith('ioredis')) {
    const redis = new (require(client).Redis)(url, {
      protocol, lazyConnect: true, connectTimeout: 2000, commandTimeout: readMs, keepAlive: 10000,
      retryStrategy: () => null, maxRetriesPerRequest: 0, enableOfflineQueue: false,
    });
    redis.on('error', () => {}); // the call that fails says it
    await redis.connect();
    return new Orderwheel(redis, ([name, ...words]) => redis.call(name, ...words), () => redis.disconnect());
  }
  const redis = require(client).createClient({
    url, RESP: protocol, disableOfflineQueue: true,
    socket: { connectTimeout: 2000, socketTimeout: readMs, reconnectStrategy: false },
  });
  redis.on('error', () => {}); // the call that fails says it
  await redis.connect();
  return new Orderwheel(redis, (words) => redis.sendCommand(words), () => { if (redis.isOpen) redis.destroy(); });
}

module.exports = { connect, isFinal };
