"""The plugin as a folder for PYTHONPATH: its modules, and the metadata by which vLLM finds its stat logger.

The folder holds the plugin alone. The rest of the package needs what a vLLM container may not have.
"""

from __future__ import annotations

import shutil
import tempfile
from importlib import resources
from pathlib import Path

from vllm_observe import __version__
from vllm_observe.errors import ConfigError, VllmObserveError

__all__ = ["ENTRY_POINTS", "write_plugin"]

#: As in pyproject.toml, for who installs the package itself.
ENTRY_POINTS = """\
[vllm.stat_logger_plugins]
vllm_observe = vllm_observe.plugin.stat_logger:EngineRecordLogger
"""
_METADATA = f"Metadata-Version: 2.1\nName: vllm-observe\nVersion: {__version__}\n"


def write_plugin(directory: Path) -> Path:
    """Write the plugin into a folder, over what an older release wrote there; return its absolute path.

    Raises:
        ConfigError: the folder cannot be used: it is a file, or holds a package that is not ours to replace.
        VllmObserveError: it cannot be written.
    """
    folder = directory.absolute()
    package = folder / "vllm_observe"
    if (package / "cli").exists():
        raise ConfigError(f"DIR: {folder} holds the whole of vllm-observe already; name a folder of its own")
    if (foreign := _foreign(package)) is not None:
        raise ConfigError(
            f"DIR: {foreign} is no part of a plugin, and would be lost; name a folder of its own"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=".vllm-observe-") as draft:
            _draft(Path(draft))
            for old in (package, *folder.glob("vllm_observe-*.dist-info")):
                shutil.rmtree(old, ignore_errors=True)
            for new in Path(draft).iterdir():
                new.replace(folder / new.name)
    except (FileExistsError, NotADirectoryError):
        raise ConfigError(f"DIR: {folder} is no folder") from None
    except OSError as error:
        raise VllmObserveError(f"the plugin cannot be written to {folder}: {error.strerror}") from None
    return folder


def _foreign(package: Path) -> Path | None:
    """Return something in a package's folder that no release of the plugin wrote; ``None`` without any."""
    if package.is_symlink() or package.is_file():
        return package
    return next((path for path in sorted(package.rglob("*")) if not _is_ours(path, package)), None)


def _is_ours(path: Path, package: Path) -> bool:
    *folders, name = path.relative_to(package).parts
    if "__pycache__" in (*folders, name):  # Python's own, of whatever was imported
        return not path.is_symlink()
    if path.is_symlink() or folders not in ([], ["plugin"]):
        return False
    if path.is_dir():
        return not folders and name == "plugin"
    return name.endswith(".py") if folders else name == "__init__.py"


def _draft(draft: Path) -> None:
    source = resources.files("vllm_observe")
    plugin = draft / "vllm_observe" / "plugin"
    plugin.mkdir(parents=True)
    (plugin.parent / "__init__.py").write_bytes((source / "__init__.py").read_bytes())
    for module in (source / "plugin").iterdir():
        if module.name.endswith(".py"):
            (plugin / module.name).write_bytes(module.read_bytes())
    metadata = draft / f"vllm_observe-{__version__}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(_METADATA, encoding="utf-8")
    (metadata / "entry_points.txt").write_text(ENTRY_POINTS, encoding="utf-8")
