"""From release 0.1.0 to this one: its files and payloads, its stream, a rolling upgrade, and what is too new.

The files in tests/fixtures/release-0.1.0 were made once by that release (support/golden.py) and are read for ever.
Tests with a second module need a build of it: see support/old.py.
"""

import json
import shutil
import time

import pytest
import redis

from support.clock import Clock
from support.golden import QUEUES, WAYS, fill, look, make, raw_client
from support.old import newer
from support.runbook import replica_of
from support.server import MODULE, ROOT, Server
from support.wait import until

GOLDEN = ROOT / "tests/fixtures/release-0.1.0"
STATES = ("scheduled", "expired", "leased", "retrying", "dead", "finished", "reserved")
#: The settings that each queue has of its own; defaults may differ from release to release.
SETTINGS = {"orders": ("max-attempts",), "locks": (), "set": ("keep-ms", "max-leased", "transitions")}
#: A build of the old module may be part of the test.
BUILDS = pytest.mark.timeout(1800)


@pytest.fixture
def old_times(serve, tmp_path):
    """Starts servers a second after the golden files were made; None where a server goes by its own clock."""
    clock = Clock(tmp_path / "clock")
    if not clock.rules(serve(program=clock.program)):
        return None
    clock.ahead(json.loads((GOLDEN / "expected.json").read_text())["made_at"] / 1000 + 1 - time.time())
    return clock.program


def loaded(serve, folder, way, *lines, **options):
    """A server on what a folder holds of one way of saving."""
    own = () if way == "rdb" else ("appendonly yes",)
    server = serve(*own, "enable-debug-command yes", *lines, **options)
    server.stop()
    shutil.rmtree(server.folder / "appendonlydir", ignore_errors=True)
    shutil.copytree(folder / way, server.folder, dirs_exist_ok=True)
    return server.start()


def shown(fields):
    """An order's fields as this release shows them. It says how a try ended of which nobody said anything."""
    if fields["state"] == "dead" and fields["owner"]:
        return {**fields, "error": f"lease of {fields['owner']} ended without a word"}
    return fields


def ends_alike(want, got, asked_at, made_at):
    """Whether a lease has the same end, given what was left of it then and now."""
    if want["lease_ms"] == -2:
        return got["lease_ms"] == -2
    # What was left was read shortly before the whole was done.
    return abs(got["lease_ms"] + asked_at - want["lease_ms"] - made_at) < 3000


def expect_same(server, expected):
    """Every order is there, in the same state, with the same fields; settings and pause too."""
    with raw_client(server) as client:
        got = look(client)
        seconds, micros = client.time()
    now = seconds * 1000 + micros // 1000
    for queue in QUEUES:
        want, have = expected["orders"][queue], got["orders"][queue]
        assert sorted(have) == sorted(want), queue
        for order, fields in want.items():
            assert {field: have[order][field] for field in fields if field != "lease_ms"} == {
                field: value for field, value in shown(fields).items() if field != "lease_ms"}, (queue, order)
            assert ends_alike(fields, have[order], now, expected["made_at"]), (queue, order, have[order]["lease_ms"])
        want, have = expected["stats"][queue], got["stats"][queue]
        fields = (*STATES, *SETTINGS[queue], "orders", "pause_reason")
        assert {field: have[field] for field in fields} == {field: want[field] for field in fields}, queue
        assert (have["paused_ms"] > 0) == (want["paused_ms"] > 0), queue


def expect_lasting(server, expected):
    """As `expect_same`, at another time: what no clock changes of the orders that no clock takes away."""
    fields = ("status", "deadline", "rev", "attempt", "fence", "owner", "kind", "payload")
    with raw_client(server) as client:
        got = look(client)["orders"]
    for order, want in expected["orders"]["orders"].items():
        if want["state"] != "finished":
            have = got["orders"][order]
            assert {field: have[field] for field in fields} == {field: want[field] for field in fields}, order


def expect_alive(server, expected):
    """It goes on with what it has loaded: what is overdue is handed out, with larger fences than there were."""
    last = max(order["fence"] for queue in expected["orders"].values() for order in queue.values())
    with raw_client(server) as client:
        rows = client.execute_command("ORDER.CLAIM", "orders", "closer-2", "COUNT", 100, "PX", 60_000)
    overdue = {order for order, fields in expected["orders"]["orders"].items() if fields["state"] == "expired"}
    assert overdue <= {row[0] for row in rows}
    assert all(row[1] > last for row in rows)


def check_golden(server, old_times):
    """What a server has made of the golden files."""
    expected = json.loads((GOLDEN / "expected.json").read_text())
    assert {fields["state"] for queue in expected["orders"].values() for fields in queue.values()} == set(STATES)
    (expect_same if old_times else expect_lasting)(server, expected)
    digests = server.run("DEBUG", "DIGEST-VALUE", *QUEUES)
    expect_alive(server, expected)
    return digests


