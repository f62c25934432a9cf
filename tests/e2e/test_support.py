"""The tests' own tools: a tool that cannot fail would hide every fault."""

import pytest

from support.pages import blocks
from support.wait import until


def test_a_server_that_ends_by_itself_is_told(tmp_path):
    from support.server import Server

    server = Server(tmp_path / "s").start()
    server.process.kill()
    server.process.wait()
    assert "the server died" in server.end()


def test_a_server_comes_back_with_what_it_had(serve):
    server = serve("appendonly yes")
    server.run("ORDER.SCHEDULE", "q", "1", "PX", 60000)
    server.kill()
    server.start()
    assert server.run("ORDER.PTTL", "q", "1") > 0


def test_waiting_ends():
    with pytest.raises(AssertionError, match="the moon"):
        until(lambda: False, 0.05, "the moon")


def test_blocks_are_those_below_the_heading():
    assert "UPDATE orders SET status = 'paid'" in blocks("README.md", "sql", "Pay")[0]
    assert len(blocks("README.md", "sql", "Pay")) == 1
