"""Databases."""

from __future__ import annotations

import dbm.dumb
import shelve
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.loaders.held.kinds import SIZE, VALUES, folder, kind, stored

_SELECT = "SELECT value FROM samples WHERE number = ?"


def _filled(connection: Any) -> Any:
    connection.execute("CREATE TABLE IF NOT EXISTS samples (number INTEGER PRIMARY KEY, value INTEGER)")
    connection.executemany("INSERT OR REPLACE INTO samples VALUES (?, ?)", list(enumerate(VALUES)))
    connection.commit()
    return connection


def _database(path: Path) -> None:
    _filled(sqlite3.connect(path)).close()


def _selected(connection: Any, index: int) -> int:
    return int(connection.execute(_SELECT, (index,)).fetchone()[0])


@kind()
def sqlite_file():
    return sqlite3.connect(stored("data.db", _database)), _selected


@kind()
def sqlite_read_only():
    return sqlite3.connect(f"file:{stored('data.db', _database)}?mode=ro", uri=True), _selected


@kind()
def sqlite_in_memory():
    return _filled(sqlite3.connect(":memory:")), _selected


@kind()
def sqlite_shared_cache():
    held = [sqlite3.connect("file:held?mode=memory&cache=shared", uri=True) for _ in range(2)]
    _filled(held[0])
    return held, lambda held, index: _selected(held[1], index)


@kind(anew="shared memory")
def sqlite_write_ahead():
    connection = sqlite3.connect(folder() / "wal.db")
    connection.execute("PRAGMA journal_mode=WAL")
    return _filled(connection), _selected


@kind(workers=0, anew="lock")
def sqlite_open_transaction():
    connection = _filled(sqlite3.connect(folder() / "open.db"))
    connection.execute("UPDATE samples SET value = value")
    return connection, _selected


@kind(workers=0, anew="lock")
def sqlite_cursor():
    """Reads on from a cursor that the factory has begun to read."""
    cursor = sqlite3.connect(stored("data.db", _database)).execute("SELECT value FROM samples ORDER BY number")
    rows = [cursor.fetchone()]

    def read(cursor: Any, index: int) -> int:
        while len(rows) <= index:
            rows.append(cursor.fetchone())
        return int(rows[index][0])

    return cursor, read


def _keyed(store: Callable[[str], Any]) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        path.mkdir()
        with store(str(path / "data")) as written:
            for index in range(SIZE):
                written[str(index)] = str(VALUES[index])

    return write


@kind(workers=0)
def shelf():
    path = stored("shelf", _keyed(shelve.open))
    return shelve.open(str(path / "data"), "r"), lambda held, index: held[str(index)]


@kind()
def dumb_dbm():
    path = stored("dumb", _keyed(lambda path: dbm.dumb.open(path, "c")))  # noqa: SIM115 - closed by it
    return dbm.dumb.open(str(path / "data"), "r"), lambda held, index: held[str(index)]


_CREATE = "CREATE TABLE samples AS SELECT i::INT AS number, (3 * i + 1)::INT AS value FROM range(24) t(i)"


def _duck(path: Path) -> None:
    import duckdb

    with duckdb.connect(str(path)) as connection:
        connection.execute(_CREATE)


@kind(workers=0, anew="threads", needs="duckdb")
def duckdb_read_only():
    import duckdb

    return duckdb.connect(str(stored("data.duckdb", _duck)), read_only=True), _selected


@kind(workers=0, anew="threads", needs="duckdb")
def duckdb_read_write():
    import duckdb

    return duckdb.connect(str(stored("written.duckdb", _duck))), _selected


@kind(workers=0, anew="threads", needs="duckdb")
def duckdb_in_memory():
    import duckdb

    connection = duckdb.connect()
    connection.execute(_CREATE)
    return connection, _selected


def _environment(path: Path) -> None:
    import lmdb

    with lmdb.open(str(path)) as environment, environment.begin(write=True) as transaction:
        for index in range(SIZE):
            transaction.put(str(index).encode(), str(VALUES[index]).encode())


def _got(environment: Any, index: int) -> bytes:
    with environment.begin() as transaction:
        found: bytes = transaction.get(str(index).encode())
        return found


@kind(anew="shared memory", undecided=True, needs="lmdb")
def lmdb_locked():
    import lmdb

    return lmdb.open(str(stored("lmdb", _environment)), readonly=True), _got


@kind(needs="lmdb")
def lmdb_unlocked():
    import lmdb

    return lmdb.open(str(stored("lmdb", _environment)), readonly=True, lock=False), _got


@kind(workers=0, needs="lmdb")
def lmdb_transaction():
    import lmdb

    environment = lmdb.open(str(stored("lmdb2", _environment)), readonly=True, lock=False)
    return (environment, environment.begin()), lambda held, index: held[1].get(str(index).encode())


@kind(workers=0, anew="shared memory", needs="diskcache")
def disk_cache():
    import diskcache

    cache = diskcache.Cache(str(folder() / "diskcache"))
    for index in range(SIZE):
        cache[index] = VALUES[index]
    return cache, lambda cache, index: cache[index]
