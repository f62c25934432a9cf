"""scripts/soak.sh, for seconds: that it passes, and that it sees an order that goes missing, comes twice, or is early."""

import os
import re
import subprocess
import sys

import pytest

from support.server import MODULE, ROOT

sys.path.insert(0, str(ROOT / "scripts/soak"))
from shop import Ledger  # noqa: E402


def soak(minutes, **environment):
    """Runs it with short periods; its output."""
    return subprocess.run([ROOT / "scripts/soak.sh", str(minutes), "7"], capture_output=True, text=True, timeout=300, check=False,
                          env=os.environ | {"ORDERWHEEL_MODULE": str(MODULE), "ORDERWHEEL_SOAK_PERIOD": "5"} | environment)


def test_a_short_soak_passes():
    done = soak(0.2)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"soak: passed: [1-9]\d+ orders, 0 faults", done.stdout), done.stdout
    accounts = re.findall(r"(one|two): accepted (\d+) = paid (\d+) \+ closed (\d+) \+ purged (\d+) \+ open (\d+)", done.stdout)
    assert len(accounts) >= 4
    for _, accepted, *ends in accounts:
        assert int(accepted) == sum(map(int, ends))
    assert re.search(r"done to the servers: .*\d", done.stdout)


@pytest.mark.parametrize("loss, told", [
    ("forget", r"FAULT one: \S+ of orders:\d is open by the books, and None"),
    ("invent", r"FAULT one: orders:\d has \d+ open orders, the books \d+"),
])
def test_a_loss_is_seen(loss, told):
    """One order is taken from the server, or put there, behind the back of those who count."""
    done = soak(0.1, ORDERWHEEL_SOAK_LOSS=loss)
    assert done.returncode == 1 and re.search(told, done.stdout), done.stdout + done.stderr


def test_the_books_see_an_order_that_ends_twice_or_was_never_accepted():
    ledger = Ledger()
    ledger.ended("early", "paid")
    ledger.accepted("q", ["early", "b"])
    ledger.ended("b", "closed")
    assert not ledger.faults and not ledger.open and not ledger.ended_first
    assert ledger.counts == {"accepted": 2, "paid": 1, "closed": 1}
    ledger.ended("b", "paid")
    assert ledger.ended_first == {"b": "paid"}, "told in the next account"
    ledger.ended("b", "closed")
    assert ledger.faults == ["b ended twice: paid, closed"]
