"""The real logrotate: every line once, whatever it is told to do and whenever it is looked at."""

from __future__ import annotations

import random
import subprocess

import pytest

from support.logs import Followed, write

RULES = {
    "rename": "create",
    "rename, compressed": "create\ncompress",
    "rename, compressed later": "create\ncompress\ndelaycompress",
    "rename, by date": "create\ncompress\ndelaycompress\ndateext\ndateformat -%Y%m%d-%s.{turn}",
    "copy and truncate": "copytruncate",
    "copy and truncate, compressed": "copytruncate\ncompress",
    "copy and truncate, compressed later": "copytruncate\ncompress\ndelaycompress",
}


@pytest.mark.parametrize("pattern", ["app.jsonl", "app.jsonl*"])
@pytest.mark.parametrize("rule", RULES.values(), ids=RULES.keys())
def test_every_line_comes_once(tmp_path, logrotate, rule, pattern):
    folder = tmp_path / "log"
    folder.mkdir(mode=0o755)
    log = folder / "app.jsonl"
    settings = tmp_path / "logrotate.conf"
    followed = Followed(folder / pattern)
    chance = random.Random(f"{rule} {pattern}")
    written: list[str] = []
    seen: list[str] = []

    def rotate(turn: int) -> None:
        settings.write_text(f"{log} {{\nrotate 50\n{rule.format(turn=turn)}\n}}\n", encoding="utf-8")
        settings.chmod(0o644)
        command = [logrotate, "--force", "--state", tmp_path / "state", settings]
        subprocess.run(command, check=True, capture_output=True, timeout=30)

    def write_some() -> None:
        lines = [f"line {len(written) + number} {'x' * chance.randrange(200)}" for number in range(20)]
        write(log, "".join(f"{line}\n" for line in lines))
        written.extend(lines)

    write_some()
    seen += followed.poll()
    for turn in range(8):
        write_some()
        rotate(turn)
        write_some()
        if chance.random() < 0.4:
            followed.restart()
        if chance.random() < 0.6:
            seen += followed.poll()
    for _ in range(5):
        seen += followed.poll()
    assert sorted(seen) == sorted(written)
    followed.restart()
    assert [line for _ in range(5) for line in followed.poll()] == []
    followed.follower.close()
