"""Writing what is rendered from the code, or checking that it is what the code renders."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from vllm_observe.cli.output import write
from vllm_observe.errors import VllmObserveError

__all__ = ["write_or_check"]

#: As much of a file as tells whether it was rendered.
_LINE_BYTES = 200


def write_or_check(
    files: Mapping[str, str], *, output: Path, check: bool, command: str, folders: Iterable[str] = ()
) -> None:
    """Write files into a folder, and name them; or compare them with what is there.

    What this command rendered into those folders before and does not now is removed: Prometheus would go
    on reading it. Its first line tells; files of others stay as they are.

    Args:
        files: their texts by their paths within the folder.
        output: the folder; made if need be.
        check: compare only, and name each file that differs.
        command: what renders them, as their first lines name it.
        folders: those within the folder that hold nothing rendered but these files; ``.`` is itself.

    Raises:
        VllmObserveError: a file differs, is missing, is left over or cannot be written.
    """
    paths = {output / name: text for name, text in files.items()}
    left = [path for path in _rendered(output, folders, command) if path not in paths]
    if check:
        differing = [f"{path}\n" for path, text in paths.items() if _read(path) != text]
        differing += [f"{path} (of an earlier rendering)\n" for path in left]
        if differing:
            write("".join(differing))
            raise VllmObserveError(f"{len(differing)} out of date; run vllm-observe {command}")
        return
    try:
        for path, text in paths.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        for path in left:
            path.unlink()
    except OSError as error:
        raise VllmObserveError(f"--output {output} cannot be written: {error.strerror}") from None
    write("".join([*(f"{path}\n" for path in paths), *(f"removed {path}\n" for path in left)]))


def _rendered(output: Path, folders: Iterable[str], command: str) -> Iterator[Path]:
    """The files in some folders whose first line says that this command rendered them."""
    says = f"Rendered by `vllm-observe {command}`."
    for folder in folders:
        place = output / folder
        for path in sorted(place.iterdir()) if place.is_dir() else ():
            if path.is_file() and says in _first_line(path):
                yield path


def _first_line(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.readline(_LINE_BYTES).decode(errors="replace")
    except OSError:
        return ""


def _read(path: Path) -> str | None:
    """Return a file's text; ``None`` where there is none to read."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
