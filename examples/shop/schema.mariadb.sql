CREATE TABLE stock (
    item   BIGINT PRIMARY KEY,
    amount BIGINT NOT NULL CHECK (amount >= 0)
) ENGINE=InnoDB;
CREATE TABLE orders (
    id        BIGINT PRIMARY KEY,
    item      BIGINT NOT NULL,
    quantity  BIGINT NOT NULL,
    status    VARCHAR(32) NOT NULL DEFAULT 'unpaid',
    payment   VARCHAR(64),
    fence     BIGINT NOT NULL DEFAULT 0,   -- of the last claim that wrote
    reminded  SMALLINT NOT NULL DEFAULT 0,
    deadline  BIGINT NOT NULL,             -- Unix milliseconds
    closed_at BIGINT
) ENGINE=InnoDB;
CREATE INDEX orders_open ON orders (status, deadline);
CREATE TABLE outbox (
    id       BIGINT AUTO_INCREMENT PRIMARY KEY,
    order_id BIGINT NOT NULL,
    label    VARCHAR(32) NOT NULL,         -- remind or unpaid
    due      BIGINT NOT NULL,
    sent     SMALLINT NOT NULL DEFAULT 0
) ENGINE=InnoDB;
CREATE INDEX outbox_unsent ON outbox (sent, id);