def test_files_and_payloads_of_release_0_1_0_are_read_for_ever(serve, old_times):
    program = {"program": old_times} if old_times else {}
    digests = {}
    for way in WAYS:
        server = loaded(serve, GOLDEN, way, **program)
        digests[way] = check_golden(server, old_times)
        server.stop()
    server = serve("enable-debug-command yes", **program)
    with raw_client(server) as client:
        for queue in QUEUES:
            client.restore(queue, 0, (GOLDEN / f"{queue}.dump").read_bytes())
    digests["payload"] = check_golden(server, old_times)
    # A stream of effects says less of how a lease came to its end than a record does: since when it counts is filled in
    # with the earliest that may be, and nothing that can be read differs by it.
    del digests["aof"]
    assert len({tuple(digest) for digest in digests.values()}) == 1, digests


@BUILDS
@pytest.mark.parametrize("way", [*WAYS, "payload"])
def test_what_the_old_release_saves_now_is_read_whole(serve, tmp_path, old_module, way):
    old = serve("appendonly yes", module=old_module)
    folder = tmp_path / "saved"
    make(folder, old)
    old.stop()
    if way == "payload":
        server = serve()
        with raw_client(server) as client:
            for queue in QUEUES:
                client.restore(queue, 0, (folder / f"{queue}.dump").read_bytes())
    else:
        server = loaded(serve, folder, way)
    expected = json.loads((folder / "expected.json").read_text())
    expect_same(server, expected)
    # The committed ones are as the release makes them.
    golden = json.loads((GOLDEN / "expected.json").read_text())
    shape = lambda made: {(queue, order): (fields["state"], fields["status"], fields["attempt"], fields["kind"])
                          for queue in QUEUES for order, fields in made["orders"][queue].items()}
    assert shape(expected) == shape(golden)
    expect_alive(server, expected)


def refused_totals(server):
    """How many effects a server has refused."""
    return int(server.cli("INFO", "orderwheel").split("orderwheel_apply_refused_total:")[1].split()[0])


def taken_over(by, old):
    """The other one is the primary now."""
    until(lambda: "role:master" in by.cli("INFO", "replication"), 30, "it has taken over")
    until(lambda: "master_link_status:up" in old.cli("INFO", "replication"), 30, "the other one follows")


@BUILDS
def test_a_rolling_upgrade_replicas_first(serve, old_module):
    """The right order: the new one reads the old one's copy and stream, and takes over."""
    lines = ("repl-diskless-sync-delay 0", "enable-debug-command yes")
    primary = serve(*lines, module=old_module, port=True)
    with raw_client(primary) as client:
        client.execute_command("ORDER.SCHEDULE", "early", "1", "PX", 3_600_000, "STATUS", "unpaid")
        replica = replica_of(serve, primary, "enable-debug-command yes")
        # As a stream of effects, after a copy.
        fill(client)
        assert client.wait(1, 10_000) == 1
        expected = look(client)
        expected["made_at"] = int(time.time() * 1000)
        assert client.execute_command("ORDER.GET", "early", "1")
    expect_same(replica, expected)
    assert refused_totals(replica) == 0
    assert primary.run("FAILOVER").upper() == "OK"
    taken_over(replica, primary)
    expect_same(replica, expected)
    # What the new primary writes is refused by the old module: it has what it had, counts and says so.
    replica.run("ORDER.SCHEDULE", "early", "2", "PX", 3_600_000)
    until(lambda: refused_totals(primary) > 0, 20, "the old release refuses what is newer")
    assert "upgrade replicas before their primary" in primary.log.read_text()
    assert primary.run("ORDER.GET", "early", "2") is None, "who fails back to it loses the write"
    # With the new module it is whole again, and may take over.
    primary.stop()
    configuration = primary.folder / "redis.conf"
    configuration.write_text(configuration.read_text().replace(str(old_module), str(MODULE))
                             + f"replicaof 127.0.0.1 {replica.port}\n")
    primary.start()
    until(lambda: "master_link_status:up" in primary.cli("INFO", "replication"), 30, "in sync")
    keys = ("early", *QUEUES)
    assert primary.run("DEBUG", "DIGEST-VALUE", *keys) == replica.run("DEBUG", "DIGEST-VALUE", *keys)
    assert replica.run("FAILOVER").upper() == "OK"
    taken_over(primary, replica)
    expect_same(primary, expected)
    expect_alive(primary, expected)
    assert primary.run("ORDER.GET", "early", "2")
    assert refused_totals(primary) == refused_totals(replica) == 0


@BUILDS
def test_a_rolling_upgrade_primary_first_stops_the_replicas(serve, tmp_path, old_module):
    """The wrong order: a replica of the old release ends when it is sent a copy. The primary loses nothing by it."""
    primary = serve("repl-diskless-sync-delay 0", "appendonly yes", module=old_module, port=True)
    replica = Server(tmp_path / "replica", f"replicaof 127.0.0.1 {primary.port}", module=old_module, port=True)
    replica.start()
    try:
        until(lambda: "master_link_status:up" in replica.cli("INFO", "replication"), 30, "in sync")
        with raw_client(primary) as client:
            fill(client)
            assert client.wait(1, 10_000) == 1
            expected = look(client)
            expected["made_at"] = int(time.time() * 1000)
        primary.stop()
        configuration = primary.folder / "redis.conf"
        configuration.write_text(configuration.read_text().replace(str(old_module), str(MODULE)))
        primary.start()
        expect_same(primary, expected)
        replica.ended = True
        until(lambda: replica.process.poll() is not None, 60, "the replica ends")
        assert "newer version" in replica.log.read_text()
    finally:
        replica.end()
    expect_alive(primary, expected)


