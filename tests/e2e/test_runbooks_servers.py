"""docs/runbooks.md, where servers come and go: failovers, a restored backup, an upgrade."""

import re
import threading
import time

import pytest
import redis

from support.cluster import make_cluster
from support.pages import blocks
from support.runbook import LONG, PAGE, claim, listed_version, replica_of, schedule, stat, state, typed, work
from support.sentinel import make_group
from support.server import MODULE, Server
from support.wait import until

#: Longer than any test.
AGES = 600_000


def test_a_failover_by_hand(serve):
    primary = serve("repl-diskless-sync-delay 0", port=True)
    replica = replica_of(serve, primary)
    see, _, promote, *_ = blocks(PAGE, "sh", "Failover")
    schedule(primary, "1", "2", ms=100)
    with primary.client() as client:
        client.execute_command("ORDER.SCHEDULE", "orders", "3", "PX", LONG)
        fence = client.execute_command("ORDER.LOCK", "orders", "3", "pay", "PX", LONG)[1]
        assert client.wait(1, 10_000) == 1
    assert "connected_slaves:1" in typed(see, primary)
    primary.kill()
    typed(promote, replica)
    assert "role:master" in typed(see, replica)
    until(lambda: stat(replica, "expired") == 2, 20, "what is overdue is offered")
    assert sorted(work(replica)) == ["1", "2"]
    assert replica.run("ORDER.LOCK", "orders", "3", "other", "PX", LONG)[0] == "BUSY", "leases keep their end"
    assert replica.run("ORDER.LOCK", "orders", "4", "other", "PX", LONG)[1] > fence, "fences grow"


def test_what_a_failover_lost_is_found_with_the_database(serve, tmp_path):
    primary = serve("repl-diskless-sync-delay 0", port=True)
    replica = replica_of(serve, primary)
    see, _, promote, _, compare = blocks(PAGE, "sh", "Failover")
    now = int(time.time() * 1000)
    unpaid = {order: now + LONG for order in ("kept", "lost-1", "lost-2", "ended", "held")}
    put = lambda *orders: [primary.run("ORDER.SCHEDULE", "orders", order, "PXAT", unpaid[order], "STATUS", "unpaid")
                           for order in orders]
    put("kept", "ended")
    primary.run("ORDER.FINISH", "orders", "ended", "STATUS", "paid")
    until(lambda: state(replica, "ended") == "finished", 20, "the replica has it")
    # Its link is cut: what is written now has not reached it.
    replica.run("REPLICAOF", "127.0.0.1", 1)
    put("lost-1", "lost-2", "held")
    primary.kill()
    typed(promote, replica)
    assert "role:master" in typed(see, replica)
    replica.run("ORDER.LOCK", "orders", "held", "pay", "PX", LONG)
    (tmp_path / "unpaid.txt").write_text("".join(f"{order} {deadline}\n" for order, deadline in unpaid.items()))
    found = dict(line.split() for line in typed(compare, replica, folder=tmp_path).splitlines())
    assert found == {"lost-1": "OK", "lost-2": "OK", "ended": "FINISHED", "held": "LEASED"}
    assert {state(replica, order) for order in ("lost-1", "lost-2", "kept")} == {"scheduled"}, "they are back"
    assert set(dict(line.split() for line in typed(compare, replica, folder=tmp_path).splitlines()).values()) == {
        "FINISHED", "LEASED"}


def test_wait_for_one_of_two_replicas_is_not_enough(serve):
    """The one that has the write may not be the one that is promoted."""
    primary = serve("repl-diskless-sync-delay 0", port=True)
    behind, near = (replica_of(serve, primary) for _ in range(2))
    with primary.client() as client:
        client.execute_command("ORDER.SCHEDULE", "orders", "both", "PX", AGES)
        assert client.wait(2, 10_000) == 2
        behind.run("REPLICAOF", "127.0.0.1", 1)
        until(lambda: "connected_slaves:1" in primary.cli("INFO", "replication"), 20, "its link is gone")
        client.execute_command("ORDER.SCHEDULE", "orders", "one", "PX", AGES)
        assert client.wait(1, 10_000) == 1, "WAIT 1 is content"
        assert client.wait(2, 200) == 1, "WAIT 2 is not"
    primary.kill()
    typed(blocks(PAGE, "sh", "Failover")[2], behind)
    assert state(behind, "both") == "scheduled" and state(behind, "one") is None
    assert state(near, "one") == "scheduled"


