"""The settings of the embedded PostgreSQL, and TCP."""

from __future__ import annotations

import stat
import subprocess
from pathlib import Path

import pytest

from stafette.database.embedded import EmbeddedPostgres
from tests.support.embedded_servers import Make, assert_settings_apply, query, query_at

# Settings


@pytest.mark.parametrize("setting", ["fsync", "synchronous_commit", "full_page_writes", "data_checksums"])
def test_what_is_committed_is_on_disk(running: EmbeddedPostgres, setting: str) -> None:
    assert query(running, f"SHOW {setting}") == "on"


def test_every_setting_is_known_and_applied(running: EmbeddedPostgres) -> None:
    assert_settings_apply(running)


def test_text_is_utf8_and_sorted_alike_everywhere(running: EmbeddedPostgres) -> None:
    columns = "pg_encoding_to_char(encoding), datcollate"
    assert query(running, f"SELECT {columns} FROM pg_database WHERE datname = 'stafette'") == "UTF8|C"


def test_an_idle_server_has_one_database_to_look_after(running: EmbeddedPostgres) -> None:
    with_counters = "SELECT datname FROM pg_database WHERE pg_stat_have_stats('database', oid, 0)"
    assert query(running, with_counters) == "stafette"


# TCP


def test_without_asking_there_is_no_tcp(running: EmbeddedPostgres) -> None:
    assert running.tcp_url is None
    assert query(running, "SHOW listen_addresses") == ""
    assert query(running, "SELECT DISTINCT type FROM pg_hba_file_rules") == "local"


def test_tcp_asks_for_the_password(make: Make) -> None:
    server = make(tcp=True)
    server.start()
    url = server.tcp_url
    assert url is not None
    assert query_at(server, url, "SELECT host(inet_server_addr())") == "127.0.0.1"

    password = server.data / "postgres.password"
    assert stat.S_IMODE(password.stat().st_mode) == 0o600
    with pytest.raises(subprocess.CalledProcessError) as refused:
        query_at(server, url.replace(password.read_text(), "wrong"), "SELECT 1")
    assert "password authentication failed" in refused.value.stderr


def test_tcp_can_be_given_up_again(make: Make) -> None:
    server = make(tcp=True)
    server.start()
    server.stop()
    without = make()
    without.start()
    test_without_asking_there_is_no_tcp(without)


@pytest.mark.parametrize("tcp", [False, True])
def test_a_base_backup_can_be_taken(make: Make, tmp_path: Path, tcp: bool) -> None:
    server = make(tcp=tcp)
    server.start()
    url, copy = server.tcp_url or server.url, tmp_path / "copy"
    command = [str(server.bin("pg_basebackup")), "--dbname", url, "--pgdata", str(copy), "--checkpoint", "fast"]
    subprocess.run(command, check=True, capture_output=True)
    assert (copy / "backup_label").exists()
