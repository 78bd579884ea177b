"""The names that rotation gives to a log: ``app.log`` becomes ``app.log.1`` or ``old/app-20260302.log.gz``."""

from __future__ import annotations

import re

__all__ = ["keeps_rotations", "log_of"]

#: What compressing puts behind a name. Most of it cannot be read, which is to be told.
_PACKERS = r"(?:gz|bz2|br|lz4|lzma|xz|zip|zst|Z)"
_PACKED = rf"(?:\.{_PACKERS})?"
#: What rotation adds to a name: one mark or several. Each begins with what parts it from the one before,
#: and holds none of that itself, so that a name is split in one way only.
_PART = r"[.\-_]+"
_MARK = rf"{_PART}(?:old|\d[\dTZ:+]*)"
_DATE = r"(?:(?:19|20)\d\d(?:[.\-_]?\d\d){2}|(?:19|20)\d\d[.\-_]\d\d|\d\d[.\-_]\d\d[.\-_](?:19|20)\d\d)"

#: Any marks may stand behind the name. Before its extension a number often says something else, such as
#: the port of another server: there it has a dot before it and, unlike a port, three digits at most.
_NAMES = (
    re.compile(rf"(?P<log>.+?)(?:{_MARK})+{_PACKED}", re.DOTALL),
    re.compile(
        rf"(?P<log>.+?)(?:{_PART}{_DATE}[\dTZ:+]*(?:{_MARK})*|\.\d{{1,3}}|{_PART}old)"
        rf"(?P<extension>\.(?!{_PACKERS}\Z)[^\W\d]\w*){_PACKED}",
        re.DOTALL,
    ),
)
_FOLDER = re.compile(r"(?:old|archived?|archives|backups?|rotated|(?:19|20)\d\d-\d\d(?:-\d\d)?)")


def log_of(name: str) -> set[str]:
    """Say of which logs a file with this name may be a rotation; none where it cannot be one."""
    found = (pattern.fullmatch(name) for pattern in _NAMES)
    return {"".join(match.groups()) for match in found if match}


def keeps_rotations(folder: str) -> bool:
    """Say whether the rotations of the logs beside it may lie in a folder with this name."""
    return _FOLDER.fullmatch(folder) is not None