def test_a_failover_with_sentinel(serve, tmp_path):
    """Three sentinels, a primary and two replicas; what WAIT 2 confirmed is there after it."""
    servers, primary, sentinels = make_group(serve, tmp_path)
    try:
        confirmed, fences = [], []
        with primary.client() as client:
            for number in range(50):
                client.execute_command("ORDER.SCHEDULE", "orders", number, "PX", 2_000 if number % 2 else AGES)
                fences.append(client.execute_command("ORDER.LOCK", "locks", number, "me", "PX", AGES)[1])
                if client.wait(2, 5_000) == 2:
                    confirmed.append(number)
        assert len(confirmed) > 40
        primary.kill()
        until(lambda: sentinels.said() not in (0, primary.port), 60, "a replica is promoted")
        new = servers[sentinels.said()]
        where = blocks(PAGE, "sh", "Failover")[1].splitlines()[0]
        until(lambda: typed(where, new, p26379=sentinels.ports[1]).split() == ["127.0.0.1", str(new.port)], 30,
              "each one says so")
        until(lambda: "role:master" in new.cli("INFO", "replication"), 30, "it is a primary")
        for number in confirmed:
            assert state(new, number) in ("scheduled", "expired"), number
            assert new.run("ORDER.LOCK", "locks", number, "other", "PX", LONG)[0] == "BUSY"
        due = sum(number % 2 for number in confirmed)
        until(lambda: due <= stat(new, "expired") <= 25, 30, "overdue ones are offered")
        assert new.run("ORDER.LOCK", "locks", "fresh", "other", "PX", LONG)[1] > max(fences)
        # The old one comes back as a replica.
        primary.start()
        until(lambda: "role:slave" in primary.cli("INFO", "replication"), 60, "the old primary is a replica")
        with pytest.raises(redis.exceptions.ReadOnlyError):
            schedule(primary, "late")
    finally:
        fault = sentinels.end()
    assert not fault, fault


def test_a_failover_in_a_cluster(serve):
    """Three primaries with a replica each: one is killed, one is changed by hand, one is taken over."""
    nodes = make_cluster(serve, 3, 1)
    see, by_hand = (blocks(PAGE, "sh", "Failover")[number].splitlines() for number in (1, 3))
    role = lambda node: re.search(r"role:(\w+)", node.cli("INFO", "replication")).group(1)
    replica = {}
    for node in nodes:
        if role(node) == "slave":
            port = int(re.search(r"master_port:(\d+)", node.cli("INFO", "replication")).group(1))
            replica[port] = node
    primaries = [node for node in nodes if node.port in replica]
    assert len(primaries) == 3
    # A queue on each primary.
    queues, number = {}, 0
    while len(queues) < 3:
        queue, number = f"orders:{{{number}}}", number + 1
        for node in primaries:
            try:
                node.run("ORDER.GET", queue, "1")
                queues.setdefault(node.port, queue)
            except redis.exceptions.MovedError:
                pass
    fences = {}
    for node in primaries:
        queue = queues[node.port]
        with node.client() as client:
            for order in range(30):
                client.execute_command("ORDER.SCHEDULE", queue, order, "PX", 100 if order % 2 else AGES)
            fences[queue] = client.execute_command("ORDER.LOCK", queue, "0", "pay", "PX", AGES)[1]
            assert client.wait(1, 10_000) == 1

    def check(node, queue):
        """The promoted replica has it all and goes on."""
        assert stat(node, "orders", queue) == 30
        until(lambda: stat(node, "expired", queue) == 15, 20, "overdue orders are offered")
        assert node.run("ORDER.LOCK", queue, "0", "other", "PX", LONG)[0] == "BUSY", "leases keep their end"
        assert node.run("ORDER.LOCK", queue, "2", "other", "PX", LONG)[1] > fences[queue], "fences grow"
        assert len(work(node, 15, queue)) == 15

    killed, changed, taken = primaries
    killed.kill()
    new = replica[killed.port]
    until(lambda: role(new) == "master", 60, "the others elect its replica")
    until(lambda: "cluster_state:ok" in new.cli("CLUSTER", "INFO"), 60, "the cluster is whole")
    check(new, queues[killed.port])
    until(lambda: re.search(rf":{new.port}@\S* master", typed(see[1], changed)), 30, "each node says where it is")
    killed.start()
    until(lambda: role(killed) == "slave", 60, "it comes back as a replica")
    # By hand, with all of them there.
    new = replica[changed.port]
    assert typed(by_hand[0], new).strip() == "OK"
    until(lambda: role(new) == "master" and role(changed) == "slave", 60, "they have changed places")
    check(new, queues[changed.port])
    # The one without an election: with two of three primaries gone there is no majority that could elect.
    second, new = changed, replica[taken.port]
    replica[changed.port].kill()
    taken.kill()
    for node in (second, new):
        assert typed(by_hand[1], node).strip() == "OK"
        until(lambda: role(node) == "master", 30, "it takes over")
    until(lambda: "cluster_state:ok" in new.cli("CLUSTER", "INFO"), 60, "the cluster is whole")
    check(new, queues[taken.port])
    assert stat(second, "orders", queues[changed.port]) == 30 and stat(second, "finished", queues[changed.port]) == 15


