from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(sys.executable).with_name("vllm-observe")


def install(folder):
    return subprocess.run([PROGRAM, "install-plugin", folder], capture_output=True, text=True, check=False)


def test_the_folder_on_pythonpath_gives_the_middleware_and_the_entry_point(tmp_path):
    folder = tmp_path / "new" / "folder"
    done = install(folder)
    assert done.returncode == 0
    assert f"PYTHONPATH={folder} vllm serve" in done.stdout
    program = (
        "from importlib import metadata\n"
        "from vllm_observe.plugin import RequestLogMiddleware\n"
        "(point,) = metadata.entry_points(group='vllm.stat_logger_plugins')\n"
        "print(RequestLogMiddleware.__module__, point.value)\n"
    )
    # Without site-packages, so that what is installed there does not help.
    loaded = subprocess.run(
        [sys.executable, "-S", "-c", program],
        env={"PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    assert loaded.stdout.split() == [
        "vllm_observe.plugin.middleware",
        "vllm_observe.plugin.stat_logger:EngineRecordLogger",
    ]


def test_an_older_plugin_gives_way_and_what_is_not_ours_stays(tmp_path):
    (tmp_path / "other.py").touch()
    (tmp_path / "vllm_observe" / "plugin").mkdir(parents=True)
    (tmp_path / "vllm_observe" / "plugin" / "old.py").touch()
    (tmp_path / "vllm_observe-0.0.1.dist-info").mkdir()
    assert install(tmp_path).returncode == 0
    assert install(tmp_path).returncode == 0
    assert (tmp_path / "other.py").exists()
    assert not (tmp_path / "vllm_observe" / "plugin" / "old.py").exists()
    names = sorted(path.name for path in tmp_path.iterdir())
    assert len([name for name in names if name.endswith(".dist-info")]) == 1
    assert len(names) == 3


@pytest.mark.parametrize("kind", ["whole package", "file"])
def test_a_folder_that_cannot_be_used_is_one_line_and_exit_code_2(tmp_path, kind):
    folder = tmp_path / "folder"
    if kind == "file":
        folder.touch()
    else:
        (folder / "vllm_observe" / "cli").mkdir(parents=True)
    done = install(folder)
    assert done.returncode == 2
    assert done.stderr.startswith("vllm-observe: DIR: ")
    assert done.stderr.count("\n") == 1
    assert (folder / "vllm_observe" / "cli").exists() == (kind != "file")


@pytest.mark.parametrize(
    "file",
    ["vllm_observe/notes.txt", "vllm_observe/mine.py", "vllm_observe/plugin/data.json", "vllm_observe/a/b.py",
     "vllm_observe/plugin/deep/x.py", "vllm_observe"],
)  # fmt: skip
def test_a_package_with_somebody_elses_files_is_refused_and_left_whole(tmp_path, file):
    foreign = tmp_path / file
    foreign.parent.mkdir(parents=True, exist_ok=True)
    foreign.write_text("mine")
    done = install(tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("vllm-observe: DIR: ")
    assert "vllm_observe" in done.stderr
    assert done.stderr.count("\n") == 1
    assert foreign.read_text() == "mine"


def test_a_package_that_is_a_link_is_refused_and_what_it_means_left_whole(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "__init__.py").touch()
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "vllm_observe").symlink_to(tmp_path / "elsewhere")
    assert install(folder).returncode == 2
    assert (tmp_path / "elsewhere" / "__init__.py").exists()


def test_a_plugin_that_was_run_is_replaced(tmp_path):
    assert install(tmp_path).returncode == 0
    cache = tmp_path / "vllm_observe" / "plugin" / "__pycache__"
    cache.mkdir()
    (cache / "writer.cpython-312.pyc").touch()
    assert install(tmp_path).returncode == 0
    assert not cache.exists()
