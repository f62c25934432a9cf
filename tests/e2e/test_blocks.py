"""No block of code in the pages without somebody who runs it."""

import re

import pytest

from support.pages import ROOT, blocks

#: Who runs the blocks of a page: page, language, and the file of tests.
RUN = {
    ("*", "redis"): "tests/server/pages/transcripts.rs",
    ("docs/commands.md", "text"): "tests/server/pages/commands.rs",
    ("docs/operations.md", "text"): "tests/server/pages",
    ("docs/operations.md", "sh"): "tests/e2e/test_operations_page.py",
    # A drawing.
    ("docs/architecture.md", "text"): None,
    # The general form of the tables.
    ("docs/states.md", "text"): None,
    ("README.md", "sh"): "scripts/test.sh",
    ("README.md", "text"): "tests/server/pages/commands.rs",
    ("README.md", "sql"): "tests/e2e/test_blocks.py",
    ("docs/benchmarks.md", "sh"): "tests/e2e/test_blocks.py",
    ("docs/CONTRIBUTING.md", "sh"): "scripts/test.sh",
    ("docs/database.md", "php"): "tests/e2e/test_database_page.py",
    ("docs/database.md", "go"): "tests/e2e/test_database_page.py",
    ("docs/database.md", "lua"): "tests/e2e/test_database_page.py",
    ("docs/locks.md", "sql"): "tests/e2e/test_locks.py",
    ("docs/console.md", "sh"): "tests/e2e/test_console.py",
    ("docs/packages.md", "sh"): "tests/e2e/test_packages.py",
    ("docs/partitions.md", "*"): "tests/e2e/test_partitions.py",
    ("docs/runbooks.md", "sh"): "tests/e2e/test_runbooks.py",
    ("docs/tracing.md", "*"): "tests/e2e/test_tracing.py",
    ("docs/metrics.md", "*"): "tests/e2e/test_metrics.py",
    ("docs/clients.md", "*"): "tests/e2e/test_clients.py",
    ("docs/clients/go-redis.md", "*"): "tests/e2e/test_clients.py",
    ("docs/ways-over.md", "sh"): "tests/e2e/test_ways_over.py",
    ("docs/ways-over/*", "*"): "tests/e2e/test_ways_over.py",
}


def english_pages():
    """Every page but those in Chinese, which have the same blocks."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [page.relative_to(ROOT).as_posix() for page in pages if "zh-CN" not in page.as_posix()]


def who_runs(page, language):
    folder = page.rsplit("/", 1)[0] + "/*"
    for key in ((page, language), (page, "*"), (folder, language), (folder, "*"), ("*", language)):
        if key in RUN:
            return RUN[key]
    return "nobody"


def test_every_block_has_somebody_who_runs_it():
    for page in english_pages():
        languages = set(re.findall(r"^[ ]*```([\w-]*)\n", (ROOT / page).read_text(), re.M)) - {""}
        for language in languages:
            # What opens a block, and not what closes it.
            if not blocks(page, language):
                continue
            who = who_runs(page, language)
            assert who != "nobody", f"{page}: nobody runs its {language} blocks"
            assert who is None or (ROOT / who).exists(), (page, language, who)


def test_nobody_is_named_for_what_is_not_there():
    for page, language in RUN:
        if "*" not in page:
            assert (ROOT / page).exists() and (language == "*" or blocks(page, language)), (page, language)


def test_the_statements_of_readme_do_what_it_says(tmp_path):
    """Pay and close, with a database that knows SQL."""
    import sqlite3

    rows = sqlite3.connect(tmp_path / "orders")
    (close,) = blocks("README.md", "sql", "Close")
    (pay,) = blocks("README.md", "sql", "Pay")
    column = re.search(r"-- fence (.+)", close).group(1)
    rows.execute(f"CREATE TABLE orders (id INTEGER PRIMARY KEY, status TEXT, payment TEXT, fence {column})")
    rows.executemany("INSERT INTO orders (id, status) VALUES (?, 'unpaid')", [(1001,), (1002,)])
    changed = lambda statement, **values: rows.execute(statement, values).rowcount
    assert (changed(pay), changed(pay)) == (1, 0), "paid once"
    assert changed(close, id=1001, fence=7) == 0, "what is paid is not closed"
    assert changed(close, id=1002, fence=7) == 1
    assert changed(close, id=1002, fence=8) == 0, "closed once"
    assert rows.execute("SELECT id, status, payment, fence FROM orders").fetchall() == [
        (1001, "paid", "pay:9f3c", 0), (1002, "closed", None, 7)]


@pytest.mark.parametrize("line", [line for block in blocks("docs/benchmarks.md", "sh") for line in block.splitlines()])
def test_the_options_of_bench_are_there(line):
    """The runs take hours; here what is typed is held against the help."""
    assert line.startswith("scripts/bench.sh")
    told = (ROOT / "scripts/bench.sh").read_text()
    for option in re.findall(r"--[\w-]+", line.split("#")[0]):
        assert option in told, option
    for row in re.findall(r"--rows (\S+)", line):
        for name in row.split(","):
            assert re.search(rf"^#   {name} ", told, re.M), name
