"""The examples of every language against a real server tell the same story."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.examples import ALL, CLIENTS, EXAMPLES, GO, each, go_program, node_major, programs, record, url_of  # noqa: F401
from support.pages import blocks
from support.server import ROOT, free_port
from support.wait import until


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
    # What came too late, or never was, is told so.
    assert server.run("ORDER.FINISH", "story", "1002", "STATUS", "paid")[:3] == ["FINISHED", "finished", "closed"]
    assert server.run("ORDER.FINISH", "story", "1999")[0] == "MISSING"
    assert server.run("TYPE", "story") == "ordrwheel"
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


# --- the page: each block as it stands there, but for the port -----------------------------------

PAGE = "docs/clients.md"
NODE = {"NODE_PATH": str(CLIENTS / "node" / "node_modules")}


def redis_py(version):
    return {"PYTHONPATH": str(CLIENTS / f"redis-py-{version}")}


def run_block(code, language, port, folder, env=None):
    """What a block of the page prints, as lines."""
    assert "6400" in code
    file = folder / {"php": "block.php", "go": "block.go", "python": "block.py", "js": "block.js", "sh": "block.sh"}[language]
    file.write_text(("<?php\n" if language == "php" else "") + code.replace("6400", str(port)))
    command = {"php": ["php"], "go": ["go", "run"], "python": [sys.executable], "js": ["node"], "sh": ["bash", "-eu"]}[language]
    done = subprocess.run([*command, str(file)], capture_output=True, text=True, check=False, timeout=120, cwd=folder,
                          env={**os.environ, "GOCACHE": str(CLIENTS.parent / "go-cache"), **GO, **(env or {})})
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout.splitlines()


def test_the_page_tells_errors_from_null_in_each_client(server, tmp_path):
    wanted = ["null", "ERR syntax error, unknown option near 'STATIS'"]

    def code(language):
        return blocks(PAGE, language, "Errors and null")

    def runs(language, at=0, env=None):
        return run_block(code(language)[at], language, server.port, tmp_path, env)

    assert [len(code(language)) for language in ("php", "go", "python", "js", "sh")] == [2, 1, 1, 2, 1]
    assert runs("php") == wanted
    assert runs("php", 1) == wanted
    assert runs("go") == wanted
    for version in (5, 6, 8):
        assert runs("python", env=redis_py(version)) == [line.removeprefix("ERR ") for line in wanted]
    assert runs("js", env=NODE) == wanted
    assert runs("js", 1, env=NODE) == wanted
    assert runs("sh") == wanted


def test_the_page_says_what_each_client_makes_of_a_reply(server):
    """What the table of the page says of PHP's outcomes, and of maps in ioredis 6."""
    program = """
      $redis = new Redis();
      $redis->connect('127.0.0.1', (int) $argv[1]);
      echo json_encode([$redis->rawCommand('ORDER.SCHEDULE', 'php', '1', 'PX', 9000)[0], $redis->rawCommand('ORDER.RESUME', 'php')]);
      $redis->setOption(Redis::OPT_REPLY_LITERAL, true);
      echo json_encode($redis->rawCommand('ORDER.RESUME', 'php'));"""
    done = subprocess.run(["php", "-r", program, str(server.port)], capture_output=True, text=True, check=False, timeout=30)
    assert done.stdout == '["OK",true]"OK"', done.stderr


MULTI = {
    "php-redis": (["php", "-r"], """
      $redis = new Redis();
      $redis->connect('127.0.0.1', (int) $argv[1]);
      $multi = $redis->multi();
      $multi->rawCommand('ORDER.SCHEDULE', 'tx', '1', 'PX', 'soon');
      $multi->rawCommand('ORDER.PTTL', 'tx', '1');
      echo json_encode($multi->exec()), ' ', strtok($redis->getLastError(), ',');""",
                  "[false,-2] ERR value of PX is not an integer"),
    "php-redis, our helper": (["php", "-r"], """
      require 'examples/php/orderwheel.php';
      foreach (['redis', 'predis'] as $client) {
          $wheel = Orderwheel::connect("redis://127.0.0.1:$argv[1]", $client);
          try {
              $wheel->transaction(['ORDER.SCHEDULE', 'tx', '1', 'PX', 'soon'], ['ORDER.PTTL', 'tx', '1']);
          } catch (OrderwheelError $error) {
              echo $error->isFinal() ? 'final ' : 'not final ';
          }
      }""", "final final "),
    "Predis": (["php", "-r"], """
      require 'Predis/Autoloader.php';
      Predis\\Autoloader::register();
      $client = new Predis\\Client("tcp://127.0.0.1:$argv[1]");
      try {
          $client->transaction(function ($multi) {
              $multi->executeCommand(Predis\\Command\\RawCommand::create('ORDER.SCHEDULE', 'tx', '1', 'PX', 'soon'));
          });
      } catch (Predis\\Response\\ServerException $error) {
          echo strtok($error->getMessage(), ',');
      }""", "ERR value of PX is not an integer"),
    "redis-py": ([sys.executable, "-c"], """
import redis, sys
both = redis.Redis(port=int(sys.argv[1])).pipeline(transaction=True)
both.execute_command("ORDER.SCHEDULE", "tx", "1", "PX", "soon")
both.execute_command("ORDER.PTTL", "tx", "1")
try:
    both.execute()
except redis.ResponseError as error:
    print(str(error)[:11], end="")""", "Command # 1"),
    "node-redis": (["node", "-e"], """
      (async () => {
        const redis = require('redis').createClient({ url: `redis://127.0.0.1:${process.argv[1]}` });
        await redis.connect();
        const both = redis.multi().addCommand(['ORDER.SCHEDULE', 'tx', '1', 'PX', 'soon']).addCommand(['ORDER.PTTL', 'tx', '1']);
        await both.exec().catch((error) => process.stdout.write(`${error.constructor.name} ${error.replies[1]}`));
        redis.destroy();
      })();""", "MultiErrorReply -2"),
    "ioredis": (["node", "-e"], """
      (async () => {
        const redis = new (require('ioredis').Redis)(`redis://127.0.0.1:${process.argv[1]}`);
        const both = redis.multi().call('ORDER.SCHEDULE', 'tx', '1', 'PX', 'soon').call('ORDER.PTTL', 'tx', '1');
        const [[error], [none, reply]] = await both.exec();
        process.stdout.write(`${error.name} ${none} ${reply}`);
        redis.disconnect();
      })();""", "ReplyError null -2"),
}


