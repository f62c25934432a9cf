"""What all tests of this folder share: throwaway servers, and the line that scripts/test.sh counts."""

from pathlib import Path

import pytest

from support.old import old_module as find_old_module
from support.server import Server


@pytest.fixture
def serve(tmp_path):
    """Starts servers with the module: `serve("maxmemory 1gb", port=True)`; all end with the test.

    A crash report in a log, or a server that ended by itself, fails the test.
    """
    servers = []

    def start(*lines, **options):
        server = Server(tmp_path / f"server-{len(servers)}", *lines, **options)
        servers.append(server)
        return server.start()

    yield start
    faults = [fault for server in servers if (fault := server.end())]
    assert not faults, "\n".join(faults)


@pytest.fixture
def server(serve):
    """One server on a socket file and a port, with the events of orders switched on."""
    return serve("notify-keyspace-events KEd", port=True)


@pytest.fixture(scope="session")
def root():
    """The repository."""
    return Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def old_module():
    """The module of release 0.1.0; where there is none the test is skipped, and says why."""
    module, why = find_old_module()
    if module is None:
        pytest.skip(why)
    return module


def pytest_terminal_summary(terminalreporter):
    """The count as scripts/test.sh reads it. An error around a test is a failure too."""
    def count(*kinds):
        return sum(len(terminalreporter.stats.get(kind, [])) for kind in kinds)

    terminalreporter.write_line(f"{count('passed')} passed, {count('failed', 'error')} failed")
