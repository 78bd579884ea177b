"""What goes wrong with files: a store says so once, counts it, and goes on as soon as it can."""

from __future__ import annotations

import contextlib
import logging
import os
import resource
import shutil
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from support.stores import NOW, listed, open_store, put, request
from vllm_observe.clock import ManualClock
from vllm_observe.errors import ConfigError, StoreError
from vllm_observe.records.position import Positions
from vllm_observe.store import database, schema, sqlite, sqlite_reader
from vllm_observe.store.protocol import Progress, RequestFilter
from vllm_observe.store.sqlite_reader import SqliteReader

DATA = Path(__file__).parent.parent / "data" / "store"


@pytest.fixture
def clock():
    return ManualClock(wall=NOW)


@pytest.fixture
def full_disk():
    """Have the system refuse every byte beyond so many of any file, as long as the block lasts."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill(most: int) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, before[1]))

    yield fill
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def events(caplog) -> list[str]:
    return [record.getMessage() for record in caplog.records]


# --- No room -------------------------------------------------------------------------------------


def test_what_a_full_disk_refuses_is_written_when_there_is_room(path, clock, caplog, full_disk):
    store = open_store(path, clock=clock)
    put(store, request("before"))
    full_disk(path.stat().st_size)
    for number in range(5):
        put(store, *(request(f"{number}-{again}") for again in range(100)))
        clock.advance(60)
    assert listed(store) == ["before"]
    assert store.errors == 5
    full_disk(resource.RLIM_INFINITY)
    store.flush()
    assert len(listed(store)) == 501
    assert (store.rows, store.dropped) == (501, 0)
    assert events(caplog) == ["store cannot be used"]
    store.close()


def test_what_waits_for_a_full_disk_is_bounded_and_the_oldest_goes(path, clock, full_disk, monkeypatch):
    monkeypatch.setattr(sqlite, "MOST_UNWRITTEN", 500)
    store = open_store(path, clock=clock)
    full_disk(path.stat().st_size)
    store.add([request(str(number), start=number) for number in range(507)])
    store.flush()
    assert store.dropped == 7
    full_disk(resource.RLIM_INFINITY)
    clock.advance(60)
    store.flush()
    assert store.rows == 500
    assert listed(store, until=NOW - 100_000 + 4 + 8)[-1] == "7"
    store.close()


def test_requests_and_progress_are_refused_together(path, clock, full_disk):
    store = open_store(path, clock=clock)
    full_disk(path.stat().st_size)
    progress = Progress(positions=Positions(sources=("/a",), files=()))
    store.add([request(str(number)) for number in range(1000)], progress)
    store.flush()
    full_disk(resource.RLIM_INFINITY)
    other = sqlite3.connect(path)
    assert other.execute("SELECT count(*) FROM request").fetchone() == (0,)
    assert other.execute("SELECT count(*) FROM progress").fetchone() == (0,)
    clock.advance(60)
    store.flush()
    assert other.execute("SELECT count(*) FROM request").fetchone() == (1000,)
    assert other.execute("SELECT count(*) FROM progress").fetchone() == (2,)
    other.close()
    store.close()


def test_a_disk_that_takes_nothing_is_tried_again_with_longer_waits(path, clock, full_disk):
    store = open_store(path, clock=clock)
    full_disk(1)
    store.add([request("a")])
    for _ in range(240):
        clock.advance(0.5)
        store.flush()
    # After 1, 2, 4, 8, 16 s and then every 30: 7 or 8 in two minutes.
    assert 7 <= store.errors <= 9
    full_disk(resource.RLIM_INFINITY)
    store.close()
    assert listed(store) == ["a"]


def test_a_store_that_another_holds_locked_waits(path, clock, monkeypatch):
    monkeypatch.setattr(database, "_BUSY_S", 0.05)
    store = open_store(path, clock=clock)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    put(store, request("a"))
    assert store.errors == 1
    other.execute("ROLLBACK")
    other.close()
    clock.advance(60)
    store.flush()
    assert listed(store) == ["a"]
    store.close()


# --- Damage --------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", [b"\0" * 8192, b"SQLite format 3\0" + os.urandom(5000)])
def test_a_damaged_file_is_set_aside_and_another_one_begun(path, clock, caplog, content):
    path.write_bytes(content)
    store = open_store(path, clock=clock)
    assert store.resume() is None
    put(store, request("a"))
    assert listed(store) == ["a"]
    assert path.with_name("requests.db.damaged").read_bytes() == content
    assert events(caplog).count("store was damaged: set aside, and begun anew") == 1
    store.close()


def test_damage_amid_the_file_is_noticed_when_it_is_met(path, clock):
    store = open_store(path, clock=clock)
    put(store, *(request(str(number)) for number in range(3000)))
    store.close()
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(os.urandom(path.stat().st_size - 4096))
    store = open_store(path, clock=clock)
    for number in range(3):
        put(store, request(f"after-{number}"))
        clock.advance(60)
    assert sorted(listed(store)) == ["after-0", "after-1", "after-2"]
    assert store.errors >= 1
    assert path.with_name("requests.db.damaged").exists()
    store.close()


def test_a_file_that_was_deleted_is_begun_anew(path, clock):
    store = open_store(path, clock=clock)
    put(store, request("a"))
    for part in path.parent.glob("requests.db*"):
        part.unlink()
    put(store, request("b"))
    assert listed(SqliteReader(path)) == ["b"]
    assert store.errors == 1
    store.close()


@pytest.fixture
def grown(path, clock):
    """A store that is open, and larger than its write-ahead log."""
    opened = open_store(path, clock=clock)
    for batch in range(5):
        put(opened, *(request(f"{batch}-{number}", session_id="s") for number in range(1000)))
    assert path.stat().st_size > 1_000_000
    yield opened
    opened.close()


def overwrite(path):
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(os.urandom(path.stat().st_size - 4096))


def halve(path):
    os.truncate(path, path.stat().st_size // 2)


def empty(path):
    os.truncate(path, 0)


@pytest.mark.parametrize("hurt", [overwrite, halve, empty])
def test_damage_to_an_open_file_is_noticed_when_somebody_asks(path, clock, grown, caplog, hurt):
    hurt(path)
    for number in range(3):
        with contextlib.suppress(StoreError):
            listed(grown)
        put(grown, request(f"after-{number}"))
        clock.advance(60)
    assert "after-2" in listed(grown)
    assert not [name for name in listed(grown) if "after" not in name]
    assert path.with_name("requests.db.damaged").exists()
    assert events(caplog) == ["store cannot be used", "store was damaged: set aside, and begun anew"]


@pytest.mark.parametrize("suffixes", [["-wal"], ["-shm"], ["-wal", "-shm"]])
def test_nothing_is_lost_with_a_file_of_sqlites_that_was_deleted(path, grown, caplog, suffixes):
    for suffix in suffixes:
        path.with_name(path.name + suffix).unlink()
    put(grown, request("after"))
    assert len(listed(SqliteReader(path))) == 5001
    assert (grown.rows, grown.errors) == (5001, 1)
    assert events(caplog) == ["store's file was deleted or replaced: the store is opened again"]
    put(grown, request("later"))
    assert grown.errors == 1


def test_a_file_that_was_moved_away_is_whole_and_another_one_is_begun(path, grown, caplog):
    moved = path.rename(path.with_name("moved.db"))
    put(grown, request("after"))
    assert listed(SqliteReader(path)) == ["after"]
    assert len(listed(SqliteReader(moved))) == 5000
    assert events(caplog) == ["store's file was deleted or replaced: the store is opened again"]


def test_a_store_that_was_put_in_its_place_is_gone_on_with_and_not_mixed_with_the_old_one(
    path, grown, tmp_path
):
    other = open_store(tmp_path / "backup.db")
    put(other, request("backup"))
    other.close()
    (tmp_path / "backup.db").replace(path)
    put(grown, request("after"))
    assert sorted(listed(SqliteReader(path))) == ["after", "backup"]
    with contextlib.closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo])
def test_what_is_no_file_in_its_place_is_waited_for(path, clock, grown, make):
    path.unlink()
    make(path)
    put(grown, request("a"))
    assert grown.rows is None
    path.rmdir() if path.is_dir() else path.unlink()
    clock.advance(60)
    grown.flush()
    assert listed(grown) == ["a"]
    assert grown.dropped == 0


def test_a_folder_that_was_deleted_is_waited_for(tmp_path, clock):
    path = tmp_path / "folder" / "requests.db"
    path.parent.mkdir()
    store = open_store(path, clock=clock)
    shutil.rmtree(path.parent)
    put(store, request("a"))
    assert store.rows is None
    path.parent.mkdir()
    clock.advance(60)
    store.flush()
    assert listed(store) == ["a"]
    store.close()


# --- Others' files -------------------------------------------------------------------------------


def nothing(path):
    """Leave it as it is."""


def link_to_a_folder(path):
    path.symlink_to(path.parent)


def text(path):
    path.write_bytes(b"this is no database\n" * 500)


@pytest.mark.parametrize(
    ("name", "make", "why"),
    [
        ("none/requests.db", nothing, "none is no folder"),
        ("requests.db", Path.mkdir, "is no file"),
        ("requests.db", link_to_a_folder, "is no file"),
        ("requests.db", os.mkfifo, "is no file"),
        ("requests.db", text, "is no SQLite file"),
        ("a" * 300, nothing, "File name too long"),
        ("a\0b", nothing, "is no path"),
    ],
)
def test_what_can_be_no_store_is_refused_and_left_as_it_is(tmp_path, name, make, why):
    path = tmp_path / name
    make(path)
    before = sorted(tmp_path.iterdir()), path.read_bytes() if make is text else b""
    with pytest.raises(ConfigError, match=rf"^store \(--store\): .*{why}"):
        open_store(path)
    assert (sorted(tmp_path.iterdir()), path.read_bytes() if make is text else b"") == before


def test_a_folder_that_may_not_be_written_is_refused(path, monkeypatch):
    # The tests may run as root, who may write everywhere.
    monkeypatch.setattr(os, "access", lambda asked, _: asked != path.parent)
    with pytest.raises(ConfigError, match="is not writable"):
        open_store(path)


def test_another_programs_database_is_left_alone(path):
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE cookies (name TEXT)")
    other.commit()
    other.close()
    with pytest.raises(ConfigError, match="another program's"):
        open_store(path)
    with pytest.raises(StoreError, match="is no store"):
        SqliteReader(path).requests(RequestFilter())


@pytest.mark.usefixtures("store")
def test_a_second_sidecar_on_the_same_file_is_refused(path):
    with pytest.raises(ConfigError, match="another sidecar writes to"):
        open_store(path)


def test_no_file_that_somebody_deletes_lets_a_second_sidecar_write_to_the_same_store(path, clock):
    first = open_store(path, clock=clock)
    put(first, request("a"))
    for beside in [file for file in path.parent.iterdir() if file != path]:
        beside.unlink()
    with pytest.raises(ConfigError, match="another sidecar writes to"):
        open_store(path)
    put(first, request("b"))
    path.unlink()  # now there is none to lock, and whoever comes first has the new one
    second = open_store(path)
    put(second, request("c"))
    put(first, request("d"))
    assert (first.rows, first.errors) == (None, 3)
    put(second, request("e"))
    assert sorted(listed(SqliteReader(path))) == ["c", "e"]
    second.close()
    clock.advance(60)
    first.flush()
    assert sorted(listed(SqliteReader(path))) == ["c", "d", "e"]
    first.close()


def test_a_lock_ends_with_its_process_however_that_ends(path):
    program = (
        "import os, signal, sys; sys.path.insert(0, sys.argv[1])\n"
        "from pathlib import Path\n"
        "from support.stores import open_store, put, request\n"
        "put(open_store(Path(sys.argv[2])), request('a'))\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    tests = str(Path(__file__).parent.parent)
    killed = subprocess.run([sys.executable, "-c", program, tests, str(path)], check=False)
    assert killed.returncode == -9
    store = open_store(path)
    assert listed(store) == ["a"]
    store.close()


# --- Versions ------------------------------------------------------------------------------------


def dumped(name: str, path: Path) -> None:
    """Make a file of what ``sqlite3 FILE .dump`` wrote of one, with the version that its name says."""
    made = sqlite3.connect(path)
    made.executescript((DATA / f"{name}.sql").read_text())
    made.close()


def version_of(path: Path) -> int:
    connection = sqlite3.connect(path)
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    connection.close()
    return version


def test_a_file_of_version_1_is_read_and_written(path):
    dumped("version-1", path)
    store = open_store(path)
    put(store, request("new"))
    assert sorted(listed(store)) == ["chatcmpl-orphan", "new", "old"]
    assert [one.request_id for one in store.request("orphan")] == ["chatcmpl-orphan"]
    resumed = store.resume()
    assert resumed is not None
    assert [record.request_id for record in resumed.waiting] == ["waits"]
    store.close()


def test_a_file_of_version_1_answers_the_same_before_and_after_a_writer_made_it_one_of_today(path):
    dumped("version-1", path)
    reader = SqliteReader(path)
    before = listed(reader), reader.request("old"), reader.sessions(RequestFilter())
    assert [(one.session_id, one.prompt_tokens) for one in before[-1].sessions] == [("s", 10)]
    assert version_of(path) == 1  # who reads writes nothing
    open_store(path).close()
    assert version_of(path) == 2
    assert (listed(reader), reader.request("old"), reader.sessions(RequestFilter())) == before


def test_a_file_that_a_writer_made_one_of_today_is_as_one_that_was_begun_today(path, tmp_path):
    def made(file: Path) -> set[str]:
        open_store(file).close()
        connection = sqlite3.connect(file)
        statements = connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
        connection.close()
        return {statement for (statement,) in statements}

    dumped("version-1", path)
    assert made(path) == made(tmp_path / "begun.db")


def test_a_file_of_version_1_is_read_as_it_is_while_there_is_no_room_to_change_it(path, clock, full_disk):
    old = open_store(path, migrations=schema.MIGRATIONS[:1])
    put(old, *(request(str(number), session_id=f"s{number}") for number in range(1000)))
    old.close()
    full_disk(32 * 1024)  # enough for the memory that readers share, but not for a new index
    store = open_store(path, clock=clock)
    assert (store.rows, store.errors) == (None, 1)
    assert len(listed(store)) == len(store.sessions(RequestFilter(), limit=1000).sessions) == 1000
    assert version_of(path) == 1
    full_disk(resource.RLIM_INFINITY)
    clock.advance(60)
    put(store, request("new"))
    assert (store.rows, version_of(path)) == (1001, 2)
    store.close()


def test_a_file_of_a_version_that_is_not_read_any_more_is_told(path, monkeypatch):
    dumped("version-1", path)
    monkeypatch.setattr(sqlite_reader, "OLDEST_READ", 2)
    with pytest.raises(StoreError, match="of version 1, not 2: start a sidecar on it once"):
        SqliteReader(path).requests(RequestFilter())


def test_a_file_of_version_1_becomes_one_of_each_version_that_follows(path):
    dumped("version-1", path)
    tenants = "ALTER TABLE request ADD COLUMN tenant TEXT; UPDATE request SET tenant = 'everybody';"
    store = open_store(path, migrations=(*schema.MIGRATIONS, tenants))
    store.close()
    migrated = sqlite3.connect(path)
    assert migrated.execute("SELECT DISTINCT tenant FROM request").fetchall() == [("everybody",)]
    migrated.close()
    assert version_of(path) == len(schema.MIGRATIONS) + 1


def test_a_migration_that_fails_leaves_the_file_as_it_was(path, clock):
    dumped("version-1", path)
    broken = "ALTER TABLE request ADD COLUMN tenant TEXT; UPDATE nothing SET tenant = 'everybody';"
    store = open_store(path, clock=clock, migrations=(*schema.MIGRATIONS[:1], broken))
    assert (store.rows, store.errors) == (None, 1)
    store.close()
    left = sqlite3.connect(path)
    assert left.execute("PRAGMA user_version").fetchone() == (1,)
    assert "tenant" not in [column[1] for column in left.execute("PRAGMA table_info(request)")]
    left.close()


def test_a_file_of_a_newer_program_is_left_alone(path):
    open_store(path, migrations=(*schema.MIGRATIONS, "CREATE TABLE tenant (name TEXT);")).close()
    before = path.read_bytes()
    with pytest.raises(ConfigError, match="update this program"):
        open_store(path)
    assert path.read_bytes() == before
    with pytest.raises(StoreError, match="of version 3, not 2: update this program"):
        SqliteReader(path).requests(RequestFilter())


def test_trouble_is_told_without_what_is_stored(path, clock, caplog, full_disk):
    store = open_store(path, clock=clock)
    full_disk(1)
    with caplog.at_level(logging.DEBUG):
        put(store, request("secret-id"))
    assert "secret-id" not in caplog.text
    full_disk(resource.RLIM_INFINITY)
    store.close()


@pytest.mark.parametrize("column", ["cause", "outcome"])
def test_a_word_of_a_later_release_is_told_and_ends_no_question_otherwise(path, clock, column):
    store = open_store(path, clock=clock)
    put(store, request("a", session_id="s1"))
    with sqlite3.connect(path) as connection:
        connection.execute(f"UPDATE request SET {column} = 'cosmic_rays'")
    with pytest.raises(StoreError, match="does not understand"):
        store.sessions(RequestFilter())
    store.close()


def test_requests_gather_within_the_bound_while_a_write_does_not_return(path, clock, monkeypatch):
    store = open_store(path, clock=clock)
    hangs, goes_on = threading.Event(), threading.Event()
    write = database.Database.write

    def hang(*args):
        hangs.set()
        assert goes_on.wait(20)
        write(*args)

    monkeypatch.setattr(database.Database, "write", hang)
    store.add([request("first")])
    writer = threading.Thread(target=store.flush)
    writer.start()
    assert hangs.wait(20)
    late = request("late")
    store.add([late] * (sqlite.MOST_UNWRITTEN + 1))
    assert store.dropped == 0  # a slow disk loses nothing
    clock.advance(60)
    store.add([late])
    assert store.dropped == 2
    goes_on.set()
    writer.join(20)
    store.flush()
    assert set(listed(store)) == {"late", "first"}
    store.close()
