"""Addresses of databases as people have them, and what is said of those that can't be used."""

from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import settings as example_settings
from hypothesis import strategies as st

from provisioning.database import autocommit, database, parameters_of
from provisioning.database_url import parameters, shown
from provisioning.errors import DatabaseError, SettingsInvalid
from provisioning.session import SESSION
from provisioning.settings import settings

MARKS = "ЖЯ字"
"""What stands in no sentence of ours, and so in no message unless the password does."""

PASSWORDS = st.text(alphabet=MARKS + ":/@?#%[]&=,'\\ +\n\x00;{}", min_size=1, max_size=30)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("postgres://u@h/db", {"user": "u", "host": "h", "dbname": "db"}),
        ("postgresql+asyncpg://u@h/db", {"host": "h"}),
        ("postgresql+psycopg2://u@h/db", {"host": "h"}),
        ("postgresql://u@h/db\n", {"dbname": "db"}),
        (
            "postgresql://u@h1:5432,h2:5433/db?target_session_attrs=read-write",
            {"host": "h1,h2", "port": "5432,5433", "target_session_attrs": "read-write"},
        ),
        ("postgresql://u:p%40ss%2F@h/db", {"password": "p@ss/", "host": "h"}),
        ("postgresql://u:p#:?&=,[s@h/db", {"password": "p#:?&=,[s", "host": "h"}),
        ("postgresql://u@[::1]:5433/db", {"host": "::1", "port": "5433"}),
        ("postgresql://u@/db?host=/var/run/postgresql", {"host": "/var/run/postgresql"}),
    ],
)
@pytest.mark.guarantee(
    fault="several hosts, another driver's name, a line break at the end of the URL (G15)",
    holds="the address is read as PostgreSQL's own tools read it",
    guard="taken as it stands, another driver's name and the line break are refused",
)
def test_an_address_is_read_as_people_have_it(url: str, expected: dict[str, str]) -> None:
    found = parameters(url)
    assert {name: found[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("postgresql://u:pa@ss@h/db", "@ is %40"),
        ("postgresql://u:pa/ss@h/db", "/ is %2F"),
        ("postgresql://u:100%@h/db", "% is %25"),
        ("postgresql://u:p w@h/db", "a blank is %20"),
        ("postgresql://u:p@h/db?schema=hunter2", "no connection option schema"),
        ("postgresql://u:p@h/db?ssl_mode=hunter2", "no connection option ssl_mode"),
        ("postgresql://h/db?pgbouncer=true", "PROVISION_DATABASE_POOLED=true"),
        ("postgresql://h/db?host=h1&host=h2", "`host` more than once"),
        ("postgresql://u:p@h:hunter2/db", "look at the host, the port"),
        ("mysql://u:hunter2@h/db", "not a PostgreSQL URL"),
        ("host=h password=hunter2", "not a PostgreSQL URL"),
        ("", "not a PostgreSQL URL"),
    ],
)
@pytest.mark.guarantee(
    fault="a bare @ in the password, an option of another driver (G15)",
    holds="the fault is named, and no value of the URL is",
    guard="without the look for what must be encoded, the @ passes and the host is `ss@h`",
)
def test_what_is_wrong_is_named_without_a_value(url: str, said: str) -> None:
    with pytest.raises(ValueError, match=r"(?s).") as caught:
        parameters(url)
    assert said in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_the_options_of_the_environment_stay_and_ours_win(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGOPTIONS", "-c search_path=shop -c lock_timeout=5min")
    options = parameters_of("postgresql://u@h/db")["options"]
    assert options.startswith("-c search_path=shop -c lock_timeout=5min -c ")
    assert options.rindex(f"lock_timeout={SESSION['lock_timeout']}") > options.index("5min")
    own = parameters_of("postgresql://u@h/db?options=-csearch_path%3Dmine")["options"]
    assert own.startswith("-csearch_path=mine -c ")


def test_a_pooler_and_options_in_the_url_exclude_each_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PROVISION_DATABASE_URL", "postgresql://u@h/db?options=-cjit%3Doff")
    monkeypatch.setenv("PROVISION_DATABASE_POOLED", "true")
    settings.cache_clear()
    with pytest.raises(SettingsInvalid, match=r"DATABASE_POOLED: .*`options`"):
        settings()
    settings.cache_clear()


@example_settings(deadline=None)
@given(password=PASSWORDS, more=st.sampled_from(["", "?schema=x", "?sslmode=require", ":5432"]))
@pytest.mark.guarantee(
    fault="any password in PROVISION_DATABASE_URL, encoded or not",
    holds="no part of it in any message, representation or exception",
    guard="with the options named as they stand in the URL, a password in them is in the message",
)
def test_no_part_of_a_password_is_ever_shown(password: str, more: str) -> None:
    for url in (
        f"postgresql://u:{password}@h/db{more}",
        f"postgresql://{password}@h{more}",
        f"postgresql://u:{password}/db{more}",
        f"postgresql://h/db?password={password}",
        f"postgresql://h/db?{password}=x",
        f"{password}://h",
    ):
        try:
            with pytest.MonkeyPatch.context() as environment:
                environment.setenv("PROVISION_DATABASE_URL", url.replace("\x00", "%00"))
                settings.cache_clear()
                shown = repr(settings())
        except SettingsInvalid as error:
            shown = f"{error!r} {error.__cause__!r} {vars(error)}"
        assert not set(shown) & set(MARKS)


@pytest.mark.parametrize("password", ["Ж%40字", "Я字", "Ж:Я#字"])
async def test_no_part_of_it_is_shown_when_the_connection_fails(
    password: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    async with database(f"postgresql://u:{password}@127.0.0.1:1/db") as engine:
        with pytest.raises(DatabaseError) as caught:
            await autocommit(engine).__aenter__()
    held: Any = (str(caught.value), vars(caught.value), caplog.text, repr(engine), engine.url)
    assert not set(repr(held)) & set(MARKS)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("postgresql://u:p@db.internal/shop", "shop on db.internal"),
        ("postgresql+asyncpg://u:p@db.internal:6432/shop", "shop on db.internal:6432"),
        ("postgresql://u@h1:5432,h2:5433/shop", "shop on h1:5432, h2:5433"),
        ("postgresql://h1,h2/shop?port=6432", "shop on h1:6432, h2:6432"),
        ("postgresql://u@[::1]:5433/shop", "shop on [::1]:5433"),
        ("postgresql://u@/shop?host=/var/run/postgresql", "shop on the socket /var/run/postgresql"),
        ("postgresql:///shop?hostaddr=10.0.0.1", "shop on 10.0.0.1"),
        ("postgresql:///shop", "shop on the default host"),
        ("postgresql://u:p@h", "the default database on h"),
        ("postgresql://h/a%0Ab", "a b on h"),
    ],
)
def test_a_database_is_shown_by_its_host_and_its_name(url: str, said: str) -> None:
    assert shown(url) == said


@given(user=PASSWORDS, password=PASSWORDS)
@pytest.mark.guarantee(
    fault="any user and any password in the URL of the database",
    holds="what a report and a run's message say of the database is the same without them",
    guard="with the user before the name of the database, it is shown",
)
def test_no_part_of_a_user_or_a_password_is_shown(user: str, password: str) -> None:
    name, secret = (quote(text.replace("\x00", ""), safe="") or "x" for text in (user, password))
    for url in (
        f"postgresql://{name}:{secret}@h:5433/shop",
        f"postgresql://h:5433/shop?user={name}&password={secret}",
    ):
        assert shown(url) == "shop on h:5433"
