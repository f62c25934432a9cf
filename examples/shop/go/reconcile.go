package main

import (
	"database/sql"
	"errors"
	"fmt"
	"log"
	"strconv"

	"github.com/gomodule/redigo/redis"
)

// The reconcile job, both ways, once: shop reconcile [GRACE_MS]. Run it every minute.
func reconcile(shop *Shop, args []string) {
	grace := int64(60000)
	if len(args) > 0 {
		grace, _ = strconv.ParseInt(args[0], 10, 64)
	}
	rows, err := overdue(shop, grace)
	if err != nil {
		log.Fatal(err)
	}
	step("reconcile_read")
	if len(rows) > 0 {
		err = offer(shop, rows)
	}
	if err == nil {
		err = sweep(shop)
	}
	if errors.Is(err, ErrRedisAway) {
		log.Printf("%v: closing without Redis", err)
		if rows, err = overdue(shop, grace); err == nil {
			for at := 0; at < len(rows) && err == nil; at += 2 {
				err = closeWithoutRedis(shop, rows[at])
			}
		}
	}
	if err != nil {
		log.Fatal(err)
	}
}

// Orders that are past their deadline and still open, by grace: they never reached Redis, or wait for a closer.
func overdue(shop *Shop, grace int64) (rows []interface{}, err error) {
	err = shop.Transaction(func(tx Tx) error {
		return tx.Rows(func(row *sql.Rows) error {
			var id, deadline int64
			err := row.Scan(&id, &deadline)
			rows = append(rows, id, deadline)
			return err
		}, "SELECT id, deadline FROM orders WHERE status = 'unpaid' AND deadline < ? ORDER BY deadline LIMIT 1000",
			nowMs()-grace)
	})
	return rows, err
}

// From the database to Redis.
func offer(shop *Shop, rows []interface{}) error {
	words := append([]interface{}{queue, "PXAT", len(rows) / 2}, rows...)
	said, err := shop.Words("ORDER.MSCHEDULE", append(words, "STATUS", "unpaid")...)
	if err != nil {
		return err
	}
	step("reconcile_offered")
	for at, outcome := range said {
		// OK: it was lost and is due now. EXISTS, LEASED: it is being closed or paid.
		id, deadline := rows[2*at], rows[2*at+1]
		if outcome == "FINISHED" {
			order, err := shop.Words("ORDER.GET", queue, id)
			if err != nil && err != redis.ErrNil {
				return err
			}
			fields := map[string]string{}
			for i := 0; i+1 < len(order); i += 2 {
				fields[order[i]] = order[i+1]
			}
			if len(fields) > 0 {
				if _, err := shop.Redis("ORDER.SCHEDULE", queue, id, "PXAT", deadline,
					"FROM", fields["status"], "IFREV", fields["rev"], "STATUS", "unpaid"); err != nil {
					return err
				}
			}
		}
		fmt.Println("offered", id, outcome)
	}
	return nil
}

// While Redis is away the job closes by itself. Repeated, and beside any closer, it does no harm.
func closeWithoutRedis(shop *Shop, id interface{}) error {
	return shop.Transaction(func(tx Tx) error {
		closed, err := tx.Run("UPDATE orders SET status = 'closed', closed_at = ? WHERE id = ? AND status = 'unpaid'", nowMs(), id)
		step("reconcile_updated")
		if err != nil || closed == 0 {
			return err
		}
		fmt.Println("closed", id)
		_, err = tx.Run(`UPDATE stock SET amount = amount + (SELECT quantity FROM orders WHERE id = ?)
			WHERE item = (SELECT item FROM orders WHERE id = ?)`, id, id)
		return err
	})
}

// From Redis to the database: entries that it no longer wants.
func sweep(shop *Shop) error {
	for cursor := "0"; ; {
		reply, err := redis.Values(shop.Redis("ORDER.SCAN", queue, cursor, "COUNT", 500))
		if err != nil {
			return err
		}
		cursor, _ = redis.String(reply[0], nil)
		entries, _ := redis.Values(reply[1], nil)
		var ids []interface{}
		for _, entry := range entries {
			row, _ := redis.Values(entry, nil)
			if state, _ := redis.String(row[1], nil); state != "finished" {
				id, _ := redis.String(row[0], nil)
				ids = append(ids, id)
			}
		}
		step("reconcile_scanned")
		if len(ids) > 0 {
			if err := finishUnwanted(shop, ids); err != nil {
				return err
			}
		}
		if cursor == "0" {
			return nil
		}
	}
}

func finishUnwanted(shop *Shop, ids []interface{}) error {
	known := map[string]string{}
	err := shop.Transaction(func(tx Tx) error {
		return tx.Rows(func(row *sql.Rows) error {
			var id, status string
			err := row.Scan(&id, &status)
			known[id] = status
			return err
		}, "SELECT id, status FROM orders WHERE id IN ("+marks(len(ids))+")", ids...)
	})
	if err != nil {
		return err
	}
	for _, id := range ids {
		status, ok := known[id.(string)]
		if !ok {
			status = "unknown"
		}
		if status != "unpaid" {
			// LEASED: whoever holds it finds out by itself.
			if _, err := shop.Redis("ORDER.FINISH", queue, id, "STATUS", status); err != nil {
				return err
			}
			fmt.Println("finished", id, status)
		}
	}
	return nil
}
