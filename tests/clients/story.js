// Fences through JavaScript: node story.js SOCKET
//
// JavaScript has no integers but doubles. Fences stay below 2^53, so a client that
// makes numbers of them gives back exactly what it got. The standard library only.
'use strict';
const net = require('node:net');

const socket = net.createConnection(process.argv[2]);
let buffer = Buffer.alloc(0);
const waiting = [];
let passed = 0;
let failed = 0;

// Reads one reply at `at`: [value, next], or null when it is not all there yet.
function read(at) {
  const end = buffer.indexOf('\r\n', at);
  if (end < 0) return null;
  const head = buffer.toString('latin1', at + 1, end);
  const next = end + 2;
  switch (buffer[at]) {
    case 0x2b: return [head, next];
    case 0x2d: return [new Error(head), next];
    case 0x3a: return [Number(head), next];
    case 0x24: {
      const length = Number(head);
      if (length < 0) return [null, next];
      if (buffer.length < next + length + 2) return null;
      return [buffer.toString('utf8', next, next + length), next + length + 2];
    }
    default: {
      const items = [];
      let from = next;
      for (let i = 0; i < Number(head); i += 1) {
        const item = read(from);
        if (item === null) return null;
        items.push(item[0]);
        [, from] = item;
      }
      return [items, from];
    }
  }
}

socket.on('data', (data) => {
  buffer = Buffer.concat([buffer, data]);
  for (let reply = read(0); buffer.length > 0 && reply !== null; reply = buffer.length > 0 ? read(0) : null) {
    buffer = buffer.subarray(reply[1]);
    waiting.shift()(reply[0]);
  }
});

function command(...words) {
  const parts = words.map((word) => `$${Buffer.byteLength(String(word))}\r\n${word}\r\n`);
  socket.write(`*${words.length}\r\n${parts.join('')}`);
  return new Promise((resolve) => { waiting.push(resolve); });
}

function check(holds, what) {
  if (holds) {
    passed += 1;
  } else {
    failed += 1;
    console.log(`failed: ${what}`);
  }
}

async function story() {
  // A thousand grants in a row, so that odd and even numbers come by.
  let last = 0;
  for (let i = 0; i < 1000; i += 1) {
    const [outcome, fence] = await command('ORDER.LOCK', 'js', 'job', 'me', 'PX', 10000);
    const exact = outcome === 'OK' && Number.isSafeInteger(fence) && fence > last;
    const [freed] = await command('ORDER.UNLOCK', 'js', 'job', fence);
    if (!exact || freed !== 'OK') {
      check(false, `lock ${i}: ${outcome} ${fence} ${freed}`);
      return;
    }
    last = fence;
  }
  check(true, 'locks');
  await command('ORDER.SCHEDULE', 'js', '1', 'PX', 0, 'STATUS', 'unpaid');
  const [[id, fence, , attempt]] = await command('ORDER.CLAIM', 'js', 'closer');
  check(id === '1' && attempt === 1 && Number.isSafeInteger(fence), 'a claim');
  const [stale] = await command('ORDER.ACK', 'js', '1', fence + 1);
  check(stale === 'STALE', `one more is another fence: ${stale}`);
  const [done, , status, , rev] = await command('ORDER.ACK', 'js', '1', fence, 'STATUS', 'closed');
  check(done === 'OK' && status === 'closed' && rev > fence, `acknowledged: ${done}`);
}

const limit = setTimeout(() => {
  console.log('failed: took too long');
  process.exit(1);
}, 60000);
story()
  .catch((error) => check(false, String(error)))
  .finally(() => {
    clearTimeout(limit);
    socket.end();
    console.log(`${passed} passed, ${failed} failed`);
    process.exitCode = failed === 0 ? 0 : 1;
  });
