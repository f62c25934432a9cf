package main

import (
	"context"
	"errors"
	"log"
	"math/rand"
	"time"
)

const (
	count   = 10
	leaseMs = 30000
	block   = 2 * time.Second
)

// ErrAway says that the database does not answer: no order's fault, so no try is counted.
var ErrAway = errors.New("database is away")

// Closer claims unpaid orders in batches, closes each, and acknowledges them.
type Closer struct {
	URL, Queue, Owner string
	// Close returns the status that the database has then: closed, or paid if it was paid.
	Close func(Claimed) (string, error)
	wheel *Wheel
	// In hand, also over a lost connection: claimed and not closed; closed and not acknowledged.
	rows []Claimed
	done []interface{}
}

// Run goes on until ctx ends. Each failure waits longer, up to five seconds.
func (c *Closer) Run(ctx context.Context) error {
	defer c.Disconnect()
	wait := 100 * time.Millisecond
	for ctx.Err() == nil {
		_, err := c.Step(ctx)
		if err == nil {
			wait = 100 * time.Millisecond
			continue
		}
		if IsFinal(err) {
			return err
		}
		log.Printf("%v; again in %v", err, wait)
		if !errors.Is(err, ErrAway) {
			c.Disconnect()
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait*8/10 + time.Duration(rand.Int63n(int64(wait*4/10)))):
		}
		if wait *= 2; wait > 5*time.Second {
			wait = 5 * time.Second
		}
	}
	return nil
}

// Step is one batch. It returns the outcome per order that was acknowledged.
func (c *Closer) Step(ctx context.Context) (map[string]string, error) {
	if c.wheel == nil {
		wheel, err := Connect(c.URL)
		if err != nil {
			return nil, err
		}
		c.wheel = wheel
	}
	if _, err := c.giveBack("DELAY", 0); err != nil { // of a lost connection
		return nil, err
	}
	rows, err := c.wheel.Claim(block, c.Queue, c.Owner, "COUNT", count, "PX", leaseMs, "SESSION")
	if err != nil {
		return nil, err
	}
	c.rows = rows
	began := time.Now()
	acknowledged := began
	outcomes := map[string]string{}
	for ; len(c.rows) > 0; c.rows = c.rows[1:] {
		order, now := c.rows[0], time.Now()
		if ctx.Err() != nil || now.Sub(began).Milliseconds() > order.LeaseMs/2 {
			break
		}
		status, err := c.Close(order)
		switch {
		case errors.Is(err, ErrAway):
			if _, lost := c.giveBack("ERROR", err.Error()); lost != nil {
				return nil, lost
			}
			return nil, err
		case err != nil:
			why := err.Error()
			if len(why) > 256 { // an ERROR may have 256 bytes
				why = why[:256]
			}
			if _, err := c.wheel.Order("ORDER.NACK", c.Queue, order.ID, order.Fence, "ERROR", why); err != nil {
				return nil, err
			}
		default:
			c.done = append(c.done, order.ID, order.Fence, status)
		}
		// A closer that dies repeats what it did not acknowledge: a second's work at most.
		if now.Sub(acknowledged) > time.Second {
			said, err := c.acknowledge()
			if err != nil {
				return nil, err
			}
			merge(outcomes, said)
			acknowledged = now
		}
	}
	said, err := c.giveBack("DELAY", 0)
	merge(outcomes, said)
	return outcomes, err
}

func merge(into, from map[string]string) {
	for id, outcome := range from {
		into[id] = outcome
	}
}

// Whatever is not OK has another holder, or is finished: nothing is left to do.
func (c *Closer) acknowledge() (map[string]string, error) {
	if len(c.done) == 0 {
		return nil, nil
	}
	words := append([]interface{}{c.Queue, "STATUSES", len(c.done) / 3}, c.done...)
	replies, err := c.wheel.Batch("ORDER.MACK", words...)
	if err != nil {
		return nil, err
	}
	outcomes := map[string]string{}
	for at, outcome := range replies {
		outcomes[c.done[3*at].(string)] = outcome
	}
	c.done = nil
	return outcomes, nil
}

// Acknowledges what is closed and hands back what is not; no try is counted.
func (c *Closer) giveBack(options ...interface{}) (map[string]string, error) {
	outcomes, err := c.acknowledge()
	if err != nil || len(c.rows) == 0 {
		return outcomes, err
	}
	words := []interface{}{c.Queue, len(c.rows)}
	for _, order := range c.rows {
		words = append(words, order.ID, order.Fence)
	}
	if _, err = c.wheel.Batch("ORDER.MNACK", append(append(words, "UNTRIED"), options...)...); err == nil {
		c.rows = nil
	}
	return outcomes, err
}

// Disconnect offers to others at once what is still in hand.
func (c *Closer) Disconnect() {
	if c.wheel != nil {
		c.wheel.Close()
		c.wheel = nil
	}
}