def small(serve, *lines):
    """A server with a few orders."""
    server = serve("enable-debug-command yes", *lines)
    with server.client() as client:
        for number in range(3):
            client.execute_command("ORDER.SCHEDULE", "orders", number, "PX", 60_000, "STATUS", "unpaid")
    return server


def expect_no_start(server, why):
    """It does not start on its files, and says why in one line. With the files as they were it does."""
    before = len(server.log.read_text())
    with pytest.raises(AssertionError):
        server.start()
    server.ended = True
    lines = [line for line in server.log.read_text()[before:].splitlines()
             if "orderwheel:" in line and not line.endswith("loaded")]
    assert len(lines) == 1 and why in lines[0], lines


def test_a_newer_rdb_file_is_refused_with_one_line(serve):
    server = small(serve)
    server.run("SAVE")
    server.stop()
    file = server.folder / "dump.rdb"
    good = file.read_bytes()
    file.write_bytes(newer(good))
    expect_no_start(server, "of a newer version")
    file.write_bytes(good)
    assert server.start().run("ORDER.STATS", "orders")[:2] == ["scheduled", 3]


def test_a_newer_or_damaged_aof_is_refused_with_one_line(serve):
    """Not passed over, as an error of a command would be: what follows would be built on what is missing."""
    server = small(serve, "appendonly yes", "aof-use-rdb-preamble no")
    server.stop()
    file = next(server.folder.glob("appendonlydir/*.incr.aof"))
    good = file.read_bytes()
    applied = b"$11\r\nORDER.APPLY\r\n$6\r\norders\r\n$1\r\n"
    assert good.count(applied + b"2\r\n") == 3
    last = good.rindex(applied) + len(applied)
    file.write_bytes(good[:last] + b"3" + good[last + 1:])
    expect_no_start(server, "is of a newer version (3) than this module, which reads up to 2")
    # The first byte of the effects says which effect it is.
    effects = good.index(b"\r\n", last + 3) + 2
    file.write_bytes(good[:effects] + b"\xff" + good[effects + 1:])
    expect_no_start(server, "is damaged (effects are malformed")
    file.write_bytes(good)
    assert server.start().run("ORDER.STATS", "orders")[:2] == ["scheduled", 3]


def test_a_newer_payload_is_refused_and_the_server_goes_on(serve):
    server = small(serve)
    with redis.Redis(unix_socket_path=server.socket) as client:
        payload = client.dump("orders")
        client.restore("copy", 0, newer(payload, by=0))
        for _ in range(50):
            with pytest.raises(redis.ResponseError, match="Bad data format"):
                client.restore("newer", 0, newer(payload))
        assert not client.exists("newer")
    assert server.run("DEBUG", "DIGEST-VALUE", "copy") == server.run("DEBUG", "DIGEST-VALUE", "orders")
    lines = [line for line in server.log.read_text().splitlines() if "of a newer version" in line]
    # At most one a second: who sends many does not fill the disk.
    assert 1 <= len(lines) <= 10, lines


@BUILDS
def test_release_0_1_0_passes_over_newer_effects_at_the_end_of_an_aof(serve, old_module):
    """Why the page wants a backup: it starts, without what the new one has written. This release would not."""
    server = serve("appendonly yes", module=old_module)
    configuration = server.folder / "redis.conf"
    before = configuration.read_text()
    server.run("ORDER.SCHEDULE", "orders", "older", "PX", 600_000)
    for text, order in ((before.replace(str(old_module), str(MODULE)), "newer"), (before, None)):
        server.stop()
        configuration.write_text(text)
        server.start()
        if order:
            server.run("ORDER.SCHEDULE", "orders", order, "PX", 600_000)
    assert server.run("ORDER.GET", "orders", "older") and server.run("ORDER.GET", "orders", "newer") is None
    assert "ORDER.APPLY was refused" in server.log.read_text()


@BUILDS
def test_there_is_no_way_back(serve, old_module):
    """Why the page wants a backup: the old release does not start on what the new one has saved."""
    server = small(serve, "appendonly yes")
    server.run("BGREWRITEAOF")
    until(lambda: "aof_rewrite_in_progress:0" in server.cli("INFO", "persistence"), 30, "rewritten")
    server.stop()
    configuration = server.folder / "redis.conf"
    configuration.write_text(configuration.read_text().replace(str(MODULE), str(old_module)))
    with pytest.raises(AssertionError, match="newer version"):
        server.start()
    server.ended = True
