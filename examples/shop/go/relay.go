package main

import (
	"database/sql"
	"strings"
	"time"
)

// The outbox relay: what was committed is scheduled in Redis, then marked. A repeated batch moves nothing.
func relay(shop *Shop, _ []string) {
	loop(func() error {
		sent, err := relayBatch(shop)
		if err == nil && sent == 0 {
			time.Sleep(50 * time.Millisecond)
		}
		return err
	})
}

func relayBatch(shop *Shop) (int, error) {
	var ids []interface{}
	batches := map[string][]interface{}{}
	err := shop.Transaction(func(tx Tx) error {
		return tx.Rows(func(row *sql.Rows) error {
			var id, order, due int64
			var label string
			err := row.Scan(&id, &order, &label, &due)
			ids = append(ids, id)
			batches[label] = append(batches[label], order, due)
			return err
		}, "SELECT id, order_id, label, due FROM outbox WHERE sent = 0 ORDER BY id LIMIT 500")
	})
	if err != nil {
		return 0, err
	}
	step("relay_read")
	for label, pairs := range batches {
		words := append([]interface{}{queue, "PXAT", len(pairs) / 2}, pairs...)
		if _, err := shop.Redis("ORDER.MSCHEDULE", append(words, "STATUS", label)...); err != nil {
			return 0, err
		}
	}
	step("relay_sent")
	if len(ids) > 0 {
		err = shop.Transaction(func(tx Tx) error {
			_, err := tx.Run("UPDATE outbox SET sent = 1 WHERE id IN ("+marks(len(ids))+")", ids...)
			return err
		})
	}
	step("relay_marked")
	return len(ids), err
}

// As many question marks, for IN.
func marks(n int) string { return strings.TrimSuffix(strings.Repeat("?,", n), ",") }
