"""The examples of every language against a real server tell the same story."""

import os
import shutil
import subprocess
import sys

import pytest

from support.examples import ALL, CLIENTS, EXAMPLES, each, go_program, node_major, programs, record, url_of  # noqa: F401
from support.pages import blocks
from support.server import ROOT


@each(ALL)
def test_the_story_is_the_same_in_every_client(client, server, programs):
    story = programs(client, client.story(url_of(server)))
    assert story.wait() == 0, story.said("err")
    wanted = blocks("examples/README.md", "text")[0]
    # redis-py alone cuts off the word of the error.
    if client.ending == ".py":
        wanted = wanted.replace("ERR value", "value")
    assert story.said() == wanted

    def got(order, *names):
        found = record(server, "story", order)
        return tuple(found.get(name) for name in names)

    payment = ("state", "status", "result", "attempt")
    assert got("1001", *payment) == ("finished", "paid", "pay:9f3c", 0)
    assert got("1002", *payment) == ("finished", "closed", None, 1)
    assert got("1003", *payment) == ("finished", "paid", None, 1)
    assert got("1004", *payment) == ("finished", "closed", None, 2)
    assert got("1005", *payment) == ("finished", "closed", None, 1)
    for order in ("1006", "1007", "1008"):
        assert got(order, *payment) == ("finished", "closed", None, 1)
    for order in ("1009", "1010"):
        assert got(order, "state", "attempt", "lease_ms") == ("expired", 0, -2)
    assert got("1011", "state") == (None,)
    assert record(server, "story:once", "1001:mail")["result"] == "42"
    # Nothing was early: each closed order was finished at its deadline or after.
    for order in ("1002", "1004", "1006", "1007", "1008"):
        found = record(server, "story", order)
        assert found["finished_at"] >= found["finished_deadline"] > 0


def test_each_redis_py_is_the_version_that_its_folder_says():
    for version in (5, 6, 8):
        done = subprocess.run([sys.executable, "-c", "import redis; print(redis.__version__)"], capture_output=True, text=True,
                              check=True, env={**os.environ, "PYTHONPATH": str(CLIENTS / f"redis-py-{version}")})
        assert done.stdout.startswith(f"{version}.")


def test_the_lock_file_names_no_host_to_load_from():
    assert '"resolved"' not in (EXAMPLES / "node" / "package-lock.json").read_text()


def test_the_story_in_lua_keeps_the_stock(server):
    done = subprocess.run([str(EXAMPLES / "lua" / "story.sh"), url_of(server)], capture_output=True, text=True, check=False,
                          timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == blocks("examples/lua/README.md", "text")[0]
    assert server.run("HGET", "story:stock", "sku-7") == "7"
    assert [record(server, "story", order)["status"] for order in ("1001", "1002", "1003")] == ["paid", "closed", "closed"]
    assert record(server, "story", "1009") == {}
    assert server.run("FCALL", "shop_pay", 1, "story", "1002", "late") == ["FINISHED", None]


def test_a_thousand_fences_are_exact_in_javascript(server):
    """JavaScript has no integers but doubles: odd and even numbers must come back as they went."""
    program = """
      const { connect } = require('./orderwheel.js');
      (async () => {
        const wheel = await connect(process.argv[1]);
        let last = 0;
        for (let at = 0; at < 1000; at += 1) {
          const { outcome, fence } = await wheel.lease('ORDER.LOCK', 'js', 'job', 'me', 'PX', 10000);
          const freed = await wheel.lease('ORDER.UNLOCK', 'js', 'job', fence);
          if (outcome !== 'OK' || freed.outcome !== 'OK' || !Number.isSafeInteger(fence) || fence <= last) {
            throw new Error(`${at}: ${outcome} ${fence} ${freed.outcome}`);
          }
          last = fence;
        }
        console.log('exact');
        wheel.end();
      })();"""
    done = subprocess.run(["node", "-e", program, url_of(server)], cwd=EXAMPLES / "node", capture_output=True, text=True,
                          check=False, timeout=60, env={**os.environ, "NODE_PATH": str(CLIENTS / "node" / "node_modules")})
    assert (done.stdout, done.stderr) == ("exact\n", "")


def test_redis_cli_is_not_told_to_use_session():
    """Each redis-cli is a connection of its own: a lease of SESSION would end with the call."""
    code = [line for line in (EXAMPLES / "redis-cli" / "closer.sh").read_text().splitlines() if not line.lstrip().startswith("#")]
    assert not any("SESSION" in line for line in code)


def test_the_programs_are_clean():
    """bash: shellcheck, where it is."""
    if not shutil.which("shellcheck"):
        pytest.skip("shellcheck is not installed")
    scripts = sorted(str(path) for path in EXAMPLES.rglob("*.sh"))
    assert len(scripts) >= 5
    done = subprocess.run(["shellcheck", "-x", "-P", str(ROOT), *scripts], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
