package main

import (
	"context"
	"log"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Listen calls heard for each order that falls due, until ctx ends. It reconnects.
//
// Events are hints. What happened while nobody listened is in the queue, not here.
// The server needs notify-keyspace-events with E and d.
func Listen(ctx context.Context, url string, heard func(queue, id string)) {
	wait := 100 * time.Millisecond
	for ctx.Err() == nil {
		err := listen(ctx, url, heard, func() { wait = 100 * time.Millisecond })
		if ctx.Err() != nil {
			return
		}
		log.Printf("%v; again in %v", err, wait)
		time.Sleep(wait)
		if wait *= 2; wait > 5*time.Second {
			wait = 5 * time.Second
		}
	}
}

func listen(ctx context.Context, url string, heard func(queue, id string), alive func()) error {
	wheel, err := Connect(url)
	if err != nil {
		return err
	}
	defer wheel.Close()
	events := redis.PubSubConn{Conn: wheel.Conn}
	if err := events.Subscribe("__keyevent@0__:order.expired"); err != nil {
		return err
	}
	stopped := make(chan struct{})
	defer close(stopped)
	go func() { // a PING now and then: a connection that died in silence is noticed
		for {
			select {
			case <-ctx.Done():
				wheel.Close()
				return
			case <-stopped:
				return
			case <-time.After(3 * time.Second):
				events.Ping("")
			}
		}
	}()
	for {
		switch event := events.ReceiveWithTimeout(10 * time.Second).(type) {
		case error:
			return event
		case redis.Message:
			at := strings.LastIndexByte(string(event.Data), ':')
			heard(string(event.Data[:at]), string(event.Data[at+1:]))
		}
		alive()
	}
}
