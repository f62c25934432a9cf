<?php
// A closer: php closer.php [owner]. Closes what nobody paid, and reminds before. SIGTERM ends it after the order in hand.
declare(strict_types=1);
require __DIR__ . '/shop.php';

const LEASE_MS = 30000;

/** Closes the order and gives its stock back, both or neither. Returns the status that the database has then. */
function close(Shop $shop, string $id, int $fence): string
{
    return $shop->transaction(function (PDO $db) use ($id, $fence) {
        step('close_begun');
        $closed = sql($db, "UPDATE orders SET status = 'closed', fence = ?, closed_at = ?
            WHERE id = ? AND status = 'unpaid' AND fence < ?", $fence, now_ms(), $id, $fence)->rowCount();
        step('close_updated');
        if ($closed === 1) {
            sql($db, 'UPDATE stock SET amount = amount + (SELECT quantity FROM orders WHERE id = ?)
                WHERE item = (SELECT item FROM orders WHERE id = ?)', $id, $id);
            step('close_stocked');
            echo "closed $id\n";
            return 'closed';
        }
        $order = sql($db, 'SELECT status FROM orders WHERE id = ?', $id)->fetch();
        echo "found $id ", $order['status'] ?? 'unknown', "\n";
        return $order['status'] ?? 'unknown';
    });
}

/** The first of two deadlines: reminds once, and returns the second deadline; null if the order is not open. */
function remind(Shop $shop, string $id, int $fence): ?int
{
    $order = $shop->transaction(function (PDO $db) use ($id, $fence) {
        $first = sql($db, "UPDATE orders SET reminded = reminded + 1, fence = ?
            WHERE id = ? AND status = 'unpaid' AND reminded = 0 AND fence < ?", $fence, $id, $fence)->rowCount();
        step('remind_updated');
        if ($first === 1) {
            echo "remind $id\n";   // yours: a row in the outbox of your mailer
        }
        return sql($db, 'SELECT status, deadline FROM orders WHERE id = ?', $id)->fetch();
    });
    step('remind_committed');
    return $order && $order['status'] === 'unpaid' ? (int) $order['deadline'] : null;
}

function handle(Shop $shop, string $id, int $fence, string $label): void
{
    step('before_close');
    if ($label === 'remind' && ($deadline = remind($shop, $id, $fence)) !== null) {
        // The holder moves the order: its claim ends, and it falls due again at the second deadline.
        $shop->redis('ORDER.SCHEDULE', QUEUE, $id, 'PXAT', $deadline, 'FENCE', $fence, 'STATUS', 'unpaid');
        step('remind_moved');
        return;
    }
    $status = close($shop, $id, $fence);
    step('close_committed');
    if ($status === 'unpaid') {   // a later claim has written: this one is over
        $shop->redis('ORDER.NACK', QUEUE, $id, $fence, 'ERROR', 'the database has a later fence');
    } else {
        $shop->redis('ORDER.ACK', QUEUE, $id, $fence, 'STATUS', $status);
    }
    step('close_acked');
}

/** Hands back what is left in hand, without a try counted; after a lost connection too: the fences are still good. */
function hand_back(Shop $shop, array &$rows, string|int ...$options): void
{
    if ($rows) {
        $pairs = array_merge(...array_map(fn ($row) => [$row[0], $row[1]], $rows));
        $shop->redis('ORDER.MNACK', QUEUE, count($rows), ...$pairs, ...['UNTRIED', ...$options]);
        step('handed_back');
        $rows = [];
    }
}

/** One batch, order by order, for half of the lease at most. What stays in $rows is still in hand. */
function batch(Shop $shop, string $owner, int $count, array &$rows): void
{
    $rows = $shop->redis('ORDER.CLAIM', QUEUE, $owner, 'COUNT', $count, 'PX', LEASE_MS, 'BLOCK', 1000, 'SESSION');
    $began = now_ms();
    step('claimed');
    while ($rows && !stopping() && now_ms() - $began < LEASE_MS / 2) {
        [$id, $fence, , , , $label] = $rows[0];
        try {
            handle($shop, $id, $fence, $label);
        } catch (PDOException $error) {
            $shop->redis('ORDER.NACK', QUEUE, $id, $fence, 'ERROR', substr($error->getMessage(), 0, 250));
        }
        array_shift($rows);
    }
}

$shop = new Shop();
$owner = $argv[1] ?? 'closer-' . getmypid();
$rows = [];
do {
    try {
        hand_back($shop, $rows, 'DELAY', 0);
        batch($shop, $owner, (int) (getenv('SHOP_COUNT') ?: 10), $rows);
        hand_back($shop, $rows, 'DELAY', 0);
    } catch (DatabaseAway | RedisAway $error) {
        fprintf(STDERR, "%s\n", $error->getMessage());
        usleep(300_000);
    }
} while (!stopping());
