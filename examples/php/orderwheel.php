<?php
// orderwheel over php-redis or Predis: commands, replies as arrays by name, errors.
// A call throws on an error and returns null for null.
declare(strict_types=1);

/** An error that the server answered. Lost connections and time-outs throw OrderwheelLost. */
class OrderwheelError extends RuntimeException
{
    /** Whether no second try mends it: a mistake in the program, or a right that it lacks. */
    public function isFinal(): bool
    {
        return in_array(strtok($this->getMessage(), ' '), ['ERR', 'WRONGTYPE', 'NOPERM', 'NOAUTH', 'WRONGPASS'], true);
    }
}

/** The connection is of no use any more: make a new one. */
class OrderwheelLost extends RuntimeException
{
}

/** One connection: SESSION leases end with it. */
abstract class Orderwheel
{
    private const ORDER = ['outcome', 'state', 'status', 'deadline', 'rev', 'lease_ms', 'was', 'result'];
    private const LEASE = ['outcome', 'fence', 'lease_ms', 'holds', 'state', 'status', 'result'];
    private const ROW = ['id', 'fence', 'deadline', 'attempt', 'lease_ms', 'status', 'payload'];

    /** A read waits for $readSeconds: longer than any BLOCK. $client: redis or predis. */
    public static function connect(string $url, string $client = 'redis', float $readSeconds = 10): self
    {
        return $client === 'predis' ? new OverPredis($url, $readSeconds) : new OverPhpRedis($url, $readSeconds);
    }

    /** One command, as the server answers it. */
    abstract public function call(string|int ...$words): mixed;

    /** Commands in MULTI and EXEC: their replies. */
    abstract public function transaction(array ...$commands): array;

    /** Ends the connection, and with it what SESSION bound to it. */
    abstract public function close(): void;

    /** SCHEDULE, FINISH, STATUS, ACK, NACK. */
    public function order(string|int ...$words): array
    {
        return self::named(self::ORDER, $this->call(...$words));
    }

    /** LOCK, RENEW, UNLOCK, BREAK. */
    public function lease(string|int ...$words): array
    {
        return self::named(self::LEASE, $this->call(...$words));
    }

    /** One order, or null if it is missing. */
    public function get(string $queue, string $id): ?array
    {
        $flat = $this->call('ORDER.GET', $queue, $id);
        if ($flat === null) {
            return null;
        }
        $pairs = array_chunk($flat, 2);
        return self::named(array_column($pairs, 0), array_column($pairs, 1));
    }

    /** The rows of a CLAIM, one array per order. */
    public function claim(string|int ...$words): array
    {
        return array_map(fn ($row) => self::named(self::ROW, $row), $this->call('ORDER.CLAIM', ...$words));
    }

    /** The fields of a reply by name. php-redis says false for null: no field is ever false. */
    private static function named(array $names, array $values): array
    {
        $values = array_slice($values, 0, count($names));
        return array_combine($names, array_map(fn ($value) => $value === false ? null : $value, $values));
    }
}

/** Over the redis extension: php-redis, phpredis. */
class OverPhpRedis extends Orderwheel
{
    public readonly Redis $redis;

    public function __construct(string $url, float $readSeconds)
    {
        $at = parse_url($url);
        try {
            $this->redis = new Redis();
            $this->redis->connect($at['host'], $at['port'] ?? 6379, 2.0, null, 0, $readSeconds);
            $this->redis->setOption(Redis::OPT_TCP_KEEPALIVE, 1);
            // OK as the text it is, not as true.
            $this->redis->setOption(Redis::OPT_REPLY_LITERAL, true);
            if (isset($at['pass'])) {
                $this->redis->auth(isset($at['user']) && $at['user'] !== '' ? [$at['user'], $at['pass']] : $at['pass']);
            }
        } catch (RedisException $error) {
            throw new OrderwheelLost($error->getMessage(), 0, $error);
        }
    }

    public function call(string|int ...$words): mixed
    {
        $this->redis->clearLastError();
        try {
            $reply = $this->redis->rawCommand(...$words);
        } catch (RedisException $error) {
            // It throws where the connection is lost, and also for some errors of the server.
            throw self::of($this->redis->getLastError(), $error);
        }
        // false is null or an error: only the last error tells which.
        if ($reply === false && $this->redis->getLastError() !== null) {
            throw new OrderwheelError($this->redis->getLastError());
        }
        return $reply === false ? null : $reply;
    }

    public function transaction(array ...$commands): array
    {
        $this->redis->clearLastError();
        try {
            $multi = $this->redis->multi();
            foreach ($commands as $words) {
                $multi->rawCommand(...$words);
            }
            $replies = $multi->exec();
        } catch (RedisException $error) {
            throw self::of($this->redis->getLastError(), $error);
        }
        if ($this->redis->getLastError() !== null) {
            throw new OrderwheelError($this->redis->getLastError());
        }
        return $replies;
    }

    public function close(): void
    {
        $this->redis->close();
    }

    private static function of(?string $last, RedisException $error): RuntimeException
    {
        return $last === null ? new OrderwheelLost($error->getMessage(), 0, $error) : new OrderwheelError($last, 0, $error);
    }
}

/** Over Predis. */
class OverPredis extends Orderwheel
{
    public readonly Predis\Client $redis;

    public function __construct(string $url, float $readSeconds)
    {
        if (!class_exists('Predis\Client')) {
            require_once 'Predis/Autoloader.php'; // as Debian installs it; with Composer: vendor/autoload.php
            Predis\Autoloader::register();
        }
        $at = ['scheme' => 'tcp'] + parse_url($url) + ['timeout' => 2, 'read_write_timeout' => $readSeconds];
        if (isset($at['pass'])) {
            $at['password'] = $at['pass'];
        }
        try {
            $this->redis = new Predis\Client(['scheme' => 'tcp'] + $at);
            $this->redis->connect();
        } catch (Predis\Connection\ConnectionException $error) {
            throw new OrderwheelLost($error->getMessage(), 0, $error);
        }
    }

    public function call(string|int ...$words): mixed
    {
        try {
            $reply = $this->redis->executeCommand(Predis\Command\RawCommand::create(...$words));
        } catch (Predis\Connection\ConnectionException $error) {
            throw new OrderwheelLost($error->getMessage(), 0, $error);
        } catch (Predis\Response\ServerException $error) {
            throw new OrderwheelError($error->getMessage(), 0, $error);
        }
        // A status is an object that reads as its text.
        return $reply instanceof Predis\Response\Status ? $reply->getPayload() : $reply;
    }

    public function transaction(array ...$commands): array
    {
        try {
            return $this->redis->transaction(function ($multi) use ($commands) {
                foreach ($commands as $words) {
                    $multi->executeCommand(Predis\Command\RawCommand::create(...$words));
                }
            });
        } catch (Predis\Connection\ConnectionException $error) {
            throw new OrderwheelLost($error->getMessage(), 0, $error);
        } catch (Predis\Response\ServerException $error) {
            throw new OrderwheelError($error->getMessage(), 0, $error);
        }
    }

    public function close(): void
    {
        $this->redis->disconnect();
    }
}
