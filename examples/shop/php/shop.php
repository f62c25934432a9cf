<?php
// What the programs of this folder share: the two connections, each with its time-outs, and
// the way back after one was lost.
//
//   SHOP_DSN    a DSN of PDO: pgsql:host=127.0.0.1;dbname=shop, or mysql:host=127.0.0.1;dbname=shop
//   SHOP_USER, SHOP_PASSWORD
//   SHOP_REDIS  host:port, or the path of a socket
declare(strict_types=1);

const QUEUE = 'orders';

/** The database or Redis does not answer: no order's fault. What was sent last may have been done or not. */
class DatabaseAway extends RuntimeException {}
class RedisAway extends RuntimeException {}
/** Redis refused the command: a mistake in the program, or a server that takes no writes now. */
class RedisError extends RuntimeException {}

final class Shop
{
    private ?PDO $db = null;
    private ?Redis $redis = null;

    /** Runs $work($db) in one transaction. */
    public function transaction(callable $work): mixed
    {
        try {
            $this->db ??= $this->connectDatabase();
            $this->db->beginTransaction();
            $answer = $work($this->db);
            $this->db->commit();
            return $answer;
        } catch (PDOException $error) {
            $this->db = null;   // closing rolls back
            // 22, 23, 42: data or SQL that will fail again. All else passes: lost, stopped, deadlock.
            if (preg_match('/^(22|23|42)/', (string) $error->getCode())) {
                throw $error;
            }
            throw new DatabaseAway($error->getMessage(), 0, $error);
        }
    }

    /** One command. rawCommand answers false for an error and for null alike; the last error tells them apart. */
    public function redis(string $command, string|int ...$words): mixed
    {
        try {
            $this->redis ??= $this->connectRedis();
            $this->redis->clearLastError();
            $reply = $this->redis->rawCommand($command, ...$words);
        } catch (RedisException $error) {
            $this->redis = null;
            throw new RedisAway($error->getMessage(), 0, $error);
        }
        if ($reply === false && ($error = $this->redis->getLastError()) !== null) {
            // LOADING, READONLY, MISCONF …: connect anew, perhaps to another server.
            $this->redis = null;
            throw str_starts_with($error, 'ERR') ? new RedisError($error) : new RedisAway($error);
        }
        return $reply;
    }

    private function connectDatabase(): PDO
    {
        ini_set('mysqlnd.net_read_timeout', '10');
        $dsn = getenv('SHOP_DSN');
        $db = new PDO($dsn, getenv('SHOP_USER') ?: null, getenv('SHOP_PASSWORD') ?: null, [
            PDO::ATTR_TIMEOUT => 3,
            PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION,
            PDO::ATTR_DEFAULT_FETCH_MODE => PDO::FETCH_ASSOC,
        ]);
        $db->exec(str_starts_with($dsn, 'pgsql')
            ? "SET lock_timeout = '5s'; SET statement_timeout = '10s'"
            : 'SET innodb_lock_wait_timeout = 5');
        return $db;
    }

    private function connectRedis(): Redis
    {
        $redis = new Redis();
        [$host, $port] = explode(':', getenv('SHOP_REDIS')) + [1 => '0'];
        $redis->connect($host, (int) $port, 2);
        $redis->setOption(Redis::OPT_READ_TIMEOUT, 3);   // longer than BLOCK
        return $redis;
    }
}

/** Runs one SQL statement; returns it, for rowCount() and fetch(). */
function sql(PDO $db, string $text, mixed ...$values): PDOStatement
{
    $statement = $db->prepare($text);
    $statement->execute($values);
    return $statement;
}

function now_ms(): int
{
    return (int) (microtime(true) * 1000);
}

/** True once SIGTERM or SIGINT has come. */
function stopping(): bool
{
    static $stop = null;
    if ($stop === null) {
        $stop = false;
        pcntl_async_signals(true);
        foreach ([SIGTERM, SIGINT] as $signal) {
            pcntl_signal($signal, function () use (&$stop) { $stop = true; });
        }
    }
    return $stop;
}

/** For the tests: SHOP_AT="after_update=KILL" ends the program here, STOP halts it, a number waits so many ms. */
function step(string $name): void
{
    static $at = null;
    $at ??= explode('=', getenv('SHOP_AT') ?: '=');
    if ($at[0] === $name) {
        [, $what] = $at;
        if (is_numeric($what)) {
            usleep(1000 * (int) $what);
            return;
        }
        $at[0] = '';
        posix_kill(getmypid(), $what === 'KILL' ? SIGKILL : SIGSTOP);
    }
}

/** Answers each line of standard input with a line; what failed is tried again until it is known. */
function answer_lines(callable $answer): void
{
    while (($line = fgets(STDIN)) !== false) {
        $words = explode(' ', trim($line));
        for ($wait = 50; ; $wait = min(2 * $wait, 1000)) {
            try {
                $said = $answer(...$words);
                echo "$words[0] $said\n";
                break;
            } catch (DatabaseAway $error) {
                fprintf(STDERR, "%s; again in %d ms\n", $error->getMessage(), $wait);
                usleep(1000 * $wait);
            }
        }
    }
}
