"""A Redis Cluster of the test's own, on loopback."""

import subprocess

import redis

from .load import Caller
from .server import free_port
from .wait import until


def low_port():
    """A free port below 55535: the port of the cluster's bus is ten thousand above it."""
    while True:
        port = free_port()
        if port < 55_000:
            return port


def make_cluster(serve, primaries, replicas=0, *lines):
    """Nodes with the module that have joined, each slot with a primary. Returns them, primaries first."""
    own = ("cluster-enabled yes", "cluster-node-timeout 2000", "repl-diskless-sync-delay 0", *lines)
    nodes = [serve(*own, port=low_port()) for _ in range(primaries * (1 + replicas))]
    addresses = [f"127.0.0.1:{node.port}" for node in nodes]
    done = subprocess.run(
        ["redis-cli", "--cluster", "create", *addresses, "--cluster-replicas", str(replicas), "--cluster-yes"],
        capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr

    def is_whole(node):
        info = dict(line.split(":", 1) for line in node.cli("CLUSTER", "INFO").splitlines() if ":" in line)
        return info["cluster_state"] == "ok" and info["cluster_known_nodes"] == str(len(nodes))

    until(lambda: all(is_whole(node) for node in nodes), 60, "every node knows the cluster")
    if replicas:
        links = lambda node: "role:master" in node.cli("INFO", "replication") or "master_link_status:up" in node.cli(
            "INFO", "replication")
        until(lambda: all(links(node) for node in nodes), 60, "every replica is in sync")
    return nodes


def cluster_client(nodes, **options):
    """A client of redis-py that finds the node of each key."""
    living = [redis.cluster.ClusterNode("127.0.0.1", node.port) for node in nodes if node.process.poll() is None]
    return redis.RedisCluster(startup_nodes=living, decode_responses=True, socket_timeout=20, **options)


class ClusterCaller(Caller):
    """Commands to the node of a queue, each with `WAIT 1` behind it."""

    def __init__(self, nodes, ends):
        super().__init__(ends, 1, 1000)
        self.nodes = nodes
        self.client = until(self.connect, 30, "the cluster lets a client in")

    def connect(self):
        """A cluster client, or None while there is no cluster."""
        try:
            return cluster_client(self.nodes)
        except redis.RedisError:
            return None

    def client_of(self, queue):
        return self.client.get_node_from_key(queue).redis_connection

    def look(self):
        """Asks again which node has which slot."""
        super().look()
        try:
            self.client.nodes_manager.initialize()
        except redis.RedisError:
            pass
