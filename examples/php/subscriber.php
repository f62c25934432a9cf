<?php
// Prints what falls due: php subscriber.php redis://127.0.0.1:6400 [redis|predis]
//
// Events are hints. What happened while nobody listened is in the queue, not here.
// The server needs notify-keyspace-events with E and d.
declare(strict_types=1);
require_once __DIR__ . '/orderwheel.php';

/** Calls $heard($queue, $id) until that returns false. Reconnects. */
function listen(string $url, Closure $heard, string $client = 'redis'): void
{
    $channel = '__keyevent@0__:order.expired';
    $told = function (string $event) use ($heard): bool {
        $at = strrpos($event, ':');
        return $heard(substr($event, 0, $at), substr($event, $at + 1)) !== false;
    };
    $goes = true;
    for ($wait = 0.1; ; $wait = min(2 * $wait, 5)) {
        try {
            // No event for a minute is a time-out too, and a new connection: one that died in silence is noticed.
            $redis = Orderwheel::connect($url, $client, 60)->redis;
            if ($redis instanceof Redis) {
                $redis->subscribe([$channel], function (Redis $redis, string $name, string $event) use ($told, &$goes, &$wait) {
                    $wait = 0.1;
                    if (!($goes = $told($event))) {
                        $redis->close(); // ends subscribe() by an exception
                    }
                });
            } else {
                $loop = $redis->pubSubLoop(['subscribe' => $channel]);
                foreach ($loop as $message) {
                    $wait = 0.1;
                    if ($message->kind === 'message' && !$told($message->payload)) {
                        return;
                    }
                }
            }
        } catch (RedisException | Predis\Connection\ConnectionException | OrderwheelLost $error) {
            if (!$goes) {
                return;
            }
            fprintf(STDERR, "%s; again in %.1f s\n", $error->getMessage(), $wait);
        }
        usleep((int) ($wait * 1000000));
    }
}

if (realpath($_SERVER['SCRIPT_FILENAME']) === __FILE__) {
    listen($argv[1], function (string $queue, string $id) {
        echo "due $queue $id\n";
    }, $argv[2] ?? 'redis');
}
