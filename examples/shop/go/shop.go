// The shop's programs, each a word: shop create, relay, pay, closer, reconcile. This file is what
// they share: the two connections, each with its time-outs, and the way back after one was lost.
//
//	SHOP_DSN    postgres://… for lib/pq, or user:password@tcp(127.0.0.1:3306)/shop for go-sql-driver/mysql
//	SHOP_REDIS  host:port, or the path of a socket
package main

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/gomodule/redigo/redis"
	"github.com/lib/pq"
)

const queue = "orders"

// ErrDatabaseAway and ErrRedisAway say that it does not answer: no order's fault. What was sent
// last may have been done or not.
var (
	ErrDatabaseAway = errors.New("database is away")
	ErrRedisAway    = errors.New("redis is away")
)

// Shop holds a pool of database connections and one of Redis. It is for one goroutine.
type Shop struct {
	db       *sql.DB
	numbered bool // PostgreSQL writes $1 where MariaDB writes ?
	redis    redis.Conn
}

// Open connects at the first use.
func Open() *Shop {
	driver, dsn := "mysql", os.Getenv("SHOP_DSN")
	if strings.HasPrefix(dsn, "postgres") {
		driver = "postgres"
	} else {
		dsn += "?timeout=3s&readTimeout=10s&writeTimeout=10s&innodb_lock_wait_timeout=5"
	}
	db, err := sql.Open(driver, dsn)
	if err != nil {
		log.Fatal(err)
	}
	return &Shop{db: db, numbered: driver == "postgres"}
}

// Tx is a transaction whose statements are written with ? for both databases.
type Tx struct {
	*sql.Tx
	ctx      context.Context
	numbered bool
}

func (t Tx) text(text string) string {
	for n := 1; t.numbered && strings.Contains(text, "?"); n++ {
		text = strings.Replace(text, "?", "$"+strconv.Itoa(n), 1)
	}
	return text
}

// Run answers how many rows changed.
func (t Tx) Run(text string, values ...interface{}) (int64, error) {
	result, err := t.ExecContext(t.ctx, t.text(text), values...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// Rows calls each with every row.
func (t Tx) Rows(each func(*sql.Rows) error, text string, values ...interface{}) error {
	rows, err := t.QueryContext(t.ctx, t.text(text), values...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := each(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// Transaction runs work in one transaction of ten seconds at most.
func (s *Shop) Transaction(work func(Tx) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	tx, err := s.db.BeginTx(ctx, nil)
	if err == nil {
		defer tx.Rollback()
		if err = work(Tx{tx, ctx, s.numbered}); err == nil {
			err = tx.Commit()
		}
	}
	if err == nil || isFinal(err) {
		return err
	}
	return fmt.Errorf("%w: %v", ErrDatabaseAway, err)
}

// Data or SQL that will fail again. All else passes: lost, stopped, deadlock.
func isFinal(err error) bool {
	var ofPostgres *pq.Error
	if errors.As(err, &ofPostgres) {
		class := ofPostgres.Code.Class()
		return class == "22" || class == "23" || class == "42"
	}
	var ofMaria *mysql.MySQLError
	if errors.As(err, &ofMaria) {
		switch ofMaria.Number {
		case 1048, 1054, 1062, 1064, 1146, 1264, 1406, 1452, 4025:
			return true
		}
	}
	return false
}

// Redis runs one command; an error reply that is a mistake of the program ends it.
func (s *Shop) Redis(command string, words ...interface{}) (interface{}, error) {
	if s.redis == nil {
		network := "tcp"
		if strings.HasPrefix(os.Getenv("SHOP_REDIS"), "/") {
			network = "unix"
		}
		conn, err := redis.Dial(network, os.Getenv("SHOP_REDIS"), redis.DialConnectTimeout(2*time.Second),
			redis.DialReadTimeout(3*time.Second), redis.DialWriteTimeout(3*time.Second)) // longer than BLOCK
		if err != nil {
			return nil, fmt.Errorf("%w: %v", ErrRedisAway, err)
		}
		s.redis = conn
	}
	reply, err := s.redis.Do(command, words...)
	if err != nil {
		// LOADING, READONLY, MISCONF …: connect anew, perhaps to another server.
		s.redis.Close()
		s.redis = nil
		var said redis.Error
		if errors.As(err, &said) && strings.HasPrefix(string(said), "ERR") {
			log.Fatalf("%s: %v", command, err)
		}
		return nil, fmt.Errorf("%w: %v", ErrRedisAway, err)
	}
	return reply, nil
}

// Words runs one command that answers a list, and makes its items texts; null is "".
func (s *Shop) Words(command string, words ...interface{}) ([]string, error) {
	reply, err := redis.Values(s.Redis(command, words...))
	if err != nil {
		return nil, err
	}
	texts := make([]string, len(reply))
	for at, item := range reply {
		if item != nil {
			texts[at] = fmt.Sprintf("%s", item)
		}
		if number, ok := item.(int64); ok {
			texts[at] = strconv.FormatInt(number, 10)
		}
	}
	return texts, nil
}

func nowMs() int64 { return time.Now().UnixNano() / 1e6 }

var stopped = make(chan os.Signal, 1)

// True once SIGTERM or SIGINT has come.
func stopping() bool {
	select {
	case sign := <-stopped:
		stopped <- sign
		return true
	default:
		return false
	}
}

var at = strings.SplitN(os.Getenv("SHOP_AT")+"=", "=", 3)

// For the tests: SHOP_AT="close_updated=KILL" ends the program here, STOP halts it, a number waits so many ms.
func step(name string) {
	if at[0] != name {
		return
	}
	if ms, err := strconv.Atoi(at[1]); err == nil {
		time.Sleep(time.Duration(ms) * time.Millisecond)
		return
	}
	at[0] = ""
	sign := syscall.SIGSTOP
	if at[1] == "KILL" {
		sign = syscall.SIGKILL
	}
	runtime.LockOSThread() // a signal to this very thread takes effect before the next line
	syscall.Tgkill(syscall.Getpid(), syscall.Gettid(), sign)
}

// Answers each line of standard input with a line; what failed is tried again until it is known.
func answerLines(answer func(words []string) (string, error)) {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		for wait := 50 * time.Millisecond; ; {
			said, err := answer(words)
			if err == nil {
				fmt.Println(words[0], said)
				break
			}
			if !errors.Is(err, ErrDatabaseAway) {
				log.Fatal(err)
			}
			log.Printf("%v; again in %v", err, wait)
			time.Sleep(wait)
			if wait *= 2; wait > time.Second {
				wait = time.Second
			}
		}
	}
}

// Calls work until the program is told to stop; waits a moment after a failure.
func loop(work func() error) {
	for !stopping() {
		if err := work(); err != nil {
			log.Print(err)
			time.Sleep(300 * time.Millisecond)
		}
	}
}

func main() {
	signal.Notify(stopped, syscall.SIGTERM, syscall.SIGINT)
	programs := map[string]func(*Shop, []string){
		"create": create, "relay": relay, "pay": pay, "closer": closer, "reconcile": reconcile,
	}
	if len(os.Args) < 2 || programs[os.Args[1]] == nil {
		log.Fatal("usage: shop create|relay|pay|closer|reconcile")
	}
	programs[os.Args[1]](Open(), os.Args[2:])
}
