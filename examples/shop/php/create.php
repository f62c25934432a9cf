<?php
// Creates orders: one line "id item quantity deadline_ms [remind_ms]" each, answered "id created" or "id sold-out".
// The id comes with the request, so a request that is repeated makes no second order.
declare(strict_types=1);
require __DIR__ . '/shop.php';

function create(Shop $shop, string $id, string $item, string $quantity, string $deadline, ?string $remind = null): string
{
    return $shop->transaction(function (PDO $db) use ($id, $item, $quantity, $deadline, $remind) {
        if (sql($db, 'SELECT 1 FROM orders WHERE id = ?', $id)->fetch()) {
            return 'created';
        }
        $taken = sql($db, 'UPDATE stock SET amount = amount - ? WHERE item = ? AND amount >= ?', $quantity, $item, $quantity);
        step('create_stock');
        if ($taken->rowCount() === 0) {
            return 'sold-out';
        }
        sql($db, 'INSERT INTO orders (id, item, quantity, deadline) VALUES (?, ?, ?, ?)', $id, $item, $quantity, $deadline);
        sql($db, 'INSERT INTO outbox (order_id, label, due) VALUES (?, ?, ?)',
            $id, $remind ? 'remind' : 'unpaid', $remind ?? $deadline);
        step('create_rows');
        return 'created';
    });
}

$shop = new Shop();
answer_lines(function (string ...$words) use ($shop) {
    $answer = create($shop, ...$words);
    step('create_committed');
    return $answer;
});
