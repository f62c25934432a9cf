// closer ADDRESS PARTITIONS
//
// One closer over all partitions of a cluster: a goroutine, and a connection, for each.
package main

import (
	"fmt"
	"log"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mna/redisc"
)

// How long a claim waits. A stop takes as long.
const blockMs = 1000

func main() {
	partitions, err := strconv.Atoi(os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	cluster := &redisc.Cluster{
		StartupNodes: []string{os.Args[1]},
		// Reads wait longer than BLOCK.
		DialOptions: []redis.DialOption{redis.DialConnectTimeout(2 * time.Second), redis.DialReadTimeout(10 * time.Second)},
	}
	defer cluster.Close()
	if err := cluster.Refresh(); err != nil {
		log.Fatal(err)
	}
	host, _ := os.Hostname()
	me := fmt.Sprintf("%s:%d", host, os.Getpid())
	stop := make(chan struct{})
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, os.Interrupt)
	go func() { <-signals; close(stop) }()
	var all sync.WaitGroup
	for number := 0; number < partitions; number++ {
		all.Add(1)
		go func(queue string) {
			defer all.Done()
			for {
				select {
				case <-stop:
					return
				default:
				}
				if err := work(cluster, queue, me); err != nil {
					log.Print(queue, ": ", err)
					// The slot moved, or its node is gone: ask where it is.
					_ = cluster.Refresh()
					time.Sleep(200 * time.Millisecond)
				}
			}
		}(fmt.Sprintf("orders:{%d}", number))
	}
	all.Wait()
}

// work claims once, closes and acknowledges.
func work(cluster *redisc.Cluster, queue, me string) error {
	conn := cluster.Get()
	defer conn.Close()
	if err := redisc.BindConn(conn, queue); err != nil {
		return err
	}
	rows, err := redis.Values(conn.Do("ORDER.CLAIM", queue, me, "COUNT", 10, "PX", 30000, "BLOCK", blockMs))
	if err != nil {
		return err
	}
	for _, row := range rows {
		fields := row.([]interface{})
		var id string
		var fence int64
		if _, err := redis.Scan(fields, &id, &fence); err != nil {
			return err
		}
		// UPDATE orders SET status = 'closed', fence = $1 WHERE id = $2 AND status = 'unpaid' AND fence < $1
		fmt.Printf("closed %s\n", id)
		if _, err := conn.Do("ORDER.ACK", queue, id, fence, "STATUS", "closed"); err != nil {
			return err
		}
	}
	return nil
}
