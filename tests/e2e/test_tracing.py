"""docs/tracing.md: one trace from creation to close, over processes, tries and languages."""

import json
import re
import subprocess
import time

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from support.pages import ROOT, blocks

PAGE = "docs/tracing.md"
EXPORTER = InMemorySpanExporter()
CLOSE_IN_PHP = "echo json_encode(close_span($redis->rawCommand('ORDER.CLAIM', 'orders', 'php')[0]));"


@pytest.fixture(scope="module")
def page():
    """The functions of the page, with an exporter that keeps spans."""
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(EXPORTER))
    trace.set_tracer_provider(provider)
    names = {}
    exec(blocks(PAGE, "python")[0], names)  # noqa: S102 - the page is ours
    return names


@pytest.fixture(autouse=True)
def spans():
    EXPORTER.clear()
    return lambda name: [span for span in EXPORTER.get_finished_spans() if span.name == name]


def php(server, code):
    """Runs the functions of the page, and prints JSON."""
    program = blocks(PAGE, "php")[0] + f"$redis = new Redis(); $redis->connect('{server.socket}'); {code}"
    done = subprocess.run(["php", "-r", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def test_one_trace_from_creation_to_close_over_two_tries(server, page, spans):
    closed, fails = [], iter([True, False])

    def close(order, fence):
        if next(fails):
            raise RuntimeError("database away")
        closed.append((order, fence))

    with server.client() as client:
        page["schedule"](client, "1001", 20)
        page["close_one"](client, close)
        page["close_one"](client, close)
    (made,) = spans("schedule order")
    tries = spans("close order")
    assert {span.context.trace_id for span in tries} == {made.context.trace_id}
    assert {span.parent.span_id for span in tries} == {made.context.span_id}
    assert [span.attributes["order_attempt"] for span in tries] == [1, 2]
    assert [span.status.is_ok for span in tries] == [False, True]
    assert tries[0].events[0].attributes["exception.message"] == "database away"
    assert all(span.attributes["order_late_ms"] >= 0 for span in tries)
    assert [order for order, _ in closed] == ["1001"]


@pytest.mark.parametrize("payload", [(), ("PAYLOAD", "two items"), ("PAYLOAD", "[1]"), ("PAYLOAD", "7"),
                                     ("PAYLOAD", '{"traceparent": 7}'), ("PAYLOAD", '{"traceparent": ["x", 1]}')])
def test_an_order_without_a_trace_begins_one(server, page, spans, payload):
    with server.client() as client:
        client.execute_command("ORDER.SCHEDULE", "orders", "1002", "PX", 0, *payload)
        page["close_one"](client, lambda order, fence: None)
    (span,) = spans("close order")
    assert span.parent is None and span.context.trace_id != 0


def test_php_and_python_share_a_trace(server, page, spans):
    made = php(server, "echo json_encode(schedule($redis, '1003', 0));")
    with server.client() as client:
        page["close_one"](client, lambda order, fence: None)
    (span,) = spans("close order")
    assert f"{span.context.trace_id:032x}" == made["trace"]
    assert f"{span.parent.span_id:016x}" == made["id"]
    # And the other way round.
    with server.client() as client:
        page["schedule"](client, "1004", 60_000)
        # It is five seconds late.
        client.execute_command("ORDER.SCHEDULE", "orders", "1004", "PXAT", int(time.time() * 1000) - 5_000, "XX")
    (scheduled,) = spans("schedule order")
    closed = php(server, CLOSE_IN_PHP)
    assert closed["trace"] == f"{scheduled.context.trace_id:032x}"
    assert closed["parent"] == f"{scheduled.context.span_id:016x}"
    assert (closed["messaging.message.id"], closed["order_attempt"]) == ("1004", 1)
    assert 5_000 <= closed["order_late_ms"] < 65_000


def test_both_close_with_the_attributes_of_the_table(server, page, spans):
    (row,) = [line for line in (ROOT / PAGE).read_text().splitlines() if line.startswith("| `close order`")]
    names = set(re.findall(r"`([^`]+)`", row.split("|")[4]))
    assert len(names) == 3
    for order in ("1005", "1006"):
        server.run("ORDER.SCHEDULE", "orders", order, "PX", 0)
    with server.client() as client:
        page["close_one"](client, lambda order, fence: None)
    assert set(spans("close order")[0].attributes) == names
    closed = php(server, CLOSE_IN_PHP)
    assert set(closed) - {"name", "trace", "id", "parent"} == names


@pytest.mark.parametrize("payload", ["two items", "[1]", "7", '"text"', '{"traceparent": 7}', '{"traceparent": ["x"]}'])
def test_a_payload_of_another_kind_begins_a_trace_in_php(server, payload):
    server.run("ORDER.SCHEDULE", "orders", "1007", "PX", 0, "PAYLOAD", payload)
    closed = php(server, CLOSE_IN_PHP)
    assert closed["parent"] is None and len(closed["trace"]) == 32