@pytest.mark.parametrize("name", MULTI)
def test_the_page_says_how_an_error_in_a_transaction_is_told(name, server):
    command, program, wanted = MULTI[name]
    done = subprocess.run([*command, program, str(server.port)], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60,
                          env={**os.environ, **NODE, **redis_py(6)})
    assert (done.stdout, done.stderr) == (wanted, "")


def test_redigo_has_the_error_of_a_transaction_in_its_place(server, tmp_path):
    code = """package main

import (
	"fmt"

	"github.com/gomodule/redigo/redis"
)

func main() {
	conn, _ := redis.DialURL("redis://127.0.0.1:6400")
	conn.Send("MULTI")
	conn.Send("ORDER.SCHEDULE", "tx", "1", "PX", "soon")
	conn.Send("ORDER.PTTL", "tx", "1")
	both, err := redis.Values(conn.Do("EXEC"))
	fmt.Printf("%v %T %v\\n", err, both[0], both[1])
}
"""
    assert run_block(code, "go", server.port, tmp_path) == ["<nil> redis.Error -2"]


@pytest.fixture
def cluster(serve):
    """Two nodes with half of the slots each; the first one."""
    nodes = [serve("cluster-enabled yes", f"cluster-port {free_port()}", port=True) for _ in range(2)]
    for node, slots in zip(nodes, ((0, 8191), (8192, 16383))):
        node.run("CLUSTER", "ADDSLOTSRANGE", *slots)
    bus = nodes[1].lines[1].split()[1]
    nodes[0].run("CLUSTER", "MEET", "127.0.0.1", nodes[1].port, bus)
    for node in nodes:
        until(lambda node=node: "cluster_state:ok" in node.cli("CLUSTER", "INFO"), 60, "the cluster is whole")
        until(lambda node=node: len(node.run("CLUSTER", "SLOTS")) == 2, 60, "each node knows both")
    return nodes


def test_the_page_reaches_every_queue_of_a_cluster(cluster, tmp_path):
    first, second = cluster
    port = first.port
    run_block(blocks(PAGE, "php", "Cluster")[0], "php", port, tmp_path)
    for version in (5, 6, 8):
        code = blocks(PAGE, "python", "Cluster")[0].replace('"redis-py"', f'"redis-py-{version}"')
        run_block(code, "python", port, tmp_path, redis_py(version))
    for code in blocks(PAGE, "js", "Cluster"):
        run_block(code, "js", port, tmp_path, NODE)
    run_block(blocks(PAGE, "sh", "Cluster")[0], "sh", port, tmp_path)

    names = {"php-redis", "redis-py-5", "redis-py-6", "redis-py-8", "node-redis", "ioredis", "redis-cli"}
    queues = [(node, queue) for node in cluster for queue in node.cli("KEYS", "orders:*").split()]
    assert sorted(queue for _, queue in queues) == sorted(f"orders:{{{part}}}" for part in range(16))
    assert {node for node, _ in queues} == {first, second}
    for node, queue in queues:
        assert {row[0] for row in node.run("ORDER.SCAN", queue, 0, "COUNT", 100)[1]} == names


def test_the_page_of_go_redis_is_go(tmp_path):
    (code,) = blocks("docs/clients/go-redis.md", "go")
    file = tmp_path / "main.go"
    file.write_text(code)
    done = subprocess.run(["gofmt", "-l", str(file)], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_page_of_go_redis_runs(server, tmp_path):
    if not (Path(GO["GOPATH"]) / "src/github.com/redis/go-redis/v9").exists():
        pytest.skip("go-redis is not in the GOPATH: Debian 12 does not package it")
    server.run("ORDER.SCHEDULE", "orders", "7", "PX", 0)
    said = run_block(blocks("docs/clients/go-redis.md", "go")[0], "go", server.port, tmp_path)
    assert said[:3] == ["OK <nil>", "null", "ERR syntax error, unknown option near 'STATIS'"]
    assert [line.split()[0] for line in said[3:]] == ["7"]


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
