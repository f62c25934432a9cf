<?php
// The outbox relay: what was committed is scheduled in Redis, then marked. A repeated batch moves nothing.
declare(strict_types=1);
require __DIR__ . '/shop.php';

function relay(Shop $shop): int
{
    $rows = $shop->transaction(fn (PDO $db) =>
        sql($db, 'SELECT id, order_id, label, due FROM outbox WHERE sent = 0 ORDER BY id LIMIT 500')->fetchAll());
    step('relay_read');
    foreach (['remind', 'unpaid'] as $label) {
        $batch = array_filter($rows, fn ($row) => $row['label'] === $label);
        if ($batch) {
            $words = array_merge(...array_map(fn ($row) => [$row['order_id'], $row['due']], $batch));
            $shop->redis('ORDER.MSCHEDULE', QUEUE, 'PXAT', count($batch), ...$words, ...['STATUS', $label]);
        }
    }
    step('relay_sent');
    if ($rows) {
        $marks = implode(',', array_fill(0, count($rows), '?'));
        $shop->transaction(fn (PDO $db) =>
            sql($db, "UPDATE outbox SET sent = 1 WHERE id IN ($marks)", ...array_column($rows, 'id')));
    }
    step('relay_marked');
    return count($rows);
}

$shop = new Shop();
while (!stopping()) {
    try {
        if (relay($shop) === 0) {
            usleep(50_000);
        }
    } catch (DatabaseAway | RedisAway $error) {
        fprintf(STDERR, "%s\n", $error->getMessage());
        usleep(300_000);
    }
}