def test_two_live_copies_hand_out_each_order_twice(serve):
    """Why the page wants a pause: a copy under another name, and what a pause in time prevents."""
    server = serve()
    schedule(server, "1", "2")
    with redis.Redis(unix_socket_path=server.socket) as raw:
        dump = raw.dump("orders")
        raw.restore("copy", 0, dump)
    assert sorted(work(server)) == sorted(work(server, queue="copy")) == ["1", "2"], "each is closed twice"
    server.run("FLUSHALL")
    schedule(server, "1", "2")
    server.run("ORDER.PAUSE", "orders", "REASON", "copied")
    with redis.Redis(unix_socket_path=server.socket) as raw:
        dump = raw.dump("orders")
        raw.restore("copy", 0, dump)
    server.run("ORDER.RESUME", "orders")
    assert sorted(work(server)) == ["1", "2"] and work(server, queue="copy") == [], "the pause goes with the copy"


def test_restore_from_a_backup(serve):
    old = serve("appendonly no", port=True)
    schedule(old, "paid", "closed", "open", ms=100)
    old.run("SAVE")
    backup = (old.folder / "dump.rdb").read_bytes()
    # Since the backup one was paid and one closed, as the database knows; then the queue was deleted.
    old.run("ORDER.FINISH", "orders", "paid", "STATUS", "paid")
    time.sleep(0.2)
    row = claim(old)[0]
    old.run("ORDER.ACK", "orders", row[0], row[1], "STATUS", "closed")
    gone = {"paid": "paid", row[0]: "closed"}
    old.run("UNLINK", "orders")
    # A server that no closer knows.
    fresh = serve(port=True)
    fresh.stop()
    (fresh.folder / "dump.rdb").write_bytes(backup)
    fresh.start()
    pause, resume, move = blocks(PAGE, "sh", "Restore from a backup")
    typed(pause, old, fresh)
    assert claim(fresh, 10) == []
    # The reconcile job, the way from the queue to the database.
    for order, status in gone.items():
        assert fresh.run("ORDER.FINISH", "orders", order, "STATUS", status)[0] == "OK"
    typed(move, old, fresh)
    assert fresh.run("EXISTS", "orders") == 0
    assert claim(old, 10) == [], "the pause goes with it"
    typed(resume.replace("6401", "6400"), old)
    left = ({"paid", "closed", "open"} - set(gone)).pop()
    assert work(old) == [left]
    assert stat(old, "overdue") == 0


@pytest.mark.timeout(1800)
def test_upgrade_from_the_first_release(serve, old_module):
    primary = serve("repl-diskless-sync-delay 0", port=True, module=old_module)
    schedule(primary, "1", "2", ms=LONG)
    fence = primary.run("ORDER.LOCK", "orders", "2", "pay", "PX", LONG)[1]
    replica = serve("repl-diskless-sync-delay 0", f"replicaof 127.0.0.1 {primary.port}", port=True)
    until(lambda: "master_link_status:up" in replica.cli("INFO", "replication"), 30, "the new one reads the old one's")
    schedule(primary, "3", ms=LONG)
    until(lambda: state(replica, "3") == "scheduled", 20, "and its stream")
    see, over, same, _ = blocks(PAGE, "sh", "Upgrade")
    assert "master_link_status:up" in typed(see, primary, replica)
    # What the page looks at in the end tells the two apart.
    version = re.compile(r"^orderwheel_version:(\d+)\.(\d+)\.(\d+)$", re.M)
    numbers = [tuple(map(int, version.search(typed(same, node)).groups())) for node in (primary, replica)]
    assert numbers[0] == (0, 1, 0) < numbers[1], numbers
    shown = [listed_version(node) for node in (primary, replica)]
    assert shown == [1, 10_000 * numbers[1][0] + 100 * numbers[1][1] + numbers[1][2]], shown
    typed(over, primary)
    until(lambda: "role:master" in replica.cli("INFO", "replication"), 30, "it has taken over")
    assert [state(replica, order) for order in "123"] == ["scheduled", "leased", "scheduled"]
    assert replica.run("ORDER.FINISH", "orders", "2", "FENCE", fence, "STATUS", "paid")[0] == "OK"
    # The old primary is a replica now. With the new file it follows, and nothing is refused.
    primary.stop()
    configuration = primary.folder / "redis.conf"
    configuration.write_text(configuration.read_text().replace(str(old_module), str(MODULE))
                             + f"replicaof 127.0.0.1 {replica.port}\n")
    primary.start()
    until(lambda: "master_link_status:up" in typed(see, replica, primary), 30, "in sync")
    assert state(primary, "2") == "finished"
    versions = [typed(same, node) for node in (primary, replica)]
    assert versions[0] == versions[1] and "orderwheel_apply_refused_total:0" in versions[0], versions
    assert tuple(map(int, version.search(versions[0]).groups())) == numbers[1], versions


