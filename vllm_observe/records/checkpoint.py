"""How far the logs were read, kept in a file: a sidecar that starts again goes on there."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from vllm_observe.errors import ConfigError
from vllm_observe.logs import EventLog
from vllm_observe.records.position import Positions

__all__ = ["Checkpoint"]

_MOST_BYTES = 64 * 1024 * 1024

_log = EventLog("records")


class Checkpoint:
    """The file that holds the positions. It is replaced as a whole, so a crash leaves the old or the new.

    Args:
        path: the file; its folder must be there.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._failed = False

    def load(self) -> Positions | None:
        """Return what was kept; ``None`` where nothing was, or where it cannot be understood.

        Raises:
            ConfigError: the file cannot be read though it is there, or its folder is missing.
        """
        if not self._path.parent.is_dir():
            raise ConfigError(f"checkpoint_file (--checkpoint-file): {self._path.parent} is no folder")
        try:
            with self._path.open("rb") as file:
                return msgspec.json.decode(file.read(_MOST_BYTES), type=Positions)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ConfigError(
                f"checkpoint_file (--checkpoint-file): cannot read {self._path}: {error.strerror}"
            ) from None
        except (msgspec.MsgspecError, ValueError, RecursionError):
            _log.warning(
                "checkpoint is damaged: the logs are read as at the first start", path=str(self._path)
            )
            return None

    def save(self, positions: Positions) -> None:
        """Keep positions; what stands in the way is told once, and tried again the next time."""
        new = self._path.with_name(self._path.name + ".new")
        try:
            with new.open("wb") as file:
                file.write(msgspec.json.encode(positions))
                file.flush()
                os.fsync(file.fileno())
            new.replace(self._path)
        except OSError as error:
            if not self._failed:
                _log.warning("checkpoint not written", path=str(self._path), error=error.strerror)
            self._failed = True
        else:
            self._failed = False
