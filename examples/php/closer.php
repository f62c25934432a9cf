<?php
// A closer: claims unpaid orders in batches, closes each, acknowledges them.
//
//   php closer.php redis://127.0.0.1:6400 orders closer-1 [redis|predis] [WORK_MS]
//
// SIGTERM ends it after the order in hand: what is left goes back at once.
declare(strict_types=1);
require_once __DIR__ . '/orderwheel.php';

/** The database does not answer: no order's fault, so no try is counted. */
class Away extends RuntimeException
{
}

class Closer
{
    public const COUNT = 10;
    public const LEASE_MS = 30000;
    public const BLOCK_MS = 2000;

    public bool $stop = false;
    private ?Orderwheel $wheel = null;
    // In hand, also over a lost connection: claimed and not closed; closed and not acknowledged.
    private array $rows = [];
    private array $done = [];

    /** $close($order) returns the status that the database has then: closed, or paid if it was paid. */
    public function __construct(
        private Closure $connect,
        private string $queue,
        private string $owner,
        private Closure $close,
    ) {
    }

    /** Until stop. Each failure waits longer, up to five seconds. */
    public function run(): void
    {
        $wait = 0.1;
        while (!$this->stop) {
            try {
                $this->step();
                $wait = 0.1;
            } catch (Away | OrderwheelLost | OrderwheelError $error) {
                if ($error instanceof OrderwheelError && $error->isFinal()) {
                    throw $error;
                }
                fprintf(STDERR, "%s; again in %.1f s\n", $error->getMessage(), $wait);
                if (!$error instanceof Away) {
                    $this->disconnect();
                }
                usleep((int) ($wait * random_int(800000, 1200000)));
                $wait = min(2 * $wait, 5);
            }
        }
        $this->disconnect();
    }

    /** One batch. Returns the outcome per order that was acknowledged. */
    public function step(): array
    {
        if (!$this->wheel) {
            $this->wheel = ($this->connect)();
            $this->giveBack('DELAY', 0);
        }
        $this->rows = $this->wheel->claim($this->queue, $this->owner, 'COUNT', self::COUNT, 'PX', self::LEASE_MS,
            'BLOCK', self::BLOCK_MS, 'SESSION');
        $began = $acknowledged = hrtime(true) / 1e6;
        $outcomes = [];
        while ($this->rows) {
            $order = $this->rows[0];
            $now = hrtime(true) / 1e6;
            if ($this->stop || $now - $began > $order['lease_ms'] / 2) {
                break;
            }
            try {
                $this->done[] = [$order['id'], $order['fence'], ($this->close)($order)];
            } catch (Away $error) {
                $this->giveBack('ERROR', $error->getMessage());
                throw $error;
            } catch (Exception $error) {
                // An ERROR may have 256 bytes.
                $this->wheel->order('ORDER.NACK', $this->queue, $order['id'], $order['fence'],
                    'ERROR', substr($error->getMessage(), 0, 256));
            }
            array_shift($this->rows);
            // A closer that dies repeats what it did not acknowledge: a second's work at most.
            if ($now - $acknowledged > 1000) {
                $outcomes += $this->acknowledge();
                $acknowledged = $now;
            }
        }
        return $outcomes + $this->giveBack('DELAY', 0);
    }

    /** Whatever is not OK has another holder, or is finished: nothing is left to do. */
    private function acknowledge(): array
    {
        if (!$this->done) {
            return [];
        }
        $words = array_merge(...$this->done);
        $replies = $this->wheel->call('ORDER.MACK', $this->queue, 'STATUSES', count($this->done), ...$words);
        $ids = array_column($this->done, 0);
        $this->done = [];
        return array_combine($ids, $replies);
    }

    /** Acknowledges what is closed and hands back what is not; no try is counted. */
    private function giveBack(string|int ...$options): array
    {
        $outcomes = $this->acknowledge();
        if ($this->rows) {
            $words = array_merge(...array_map(fn ($order) => [$order['id'], $order['fence']], $this->rows));
            $this->wheel->call('ORDER.MNACK', $this->queue, count($this->rows), ...$words, ...['UNTRIED', ...$options]);
            $this->rows = [];
        }
        return $outcomes;
    }

    /** What is still in hand is offered to others at once. */
    public function disconnect(): void
    {
        $this->wheel?->close();
        $this->wheel = null;
    }
}

// The closer as a program, with WORK_MS in the place of a database.
if (realpath($_SERVER['SCRIPT_FILENAME']) === __FILE__) {
    [, $url, $queue, $owner, $client, $workMs] = $argv + ['', '', 'orders', 'closer-1', 'redis', '0'];
    $closer = new Closer(
        fn () => Orderwheel::connect($url, $client, Closer::BLOCK_MS / 1000 + 5),
        $queue,
        $owner,
        function (array $order) use ($workMs): string {
            // Yours: UPDATE orders SET status = 'closed', fence = :fence
            //        WHERE id = :id AND status = 'unpaid' AND fence < :fence
            usleep((int) $workMs * 1000);
            echo "closed {$order['id']} {$order['fence']}\n";
            return 'closed';
        },
    );
    pcntl_async_signals(true);
    foreach ([SIGTERM, SIGINT] as $signal) {
        pcntl_signal($signal, function () use ($closer) {
            $closer->stop = true;
        });
    }
    $closer->run();
}
