package main

// orderwheel over redigo: commands, replies by name, errors. An error is a Go error; null is nil.

import (
	"errors"
	"regexp"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Order is the reply of SCHEDULE, FINISH, STATUS, ACK and NACK.
type Order struct {
	Outcome, State, Status string
	Deadline, Rev, LeaseMs int64
	Was, Result            string
}

// Lease is the reply of LOCK, RENEW, UNLOCK and BREAK.
type Lease struct {
	Outcome               string
	Fence, LeaseMs, Holds int64
	State, Status, Result string
}

// Claimed is one order that a closer was handed.
type Claimed struct {
	ID                                string
	Fence, Deadline, Attempt, LeaseMs int64
	Status                            string
	Payload                           []byte
}

// Wheel is one connection: SESSION leases end with it. Not for two goroutines at once.
type Wheel struct{ redis.Conn }

// Connect waits two seconds for a connection, and five for a reply. Call longer with Wait.
func Connect(url string) (*Wheel, error) {
	conn, err := redis.DialURL(url, redis.DialConnectTimeout(2*time.Second), redis.DialKeepAlive(10*time.Second),
		redis.DialReadTimeout(5*time.Second), redis.DialWriteTimeout(5*time.Second))
	if err != nil {
		return nil, err
	}
	return &Wheel{conn}, nil
}

// IsFinal says whether no second try mends an error: a mistake in the program, or a right that it lacks.
func IsFinal(err error) bool {
	var said redis.Error
	return errors.As(err, &said) && final.MatchString(string(said))
}

var final = regexp.MustCompile(`^(ERR|WRONGTYPE|NOPERM|NOAUTH|WRONGPASS) `)

// Order sends SCHEDULE, FINISH, STATUS, ACK or NACK.
func (w *Wheel) Order(command string, words ...interface{}) (o Order, err error) {
	values, err := redis.Values(w.Do(command, words...))
	if err == nil {
		_, err = redis.Scan(values, &o.Outcome, &o.State, &o.Status, &o.Deadline, &o.Rev, &o.LeaseMs, &o.Was, &o.Result)
	}
	return
}

// Lease sends LOCK, RENEW, UNLOCK or BREAK.
func (w *Wheel) Lease(command string, words ...interface{}) (l Lease, err error) {
	values, err := redis.Values(w.Do(command, words...))
	if err == nil {
		_, err = redis.Scan(values, &l.Outcome, &l.Fence, &l.LeaseMs, &l.Holds, &l.State, &l.Status, &l.Result)
	}
	return
}

// Get reads one order: its fields by name, or nil if it is missing.
func (w *Wheel) Get(queue, id string) (map[string]interface{}, error) {
	flat, err := redis.Values(w.Do("ORDER.GET", queue, id))
	if err == redis.ErrNil {
		return nil, nil
	}
	fields := map[string]interface{}{}
	for at := 0; at+1 < len(flat); at += 2 {
		name, value := string(flat[at].([]byte)), flat[at+1]
		if text, ok := value.([]byte); ok {
			value = string(text)
		}
		fields[name] = value
	}
	return fields, err
}

// Claim waits for orders: a little longer than the server does.
func (w *Wheel) Claim(block time.Duration, words ...interface{}) ([]Claimed, error) {
	words = append(words, "BLOCK", block.Milliseconds())
	rows, err := redis.Values(redis.DoWithTimeout(w.Conn, block+5*time.Second, "ORDER.CLAIM", words...))
	return claimed(rows, err)
}

func claimed(rows []interface{}, err error) ([]Claimed, error) {
	orders := make([]Claimed, len(rows))
	for at := range rows {
		row, o := rows[at].([]interface{}), &orders[at]
		if _, err := redis.Scan(row, &o.ID, &o.Fence, &o.Deadline, &o.Attempt, &o.LeaseMs, &o.Status, &o.Payload); err != nil {
			return nil, err
		}
	}
	return orders, err
}

// Batch sends MSCHEDULE, MFINISH, MACK, MNACK or MRENEW: an outcome per order.
func (w *Wheel) Batch(command string, words ...interface{}) ([]string, error) {
	return redis.Strings(w.Do(command, words...))
}
