<?php
// Payments: one line "id payment" each, as a provider's callback brings it, answered "id paid", "id refund" or
// "id busy". Database first, then FINISH. Redis may be away: the database decides.
declare(strict_types=1);
require __DIR__ . '/shop.php';

/** The fence of the lock, 0 without one, null if somebody else is paying this order right now. */
function lock(Shop $shop, string $id, string $payment): ?int
{
    try {
        $lock = $shop->redis('ORDER.LOCK', QUEUE, $id, $payment, 'PX', 5000, 'BLOCK', 1000, 'XX', 'SESSION');
    } catch (RedisAway) {
        return 0;
    }
    return match ($lock[0]) {
        'OK', 'HELD' => $lock[1],
        'BUSY' => null,
        // The deadline has passed; it has ended; it has not reached Redis yet. The database knows.
        'EXPIRED', 'FINISHED', 'MISSING' => 0,
    };
}

function pay(Shop $shop, string $id, string $payment): string
{
    $fence = lock($shop, $id, $payment);
    step('pay_locked');
    if ($fence === null) {
        return 'busy';
    }
    // The status is the guard here, and a repeated callback finds its own payment. No fence is needed.
    $order = $shop->transaction(function (PDO $db) use ($id, $payment) {
        sql($db, "UPDATE orders SET status = 'paid', payment = ? WHERE id = ? AND status = 'unpaid'", $payment, $id);
        step('pay_updated');
        return sql($db, 'SELECT status, payment FROM orders WHERE id = ?', $id)->fetch();
    });
    step('pay_committed');
    $paid = $order && $order['status'] === 'paid' && $order['payment'] === $payment;
    try {
        if ($paid) {
            $shop->redis('ORDER.FINISH', QUEUE, $id, ...($fence ? ['FENCE', $fence] : ['CREATE']),
                ...['STATUS', 'paid', 'RESULT', $payment]);
        } elseif ($fence) {
            $shop->redis('ORDER.UNLOCK', QUEUE, $id, $fence);
        }
    } catch (RedisAway) {
        // A closer will be handed the order, find it paid, and say so.
    }
    step('pay_finished');
    return $paid ? 'paid' : 'refund';
}

$shop = new Shop();
answer_lines(fn (string $id, string $payment) => pay($shop, $id, $payment));
