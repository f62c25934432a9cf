<?php
// The shop's story through PHP's redis extension: php story.php SOCKET

$passed = 0;
$failed = 0;

/** One test. */
function check(string $name, $want, $got): void
{
    global $passed, $failed;
    if ($want === $got) {
        $passed++;
    } else {
        $failed++;
        printf("not ok - %s: wanted %s, got %s\n", $name, var_export($want, true), var_export($got, true));
    }
}

/** The fields of a flat map by name. */
function by_name(array $flat): array
{
    $map = [];
    for ($i = 0; $i + 1 < count($flat); $i += 2) {
        $map[$flat[$i]] = $flat[$i + 1];
    }
    return $map;
}

/** The outcome word of an order reply; a status reply is true for OK. */
function outcome($reply): string
{
    return $reply[0] === true ? 'OK' : (string) $reply[0];
}

$redis = new Redis();
$redis->connect($argv[1]);
$redis->setOption(Redis::OPT_READ_TIMEOUT, 30);

$reply = $redis->rawCommand('ORDER.SCHEDULE', 'orders', '1001', 'PX', 60000, 'STATUS', 'unpaid', 'PAYLOAD', "\0{}\r\n");
check('schedule', 'OK', outcome($reply));
check('eight fields', 8, count($reply));
check('schedule again', 'EXISTS', outcome($redis->rawCommand('ORDER.SCHEDULE', 'orders', '1001', 'PX', 5)));
$record = by_name($redis->rawCommand('ORDER.GET', 'orders', '1001'));
check('payload comes back whole', "\0{}\r\n", $record['payload']);
check('deadline is an integer', true, is_int($record['deadline']));

$paid = $redis->rawCommand('ORDER.FINISH', 'orders', '1001', 'FROM', 'unpaid', 'STATUS', 'paid', 'RESULT', 'pay:9f3c');
check('pay', 'OK', outcome($paid));
$second = $redis->rawCommand('ORDER.FINISH', 'orders', '1001', 'STATUS', 'paid', 'RESULT', 'pay:0000');
check('pay a second time', ['FINISHED', 'pay:9f3c'], [outcome($second), $second[7]]);

// A closer: waits for what falls due, closes it.
$redis->rawCommand('ORDER.SCHEDULE', 'orders', '1002', 'PX', 120, 'STATUS', 'unpaid', 'PAYLOAD', 'basket');
$rows = $redis->rawCommand('ORDER.CLAIM', 'orders', 'php', 'COUNT', 10, 'BLOCK', 20000);
$now = microtime(true) * 1000;
check('one order handed over', 1, count($rows));
[$id, $fence, $deadline, $attempt, $lease, $status, $payload] = $rows[0];
check('the order', ['1002', 1, 'unpaid', 'basket'], [$id, $attempt, $status, $payload]);
check('not before its deadline', true, $now >= $deadline);
check('a fence is an exact integer', true, is_int($fence) && (int) (float) $fence === $fence);
check('closed', 'OK', outcome($redis->rawCommand('ORDER.ACK', 'orders', $id, $fence, 'FROM', 'unpaid', 'STATUS', 'closed')));
check('paid too late', 'FINISHED', outcome($redis->rawCommand('ORDER.FINISH', 'orders', '1002', 'STATUS', 'paid')));
check('missing', 'MISSING', outcome($redis->rawCommand('ORDER.FINISH', 'orders', '1003')));

// In a transaction.
$replies = $redis->multi()
    ->rawCommand('ORDER.SCHEDULE', 'orders', '1004', 'PX', 0)
    ->rawCommand('ORDER.CLAIM', 'orders', 'php', 'BLOCK', 100000)
    ->exec();
check('transaction', ['OK', 1], [outcome($replies[0]), count($replies[1])]);

// A bad number is an error that names the argument.
check('error', false, $redis->rawCommand('ORDER.SCHEDULE', 'orders', '1005', 'PX', 'soon'));
check('the error names the argument', true, str_contains((string) $redis->getLastError(), 'PX'));

printf("%d passed, %d failed\n", $passed, $failed);
exit($failed === 0 ? 0 : 1);
