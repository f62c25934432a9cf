// Prints what falls due: node subscriber.js redis://127.0.0.1:6400 [redis|ioredis] [PROTOCOL]
//
// Events are hints. What happened while nobody listened is in the queue, not here.
// The server needs notify-keyspace-events with E and d.
'use strict';

const CHANNEL = '__keyevent@0__:order.expired';
const waitFor = (tries) => Math.min(100 * 2 ** tries, 5000);

// Calls heard(queue, id) for each event. Both libraries reconnect and subscribe again by themselves.
// Gives a function that ends it.
async function listen(url, heard, client = 'redis', protocol = 2) {
  const told = (event) => {
    const at = event.lastIndexOf(':');
    heard(event.slice(0, at), event.slice(at + 1));
  };
  const said = (error) => console.error(error.message);
  if (client.startsWith('ioredis')) {
    const redis = new (require(client).Redis)(url, { protocol, connectTimeout: 2000, keepAlive: 10000, retryStrategy: waitFor });
    redis.on('error', said);
    redis.on('message', (_, event) => told(event));
    await redis.subscribe(CHANNEL);
    return () => redis.disconnect();
  }
  const redis = require(client).createClient({
    url, RESP: protocol, pingInterval: 10000, socket: { connectTimeout: 2000, reconnectStrategy: waitFor },
  });
  redis.on('error', said);
  await redis.connect();
  await redis.subscribe(CHANNEL, told);
  return () => redis.destroy();
}

if (require.main === module) {
  const [url, client, protocol = '2'] = process.argv.slice(2);
  listen(url, (queue, id) => console.log(`due ${queue} ${id}`), client, Number(protocol));
}

module.exports = { listen };
