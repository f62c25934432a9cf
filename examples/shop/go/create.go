package main

// Creates orders: one line "id item quantity deadline_ms [remind_ms]" each, answered "id created" or "id sold-out".
// The id comes with the request, so a request that is repeated makes no second order.
func create(shop *Shop, _ []string) {
	answerLines(func(words []string) (string, error) {
		answer, err := createOrder(shop, words)
		if err == nil {
			step("create_committed")
		}
		return answer, err
	})
}

func createOrder(shop *Shop, words []string) (answer string, err error) {
	id, item, quantity, deadline := words[0], words[1], words[2], words[3]
	label, due := "unpaid", deadline
	if len(words) > 4 {
		label, due = "remind", words[4]
	}
	err = shop.Transaction(func(tx Tx) error {
		answer = "created"
		if status, _, err := statusOf(tx, id); err != nil || status != "unknown" {
			return err
		}
		taken, err := tx.Run("UPDATE stock SET amount = amount - ? WHERE item = ? AND amount >= ?", quantity, item, quantity)
		if err != nil {
			return err
		}
		step("create_stock")
		if taken == 0 {
			answer = "sold-out"
			return nil
		}
		if _, err = tx.Run("INSERT INTO orders (id, item, quantity, deadline) VALUES (?, ?, ?, ?)",
			id, item, quantity, deadline); err != nil {
			return err
		}
		_, err = tx.Run("INSERT INTO outbox (order_id, label, due) VALUES (?, ?, ?)", id, label, due)
		step("create_rows")
		return err
	})
	return answer, err
}
