package main

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

const (
	queue = "story"
	once  = "story:once"
)

// Prints a line per chapter; examples/README.md shows them. A failing call ends it.
func story(url string) (err error) {
	defer func() {
		if failed, ok := recover().(error); ok {
			err = failed
		}
	}()
	wheel, err := Connect(url)
	if err != nil {
		return err
	}
	defer wheel.Close()
	order := func(command string, words ...interface{}) Order {
		reply, err := wheel.Order(command, words...)
		must(err)
		return reply
	}
	lease := func(id string, words ...interface{}) Lease {
		reply, err := wheel.Lease("ORDER.LOCK", append([]interface{}{id}, words...)...)
		must(err)
		return reply
	}
	get := func(id string) map[string]interface{} {
		fields, err := wheel.Get(queue, id)
		must(err)
		return fields
	}
	batch := func(command string, words ...interface{}) {
		_, err := wheel.Batch(command, words...)
		must(err)
	}
	_, err = wheel.Do("DEL", queue, once)
	must(err)
	_, err = wheel.Do("ORDER.CONFIG", queue, "SET", "max-attempts", 2, "backoff-ms", 50)
	must(err)

	// Create: commit the order in the database, then schedule it. Safe to repeat.
	deadline := time.Now().UnixMilli() + 900000
	payload := "\x00\r\n{\"sku\":7}"
	create := []interface{}{queue, "1001", "PXAT", deadline, "STATUS", "unpaid", "PAYLOAD", payload}
	fmt.Printf("create       1001 %s, again %s\n", order("ORDER.SCHEDULE", create...).Outcome, order("ORDER.SCHEDULE", create...).Outcome)

	// Read: a missing order is nil, not an error.
	whole, missing := "broken", "there"
	if get("1001")["payload"] == payload && get("1001")["deadline"] == deadline {
		whole = "whole"
	}
	if get("1999") == nil {
		missing = "null"
	}
	fmt.Printf("read         1001 %s, payload %s; 1999 %s\n", get("1001")["status"], whole, missing)

	// Pay: lock, take the money, write it into the database, then finish with the fence.
	lock := lease(queue, "1001", "pay:9f3c", "PX", 60000)
	other := lease(queue, "1001", "pay:77aa", "PX", 60000)
	paid := order("ORDER.FINISH", queue, "1001", "FENCE", lock.Fence, "STATUS", "paid", "RESULT", "pay:9f3c")
	twice := order("ORDER.FINISH", queue, "1001", "STATUS", "paid", "RESULT", "pay:77aa")
	fmt.Printf("pay          lock %s, another's %s, paid %s, second payment %s by %s\n",
		lock.Outcome, other.Outcome, paid.Outcome, twice.Outcome, twice.Result)

	// Close: a closer's batch.
	mended := false
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	closer := &Closer{URL: url, Queue: queue, Owner: "closer-1", Close: func(o Claimed) (string, error) {
		switch {
		case o.ID == "1003":
			return "paid", nil // the database knows better
		case o.ID == "1004" && o.Attempt == 1:
			return "", errors.New("mail is down")
		case o.ID == "1005" && !mended:
			return "", errors.New("no such stock")
		case o.ID == "1008":
			stop() // as on SIGTERM
		}
		return "closed", nil
	}}
	defer closer.Disconnect()
	step := func() map[string]string {
		outcomes, err := closer.Step(ctx)
		must(err)
		return outcomes
	}
	until := func(id, state string) map[string]interface{} {
		for get(id)["state"] != state {
			step()
		}
		return get(id)
	}
	batch("ORDER.MSCHEDULE", queue, "PX", 2, "1002", 0, "1003", 0, "STATUS", "unpaid")
	var said []string
	for id, outcome := range step() {
		said = append(said, fmt.Sprintf("%s %s %s", id, get(id)["status"], outcome))
	}
	sort.Strings(said)
	fmt.Printf("close        %s\n", strings.Join(said, ", "))

	// Retry: NACK with the reason; it is offered again after a wait that grows.
	order("ORDER.SCHEDULE", queue, "1004", "PX", 0, "STATUS", "unpaid")
	step()
	failed := get("1004")
	fmt.Printf("retry        1004 try %d: %s; closed at try %d\n", failed["attempt"], failed["error"], until("1004", "finished")["attempt"])

	// Dead letter: the last try failed. Mend what was wrong, offer it again.
	order("ORDER.SCHEDULE", queue, "1005", "PX", 0, "STATUS", "unpaid")
	dead := until("1005", "dead")
	mended = true
	moved, err := redis.Ints(wheel.Do("ORDER.REQUEUE", queue, "ID", "1005"))
	must(err)
	fmt.Printf("dead letter  1005 %s after %d: %s; requeued %d, left %d, then %s\n",
		dead["state"], dead["attempt"], dead["error"], moved[0], moved[1], until("1005", "finished")["status"])

	// Hint: an event names what fell due; ask the queue for it.
	hints := make(chan [2]string, 1)
	listening, unlisten := context.WithCancel(context.Background())
	defer unlisten()
	go Listen(listening, url, func(queue, id string) { hints <- [2]string{queue, id} })
	order("ORDER.SCHEDULE", queue, "1006", "PX", 500, "STATUS", "unpaid")
	hint := <-hints
	rows, err := claimed(redis.Values(wheel.Do("ORDER.CLAIM", hint[0], "story", "ID", hint[1])))
	must(err)
	done := order("ORDER.ACK", hint[0], hint[1], rows[0].Fence, "STATUS", "closed")
	fmt.Printf("hint         %s fell due, %s %s\n", hint[1], done.Status, done.Outcome)

	// Run once: the result of the first run is kept for whoever asks again.
	first := lease(once, "1001:mail", "attempt-1", "PX", 30000, "FP", "hash-a")
	order("ORDER.ACK", once, "1001:mail", first.Fence, "STATUS", "done", "RESULT", "42")
	again := lease(once, "1001:mail", "attempt-2", "PX", 30000, "FP", "hash-a")
	wrong := lease(once, "1001:mail", "attempt-3", "PX", 30000, "FP", "hash-b")
	fmt.Printf("run once     %s, again %s with %s, another request %s\n", first.Outcome, again.Outcome, again.Result, wrong.Outcome)

	// Transaction: both or neither. CLAIM does not wait in it.
	must(wheel.Send("MULTI"))
	must(wheel.Send("ORDER.SCHEDULE", queue, "1007", "PX", 0, "STATUS", "unpaid"))
	must(wheel.Send("ORDER.CLAIM", queue, "story", "BLOCK", 100000))
	both, err := redis.Values(wheel.Do("EXEC"))
	must(err)
	rows, err = claimed(redis.Values(both[1], nil))
	must(err)
	stale := order("ORDER.ACK", queue, "1007", rows[0].Fence+1, "STATUS", "closed")
	done = order("ORDER.ACK", queue, "1007", rows[0].Fence, "STATUS", "closed")
	fmt.Printf("transaction  %s claimed, another fence %s, its own %s\n", rows[0].ID, stale.Outcome, done.Outcome)

	// Stop: the order in hand is finished, the rest goes back untried.
	batch("ORDER.MSCHEDULE", queue, "PX", 3, "1008", 0, "1009", 0, "1010", 0, "STATUS", "unpaid")
	outcomes := step()
	fmt.Printf("stop         1008 closed %s; 1009 %s with %d tries, 1010 %s with %d tries\n", outcomes["1008"],
		get("1009")["state"], get("1009")["attempt"], get("1010")["state"], get("1010")["attempt"])

	// Error: a redis.Error, and it names the argument.
	if _, err := wheel.Order("ORDER.SCHEDULE", queue, "1011", "PX", "soon"); err != nil {
		fmt.Printf("error        %v\n", err)
	}
	return nil
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
