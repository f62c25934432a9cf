package main

import (
	"database/sql"
	"strconv"
)

// Payments: one line "id payment" each, as a provider's callback brings it, answered "id paid", "id refund" or
// "id busy". Database first, then FINISH. Redis may be away: the database decides.
func pay(shop *Shop, _ []string) {
	answerLines(func(words []string) (string, error) { return payOrder(shop, words[0], words[1]) })
}

// The fence of the lock, 0 without one; busy if somebody else is paying this order right now.
func lock(shop *Shop, id, payment string) (fence int64, busy bool) {
	said, err := shop.Words("ORDER.LOCK", queue, id, payment, "PX", 5000, "BLOCK", 1000, "XX", "SESSION")
	if err != nil {
		return 0, false
	}
	switch said[0] {
	case "OK", "HELD":
		fence, _ = strconv.ParseInt(said[1], 10, 64)
	case "BUSY":
		busy = true
	case "EXPIRED", "FINISHED", "MISSING":
		// The deadline has passed; it has ended; it has not reached Redis yet. The database knows.
	}
	return fence, busy
}

func payOrder(shop *Shop, id, payment string) (string, error) {
	fence, busy := lock(shop, id, payment)
	step("pay_locked")
	if busy {
		return "busy", nil
	}
	// The status is the guard here, and a repeated callback finds its own payment. No fence is needed.
	paid := false
	err := shop.Transaction(func(tx Tx) error {
		_, err := tx.Run("UPDATE orders SET status = 'paid', payment = ? WHERE id = ? AND status = 'unpaid'", payment, id)
		if err != nil {
			return err
		}
		step("pay_updated")
		status, by, err := statusOf(tx, id)
		paid = status == "paid" && by == payment
		return err
	})
	if err != nil {
		return "", err
	}
	step("pay_committed")
	// If Redis is away: a closer will be handed the order, find it paid, and say so.
	if paid && fence > 0 {
		_, _ = shop.Redis("ORDER.FINISH", queue, id, "FENCE", fence, "STATUS", "paid", "RESULT", payment)
	} else if paid {
		_, _ = shop.Redis("ORDER.FINISH", queue, id, "CREATE", "STATUS", "paid", "RESULT", payment)
	} else if fence > 0 {
		_, _ = shop.Redis("ORDER.UNLOCK", queue, id, fence)
	}
	step("pay_finished")
	if paid {
		return "paid", nil
	}
	return "refund", nil
}

// What the database says of an order: unknown if it has none.
func statusOf(tx Tx, id string) (status, payment string, err error) {
	status = "unknown"
	err = tx.Rows(func(row *sql.Rows) error {
		var by sql.NullString
		err := row.Scan(&status, &by)
		payment = by.String
		return err
	}, "SELECT status, payment FROM orders WHERE id = ?", id)
	return status, payment, err
}