def test_a_planned_failover_of_the_same_release(serve):
    primary = serve("repl-diskless-sync-delay 0", port=True)
    replica = replica_of(serve, primary)
    told = []

    def waits():
        try:
            primary.run("ORDER.CLAIM", "orders", "closer", "BLOCK", 30_000)
        except redis.RedisError as error:
            told.append(str(error))

    thread = threading.Thread(target=waits)
    thread.start()
    until(lambda: stat(primary, "claim_waiters") == 1, 20, "a closer waits")
    schedule(primary, "1", ms=LONG)
    typed(blocks(PAGE, "sh", "Upgrade")[1], primary)
    until(lambda: "role:master" in replica.cli("INFO", "replication"), 30, "it has taken over")
    thread.join(30)
    assert told and told[0].startswith("UNBLOCKED"), told
    assert state(replica, "1") == "scheduled"


@pytest.mark.timeout(1800)
def test_an_older_release_refuses_what_a_newer_one_wrote(serve, tmp_path, old_module):
    primary = serve("repl-diskless-sync-delay 0", "appendonly no", port=True)
    schedule(primary, "1", ms=LONG)
    primary.run("ORDER.CONFIG", "orders", "SET", "claims-per-s-max", 5)
    # As a replica: it ends when it is sent a full copy, and says why. The primary goes on.
    replica = Server(tmp_path / "older", f"replicaof 127.0.0.1 {primary.port}", port=True, module=old_module)
    replica.ended = True
    try:
        replica.start()
    except AssertionError:
        # It was as fast as that.
        pass
    until(lambda: replica.process.poll() is not None, 30, "it ends")
    assert "of a newer version" in replica.log.read_text()
    assert state(primary, "1") == "scheduled"
    # As a server on its file: it does not start.
    until(lambda: "rdb_bgsave_in_progress:0" in primary.cli("INFO", "persistence"), 30, "the copy is made")
    primary.run("SAVE")
    primary.stop()
    configuration = primary.folder / "redis.conf"
    configuration.write_text(configuration.read_text().replace(str(MODULE), str(old_module)))
    with pytest.raises(AssertionError, match="of a newer version"):
        primary.start()
    primary.ended = True
    # Back to the new one: it is all there.
    configuration.write_text(configuration.read_text().replace(str(old_module), str(MODULE)))
    primary.start()
    assert state(primary, "1") == "scheduled"


def test_the_module_is_loaded_into_a_running_server(serve):
    server = serve("enable-module-command local", "appendonly yes", module=None)
    load = blocks(PAGE, "sh", "Upgrade")[3]
    assert typed(load.replace("/path/to/liborderwheel.so", str(MODULE)), server).strip() == "OK"
    assert server.run("CONFIG", "GET", "orderwheel.keep-ms") == ["orderwheel.keep-ms", "86400000"]
    schedule(server, "1")
    with pytest.raises(redis.ResponseError, match="data types"):
        server.run("MODULE", "UNLOAD", "orderwheel")
    # Without a line in redis.conf the next start ends on the data.
    server.stop()
    with pytest.raises(AssertionError, match="[Uu]nknown command"):
        server.start()
    server.ended = True
    with (server.folder / "redis.conf").open("a") as file:
        file.write(f"loadmodule {MODULE}\n")
    server.start()
    assert work(server) == ["1"]
