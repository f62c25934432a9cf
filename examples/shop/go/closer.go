package main

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/gomodule/redigo/redis"
)

const leaseMs = 30000

// A closer: shop closer [owner]. Closes what nobody paid, and reminds before. SIGTERM ends it after the order in hand.
func closer(shop *Shop, args []string) {
	owner := fmt.Sprintf("closer-%d", os.Getpid())
	if len(args) > 0 {
		owner = args[0]
	}
	count, err := strconv.Atoi(os.Getenv("SHOP_COUNT"))
	if err != nil {
		count = 10
	}
	var rows []interface{}
	loop(func() error {
		err := handBack(shop, &rows)
		if err == nil {
			err = batch(shop, owner, count, &rows)
		}
		if err == nil {
			err = handBack(shop, &rows)
		}
		return err
	})
}

// Closes the order and gives its stock back, both or neither. Returns the status that the database has then.
func closeOrder(shop *Shop, id string, fence int64) (status string, err error) {
	err = shop.Transaction(func(tx Tx) error {
		step("close_begun")
		closed, err := tx.Run(`UPDATE orders SET status = 'closed', fence = ?, closed_at = ?
			WHERE id = ? AND status = 'unpaid' AND fence < ?`, fence, nowMs(), id, fence)
		if err != nil {
			return err
		}
		step("close_updated")
		if closed == 1 {
			_, err = tx.Run(`UPDATE stock SET amount = amount + (SELECT quantity FROM orders WHERE id = ?)
				WHERE item = (SELECT item FROM orders WHERE id = ?)`, id, id)
			step("close_stocked")
			status = "closed"
			fmt.Println("closed", id)
			return err
		}
		status, _, err = statusOf(tx, id)
		fmt.Println("found", id, status)
		return err
	})
	return status, err
}

// The first of two deadlines: reminds once, and returns the second deadline; 0 if the order is not open.
func remind(shop *Shop, id string, fence int64) (deadline int64, err error) {
	err = shop.Transaction(func(tx Tx) error {
		first, err := tx.Run(`UPDATE orders SET reminded = reminded + 1, fence = ?
			WHERE id = ? AND status = 'unpaid' AND reminded = 0 AND fence < ?`, fence, id, fence)
		if err != nil {
			return err
		}
		step("remind_updated")
		if first == 1 {
			fmt.Println("remind", id) // yours: a row in the outbox of your mailer
		}
		return tx.Rows(func(row *sql.Rows) error { return row.Scan(&deadline) },
			"SELECT deadline FROM orders WHERE id = ? AND status = 'unpaid'", id)
	})
	step("remind_committed")
	return deadline, err
}

func handle(shop *Shop, id string, fence int64, label string) error {
	step("before_close")
	if label == "remind" {
		deadline, err := remind(shop, id, fence)
		if err != nil {
			return err
		}
		if deadline > 0 {
			// The holder moves the order: its claim ends, and it falls due again at the second deadline.
			_, err = shop.Redis("ORDER.SCHEDULE", queue, id, "PXAT", deadline, "FENCE", fence, "STATUS", "unpaid")
			step("remind_moved")
			return err
		}
	}
	status, err := closeOrder(shop, id, fence)
	if err != nil {
		return err
	}
	step("close_committed")
	if status == "unpaid" { // a later claim has written: this one is over
		_, err = shop.Redis("ORDER.NACK", queue, id, fence, "ERROR", "the database has a later fence")
	} else {
		_, err = shop.Redis("ORDER.ACK", queue, id, fence, "STATUS", status)
	}
	step("close_acked")
	return err
}

// Hands back what is left in hand, without a try counted; after a lost connection too: the fences are still good.
func handBack(shop *Shop, rows *[]interface{}) error {
	if len(*rows) == 0 {
		return nil
	}
	words := []interface{}{queue, len(*rows)}
	for _, left := range *rows {
		row, _ := redis.Values(left, nil)
		words = append(words, row[0], row[1])
	}
	_, err := shop.Redis("ORDER.MNACK", append(words, "UNTRIED", "DELAY", 0)...)
	step("handed_back")
	if err == nil {
		*rows = nil
	}
	return err
}

// One batch, order by order, for half of the lease at most. What stays in rows is still in hand.
func batch(shop *Shop, owner string, count int, rows *[]interface{}) (err error) {
	*rows, err = redis.Values(shop.Redis("ORDER.CLAIM", queue, owner, "COUNT", count, "PX", leaseMs, "BLOCK", 1000, "SESSION"))
	began := nowMs()
	step("claimed")
	for err == nil && len(*rows) > 0 && !stopping() && nowMs()-began < leaseMs/2 {
		row, _ := redis.Values((*rows)[0], nil)
		id, _ := redis.String(row[0], nil)
		fence, _ := redis.Int64(row[1], nil)
		label, _ := redis.String(row[5], nil)
		err = handle(shop, id, fence, label)
		if err != nil && !errors.Is(err, ErrRedisAway) && !errors.Is(err, ErrDatabaseAway) {
			_, err = shop.Redis("ORDER.NACK", queue, id, fence, "ERROR", fmt.Sprintf("%.200s", err))
		}
		if err == nil {
			*rows = (*rows)[1:]
		}
	}
	return err
}
