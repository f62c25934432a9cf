<?php
// The life of some orders: php story.php redis://127.0.0.1:6400 [redis|predis]
// Prints a line per chapter; examples/README.md shows them.
declare(strict_types=1);
require_once __DIR__ . '/orderwheel.php';
require_once __DIR__ . '/closer.php';
require_once __DIR__ . '/subscriber.php';

[, $url, $client] = $argv + ['', 'redis://127.0.0.1:6400', 'redis'];
[$queue, $jobs] = ['story', 'story:once'];
$wheel = Orderwheel::connect($url, $client);
$wheel->call('DEL', $queue, $jobs);
$wheel->call('ORDER.CONFIG', $queue, 'SET', 'max-attempts', 2, 'backoff-ms', 50);

// Create: commit the order in the database, then schedule it. Safe to repeat.
$deadline = (int) (microtime(true) * 1000) + 900000;
$payload = "\0\r\n{\"sku\":7}";
$create = ['ORDER.SCHEDULE', $queue, '1001', 'PXAT', $deadline, 'STATUS', 'unpaid', 'PAYLOAD', $payload];
printf("create       1001 %s, again %s\n", $wheel->order(...$create)['outcome'], $wheel->order(...$create)['outcome']);

// Read: a missing order is null, not an error.
$order = $wheel->get($queue, '1001');
printf("read         1001 %s, payload %s; 1999 %s\n", $order['status'],
    $order['payload'] === $payload && $order['deadline'] === $deadline ? 'whole' : 'broken',
    $wheel->get($queue, '1999') === null ? 'null' : 'there');

// Pay: lock, take the money, write it into the database, then finish with the fence.
$lock = $wheel->lease('ORDER.LOCK', $queue, '1001', 'pay:9f3c', 'PX', 60000);
$other = $wheel->lease('ORDER.LOCK', $queue, '1001', 'pay:77aa', 'PX', 60000);
$paid = $wheel->order('ORDER.FINISH', $queue, '1001', 'FENCE', $lock['fence'], 'STATUS', 'paid', 'RESULT', 'pay:9f3c');
$twice = $wheel->order('ORDER.FINISH', $queue, '1001', 'STATUS', 'paid', 'RESULT', 'pay:77aa');
printf("pay          lock %s, another's %s, paid %s, second payment %s by %s\n",
    $lock['outcome'], $other['outcome'], $paid['outcome'], $twice['outcome'], $twice['result']);

// Close: a closer's batch.
$mended = false;
$closer = new Closer(fn () => Orderwheel::connect($url, $client), $queue, 'closer-1',
    function (array $order) use (&$closer, &$mended): string {
        if ($order['id'] === '1003') {
            return 'paid'; // the database knows better
        }
        if ($order['id'] === '1004' && $order['attempt'] === 1) {
            throw new RuntimeException('mail is down');
        }
        if ($order['id'] === '1005' && !$mended) {
            throw new RuntimeException('no such stock');
        }
        if ($order['id'] === '1008') {
            $closer->stop = true; // as on SIGTERM
        }
        return 'closed';
    });
$until = function (string $id, string $state) use ($wheel, $queue, $closer): array {
    while (($order = $wheel->get($queue, $id))['state'] !== $state) {
        $closer->step();
    }
    return $order;
};
$wheel->call('ORDER.MSCHEDULE', $queue, 'PX', 2, '1002', 0, '1003', 0, 'STATUS', 'unpaid');
$said = [];
foreach ($closer->step() as $id => $outcome) {
    $said[] = "$id {$wheel->get($queue, (string) $id)['status']} $outcome";
}
printf("close        %s\n", implode(', ', $said));

// Retry: NACK with the reason; it is offered again after a wait that grows.
$wheel->order('ORDER.SCHEDULE', $queue, '1004', 'PX', 0, 'STATUS', 'unpaid');
$closer->step();
$order = $wheel->get($queue, '1004');
printf("retry        1004 try %d: %s; closed at try %d\n", $order['attempt'], $order['error'], $until('1004', 'finished')['attempt']);

// Dead letter: the last try failed. Mend what was wrong, offer it again.
$wheel->order('ORDER.SCHEDULE', $queue, '1005', 'PX', 0, 'STATUS', 'unpaid');
$order = $until('1005', 'dead');
$mended = true;
[$moved, $left] = $wheel->call('ORDER.REQUEUE', $queue, 'ID', '1005');
printf("dead letter  1005 %s after %d: %s; requeued %d, left %d, then %s\n",
    $order['state'], $order['attempt'], $order['error'], $moved, $left, $until('1005', 'finished')['status']);

// Hint: an event names what fell due; ask the queue for it.
$wheel->order('ORDER.SCHEDULE', $queue, '1006', 'PX', 1000, 'STATUS', 'unpaid');
listen($url, function (string $from, string $id) use ($wheel) {
    [$row] = $wheel->claim($from, 'story', 'ID', $id);
    $done = $wheel->order('ORDER.ACK', $from, $id, $row['fence'], 'STATUS', 'closed');
    echo "hint         $id fell due, {$done['status']} {$done['outcome']}\n";
    return false;
}, $client);

// Run once: the result of the first run is kept for whoever asks again.
$once = ['ORDER.LOCK', $jobs, '1001:mail'];
$first = $wheel->lease(...$once, ...['attempt-1', 'PX', 30000, 'FP', 'hash-a']);
$wheel->order('ORDER.ACK', $jobs, '1001:mail', $first['fence'], 'STATUS', 'done', 'RESULT', '42');
$again = $wheel->lease(...$once, ...['attempt-2', 'PX', 30000, 'FP', 'hash-a']);
$wrong = $wheel->lease(...$once, ...['attempt-3', 'PX', 30000, 'FP', 'hash-b']);
printf("run once     %s, again %s with %s, another request %s\n",
    $first['outcome'], $again['outcome'], $again['result'], $wrong['outcome']);

// Transaction: both or neither. CLAIM does not wait in it.
[, [[$id, $fence]]] = $wheel->transaction(
    ['ORDER.SCHEDULE', $queue, '1007', 'PX', 0, 'STATUS', 'unpaid'],
    ['ORDER.CLAIM', $queue, 'story', 'BLOCK', 100000],
);
$stale = $wheel->order('ORDER.ACK', $queue, '1007', $fence + 1, 'STATUS', 'closed');
$done = $wheel->order('ORDER.ACK', $queue, '1007', $fence, 'STATUS', 'closed');
printf("transaction  %s claimed, another fence %s, its own %s\n", $id, $stale['outcome'], $done['outcome']);

// Stop: the order in hand is finished, the rest goes back untried.
$wheel->call('ORDER.MSCHEDULE', $queue, 'PX', 3, '1008', 0, '1009', 0, '1010', 0, 'STATUS', 'unpaid');
$outcomes = $closer->step();
$left = array_map(function (string $id) use ($wheel, $queue): string {
    $order = $wheel->get($queue, $id);
    return "$id {$order['state']} with {$order['attempt']} tries";
}, ['1009', '1010']);
printf("stop         1008 closed %s; %s\n", $outcomes['1008'], implode(', ', $left));
$closer->disconnect();

// Error: an exception, and it names the argument.
try {
    $wheel->order('ORDER.SCHEDULE', $queue, '1011', 'PX', 'soon');
} catch (OrderwheelError $error) {
    printf("error        %s\n", $error->getMessage());
}
$wheel->close();
