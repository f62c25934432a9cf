<?php
declare(strict_types=1);

/** The queue of an order. The number of partitions never changes. */
function partition(string $id, int $partitions = 16): string
{
    return sprintf('orders:{%d}', crc32($id) % $partitions);
}

/** Two payments of one order meet in its partition; one from before the partitions, in the old queue. */
function finish(RedisCluster $redis, string $id, string ...$words): array
{
    foreach ([partition($id), 'orders'] as $queue) {
        $reply = $redis->rawCommand($queue, 'ORDER.FINISH', $queue, $id, ...$words);
        if ($reply === false) {
            throw new RuntimeException((string) $redis->getLastError());
        }
        if ($reply[0] !== 'MISSING') {
            return $reply;
        }
    }
    return $reply;
}
