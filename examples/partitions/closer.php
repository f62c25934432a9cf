<?php
// closer.php HOST:PORT PARTITION...
//
// One closer over some partitions of a cluster. A claim waits on one queue only, so with several it asks one after
// the other, and waits a moment on each: at most their number times WAIT_MS late.
declare(strict_types=1);
require __DIR__ . '/partition.php';

const WAIT_MS = 20;
const ALONE_WAIT_MS = 5000;

[, $address] = $argv;
$queues = array_map(fn ($number) => "orders:{{$number}}", array_slice($argv, 2));
$wait = count($queues) === 1 ? ALONE_WAIT_MS : WAIT_MS;
$me = gethostname() . ':' . getmypid();
$stop = false;
pcntl_async_signals(true);
pcntl_signal(SIGTERM, function () use (&$stop) { $stop = true; });

$redis = null;
while (!$stop) {
    foreach ($queues as $queue) {
        try {
            // Reads wait longer than BLOCK.
            $redis ??= new RedisCluster(null, [$address], 2.0, 10.0);
            $rows = $redis->rawCommand($queue, 'ORDER.CLAIM', $queue, $me, 'COUNT', 10, 'PX', 30000, 'BLOCK', $wait);
            if ($rows === false) {
                // Not its node any more, too few replicas, a failover: look again.
                throw new RedisClusterException((string) $redis->getLastError());
            }
            foreach ($rows as [$id, $fence]) {
                // UPDATE orders SET status = 'closed', fence = ? WHERE id = ? AND status = 'unpaid' AND fence < ?
                echo "closed $id\n";
                $redis->rawCommand($queue, 'ORDER.ACK', $queue, $id, $fence, 'STATUS', 'closed');
            }
        } catch (RedisClusterException $lost) {
            fwrite(STDERR, $lost->getMessage() . "\n");
            $redis = null;
            usleep(200_000);
        }
        if ($stop) {
            break;
        }
    }
}
