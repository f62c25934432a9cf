"""docs/database.md: its code is that of the examples, and its script for stock in Redis does what the page says."""

import pytest

from support.pages import ROOT, blocks

PAGE = "docs/database.md"


@pytest.mark.parametrize("language", ["php", "go"])
def test_the_code_of_the_page_stands_in_the_example(language):
    """Every block, word for word."""
    code = "".join(path.read_text() for path in sorted((ROOT / "examples/shop" / language).iterdir()))
    shown = blocks(PAGE, language)
    assert shown
    for block in shown:
        assert block in code, f"not in examples/shop/{language}:\n{block}"


def test_both_languages_send_the_same_to_redis_and_to_the_database():
    """The statements that decide, and the commands, stand in both."""
    def text(language):
        return "".join(path.read_text() for path in sorted((ROOT / "examples/shop" / language).iterdir()))

    def words(language, begin):
        flat = " ".join(text(language).replace('"', "'").split())
        return sorted({part.split("'")[0] for part in flat.split(f"'{begin}")[1:]})

    for begin in ("ORDER.", "INSERT INTO"):
        php, go = words("php", begin), words("go", begin)
        assert php and php == go, (begin, php, go)


def test_stock_in_redis_is_given_back_exactly_once(server):
    """The script with one order twice, and with a stale fence."""
    script, = blocks(PAGE, "lua")
    queue, stock = "orders:{7}", "stock:{7}"
    server.run("SET", stock, 10)
    server.run("ORDER.SCHEDULE", queue, "1002", "PX", 0, "STATUS", "unpaid")
    (order, fence, *_), = server.run("ORDER.CLAIM", queue, "closer-1")
    assert server.run("EVAL", script, 2, queue, stock, order, fence - 1, 2) == "STALE"
    assert server.run("GET", stock) == "10"
    assert server.run("EVAL", script, 2, queue, stock, order, fence, 2) == "OK"
    assert server.run("EVAL", script, 2, queue, stock, order, fence, 2) == "FINISHED"
    assert server.run("GET", stock) == "12"


def test_a_saga_of_the_page_is_undone_by_its_deadline(server):
    """The commands of the page in their order: two steps, the second fails, a closer undoes."""
    server.run("ORDER.SCHEDULE", "saga", "7", "PX", 60000, "STATUS", "stock", "PAYLOAD", "plan")
    outcome, fence, *_ = server.run("ORDER.LOCK", "saga", "7", "worker-1", "PX", 30000, "XX")
    assert outcome == "OK"
    assert server.run("ORDER.STATUS", "saga", "7", "charge", "FENCE", fence)[0] == "OK"
    assert server.run("ORDER.UNLOCK", "saga", "7", fence)[0] == "OK"
    assert server.run("ORDER.SCHEDULE", "saga", "7", "PX", 0, "XX")[0] == "OK"
    (order, fence, _, _, _, status, payload), = server.run("ORDER.CLAIM", "saga", "undoer-1")
    assert (order, status, payload) == ("7", "charge", "plan")
    assert server.run("ORDER.ACK", "saga", "7", fence, "STATUS", "undone")[0] == "OK"


def test_a_cancel_before_its_try_is_seen_by_the_try(server):
    """TCC: the empty cancel and the hanging try."""
    assert server.run("ORDER.FINISH", "orders", "9", "CREATE", "STATUS", "cancelled")[0] == "OK"
    assert server.run("ORDER.SCHEDULE", "orders", "9", "PX", 900000, "STATUS", "unpaid")[0] == "FINISHED"
    assert server.run("ORDER.FINISH", "orders", "9", "CREATE", "STATUS", "cancelled")[0] == "FINISHED"
