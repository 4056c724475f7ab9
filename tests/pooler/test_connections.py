"""Connections that fail: each way has a sentence of its own, and is tried again if it can pass."""

import asyncio

import pytest

import provisioning.database as database_module
from deployments.postgres import LocalPostgres
from provisioning.database import autocommit, database
from provisioning.errors import DatabaseError
from tests.conftest import free_port
from tests.pooler.bouncer import bouncer


async def failure(url: str) -> DatabaseError:
    async with database(url, pooled=True) as engine:
        with pytest.raises(DatabaseError) as caught:
            await autocommit(engine).__aenter__()
    assert "hunter2" not in str(caught.value)
    return caught.value


@pytest.mark.guarantee(
    fault="no such database, a wrong password, no TLS, no such host, refused, silent (G15)",
    holds="a sentence for each; only refused and silent are tried again",
    guard="without the table of failures, one sentence for all",
)
async def test_each_way_to_fail_has_its_own_sentence(
    postgres: LocalPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_module, "CONNECT_TIMEOUT", 2)
    silent = await asyncio.start_server(lambda _reader, _writer: asyncio.sleep(60), "127.0.0.1", 0)
    port = silent.sockets[0].getsockname()[1]
    with bouncer(postgres, "transaction", "auth_type = md5") as asking:
        told = {
            url: await failure(url)
            for url in (
                postgres.url("no_such_database"),
                asking.url("postgres").replace("@", ":hunter2@"),
                asking.url("postgres").replace("@", ":hunter2@") + "?sslmode=require",
                "postgresql://u:hunter2@no-such-host.invalid/db",
                f"postgresql://u:hunter2@127.0.0.1:{free_port()}/db",
                f"postgresql://u:hunter2@127.0.0.1:{port}/db",
            )
        }
    silent.close()
    found = list(told.values())
    expected = [
        "no database of that name",
        "refused the user or the password",
        "offers no TLS",
        "does not exist",
        "nobody listens",
        "did not answer",
    ]
    for error, words in zip(found, expected, strict=True):
        assert words in str(error)
    assert len({str(error) for error in found}) == len(expected)
    assert [error.transient for error in found] == [False, False, False, False, True, True]
