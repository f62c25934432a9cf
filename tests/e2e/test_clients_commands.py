"""The commands that the pages of `examples/` tell a reader to type, as they stand there, but for the port."""

import os
import re

import pytest

from support.examples import CLIENTS, EXAMPLES, GO, Program, url_of
from support.pages import blocks
from support.server import ROOT, TARGET
from support.wait import until

#: What setup.sh installed, where a reader would have it in his own folders.
ENV = {"NODE_PATH": str(CLIENTS / "node" / "node_modules"), "PYTHONPATH": str(CLIENTS / "redis-py-6"),
       "GOCACHE": os.environ.get("GOCACHE", str(TARGET / "go-cache"))}
# The shop wants a database, and partitions a cluster; test_shop.py and test_partitions.py run their pages.
ELSEWHERE = ("shop", "partitions")
PAGES = sorted(str(page.relative_to(ROOT)) for page in EXAMPLES.glob("*/README.md") if page.parent.name not in ELSEWHERE)


def commands(page):
    """Each line of the shell blocks of a page. `npm ci` is what setup.sh does with the same lock file."""
    lines = [line for block in blocks(page, "sh") for line in block.splitlines()]
    return [line for line in lines if not line.startswith("npm ci ")]


def told(page):
    """What the page says that a story prints."""
    own = blocks(page, "text")
    return own[0] if own else blocks("examples/README.md", "text")[0]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.split("/")[1])
def test_each_command_of_a_page_does_what_the_page_says(page, server, tmp_path):
    lines = commands(page)
    assert lines and "story" in lines[0]
    # One at a time: a closer must not take the orders of the next.
    for at, line in enumerate(lines):
        assert "redis://127.0.0.1:6400" in line
        command = ["bash", "-c", f"cd {ROOT} && exec env {line.replace('redis://127.0.0.1:6400', url_of(server))}"]
        program = Program(tmp_path / str(at), command, ENV)
        try:
            if "story" in line:
                assert program.wait(100) == 0, program.said("err")
                wanted = told(page)
                assert program.said() == (wanted.replace("ERR value", "value") if "python" in line else wanted)
                continue
            number = iter(range(1000))
            wanted = {"closer": r"closed \d+ \d{16}\n", "subscriber": r"due orders \d+\n"}["closer" if "closer" in line else "subscriber"]

            def said(program=program, number=number, wanted=wanted):
                server.run("ORDER.SCHEDULE", "orders", f"{at}{next(number)}", "PX", 10)
                return re.search(wanted, program.said())

            until(said, 25, f"{line} prints what the page says: {program.said('err')}", every=0.2)
        finally:
            program.end()
            server.run("DEL", "orders")


def test_the_table_of_examples_names_the_same_commands():
    table = re.findall(r"^\| \[.*\| `(.*)` \|$", (EXAMPLES / "README.md").read_text(), re.M)
    assert sorted(table) == sorted(commands(page)[0] for page in PAGES)
    assert GO["GOPATH"] in " ".join(table)
