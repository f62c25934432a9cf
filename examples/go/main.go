// The life of an order in Go, with redigo. README.md says how to run it.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

// The word at a place of the command line, or what stands for it.
func word(at int, otherwise string) string {
	if at < len(os.Args) {
		return os.Args[at]
	}
	return otherwise
}

func main() {
	// SIGTERM ends a closer after the order in hand: what is left goes back at once.
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer cancel()
	url := word(2, "redis://127.0.0.1:6400")
	var err error
	switch word(1, "") {
	case "story":
		err = story(url)
	case "closer":
		work, _ := strconv.Atoi(word(5, "0"))
		closer := Closer{URL: url, Queue: word(3, "orders"), Owner: word(4, "closer-1"), Close: func(o Claimed) (string, error) {
			// Yours: UPDATE orders SET status = 'closed', fence = :fence
			//        WHERE id = :id AND status = 'unpaid' AND fence < :fence
			time.Sleep(time.Duration(work) * time.Millisecond)
			fmt.Println("closed", o.ID, o.Fence)
			return "closed", nil
		}}
		err = closer.Run(ctx)
	case "subscriber":
		Listen(ctx, url, func(queue, id string) { fmt.Println("due", queue, id) })
	default:
		log.Fatal("usage: story URL | closer URL QUEUE OWNER WORK_MS | subscriber URL")
	}
	if err != nil {
		log.Fatal(err)
	}
}
