"""
PostgreSQL for system tests.

`postgres` is one server for all tests of a session: make a database for each test or file with
`create_database`, and roles with names that others do not have. `postgres_new` starts servers that a
test may stop, kill and restart; they end with the test.
"""

import sys

import pytest

from conftest import ROOT, need

sys.path.insert(0, ROOT + "/tests")

from harness.postgres import PASSWORD, Postgres, bin_dir  # noqa: E402

__all__ = ["PASSWORD", "postgres", "postgres_new"]


@pytest.fixture(scope="session")
def postgres():
    """With TLS possible: `postgres.ca` is the PEM of the authority that signed it."""
    need(bin_dir() is not None, "there is no PostgreSQL server here (Debian: postgresql)")
    server = Postgres(tls=True)
    yield server
    server.close()


@pytest.fixture
def postgres_new():
    need(bin_dir() is not None, "there is no PostgreSQL server here (Debian: postgresql)")
    servers = []

    def start(**how):
        servers.append(Postgres(**how))
        return servers[-1]

    yield start
    for server in servers:
        server.close()
