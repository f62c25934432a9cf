<?php
// The reconcile job, both ways, once: php reconcile.php [GRACE_MS]. Run it every minute.
declare(strict_types=1);
require __DIR__ . '/shop.php';

/** Orders that are past their deadline and still open, by GRACE_MS: they never reached Redis, or wait for a closer. */
function overdue(Shop $shop, int $grace): array
{
    return $shop->transaction(fn (PDO $db) => sql($db, "SELECT id, deadline FROM orders
        WHERE status = 'unpaid' AND deadline < ? ORDER BY deadline LIMIT 1000", now_ms() - $grace)->fetchAll());
}

/** From the database to Redis. */
function offer(Shop $shop, array $rows): void
{
    $words = array_merge(...array_map(fn ($row) => [$row['id'], $row['deadline']], $rows));
    $said = $shop->redis('ORDER.MSCHEDULE', QUEUE, 'PXAT', count($rows), ...$words, ...['STATUS', 'unpaid']);
    step('reconcile_offered');
    foreach ($rows as $at => $row) {
        // OK: it was lost and is due now. EXISTS, LEASED: it is being closed or paid.
        if ($said[$at] === 'FINISHED') {
            $order = $shop->redis('ORDER.GET', QUEUE, $row['id']);
            $fields = [];
            for ($i = 0; $i < count($order ?: []); $i += 2) {
                $fields[$order[$i]] = $order[$i + 1];
            }
            if ($fields) {
                $shop->redis('ORDER.SCHEDULE', QUEUE, $row['id'], 'PXAT', $row['deadline'],
                    'FROM', $fields['status'], 'IFREV', $fields['rev'], 'STATUS', 'unpaid');
            }
        }
        echo "offered {$row['id']} {$said[$at]}\n";
    }
}

/** While Redis is away the job closes by itself. Repeated, and beside any closer, it does no harm. */
function close_without_redis(Shop $shop, string $id): void
{
    $shop->transaction(function (PDO $db) use ($id) {
        $closed = sql($db, "UPDATE orders SET status = 'closed', closed_at = ?
            WHERE id = ? AND status = 'unpaid'", now_ms(), $id)->rowCount();
        step('reconcile_updated');
        if ($closed === 1) {
            sql($db, 'UPDATE stock SET amount = amount + (SELECT quantity FROM orders WHERE id = ?)
                WHERE item = (SELECT item FROM orders WHERE id = ?)', $id, $id);
            echo "closed $id\n";
        }
    });
}

/** From Redis to the database: entries that it no longer wants. */
function sweep(Shop $shop): void
{
    $cursor = '0';
    do {
        [$cursor, $entries] = $shop->redis('ORDER.SCAN', QUEUE, $cursor, 'COUNT', 500);
        $ids = array_column(array_filter($entries, fn ($entry) => $entry[1] !== 'finished'), 0);
        step('reconcile_scanned');
        if (!$ids) {
            continue;
        }
        $marks = implode(',', array_fill(0, count($ids), '?'));
        $known = $shop->transaction(fn (PDO $db) =>
            sql($db, "SELECT id, status FROM orders WHERE id IN ($marks)", ...$ids)->fetchAll(PDO::FETCH_KEY_PAIR));
        foreach ($ids as $id) {
            $status = $known[$id] ?? 'unknown';
            if ($status !== 'unpaid') {
                // LEASED: whoever holds it finds out by itself.
                $shop->redis('ORDER.FINISH', QUEUE, $id, 'STATUS', $status);
                echo "finished $id $status\n";
            }
        }
    } while ($cursor !== '0');
}

$shop = new Shop();
$grace = (int) ($argv[1] ?? 60000);
try {
    $rows = overdue($shop, $grace);
    step('reconcile_read');
    if ($rows) {
        offer($shop, $rows);
    }
    sweep($shop);
} catch (RedisAway $error) {
    fprintf(STDERR, "%s: closing without Redis\n", $error->getMessage());
    foreach (overdue($shop, $grace) as $row) {
        close_without_redis($shop, (string) $row['id']);
    }
}
