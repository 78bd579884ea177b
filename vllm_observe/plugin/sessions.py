"""The session that vLLM itself finds for a request, from 0.28 on: in the body, a header, or its arguments.

Only vLLM parses the body, so its own finding is noted on the way, in the request's state.
"""

from __future__ import annotations

import functools
import inspect
import sys
from typing import Any

from vllm_observe.plugin.fuse import Fuse
from vllm_observe.plugin.say import logger

__all__ = ["SESSION", "note_sessions"]

#: The key in a request's state under which the session is noted.
SESSION = "vllm_observe_session"

_MODULE = "vllm.entrypoints.generate.base.serving"
_CLASS = "GenerateBaseServing"
_FINDS = "_get_session_id"


def note_sessions(fuse: Fuse) -> None:
    """Have vLLM's findings noted; where this release finds none, the header has to do.

    Only a module that vLLM has loaded is looked at: the server is complete when this is called.
    """
    owner = getattr(sys.modules.get(_MODULE), _CLASS, None)
    found = inspect.getattr_static(owner, _FINDS, None) if owner is not None else None
    if not isinstance(found, staticmethod):
        logger.info("vllm-observe takes sessions from the header: this vLLM finds none in the body")
        return
    find = found.__func__
    if getattr(find, SESSION, False):
        return

    @functools.wraps(find)
    def noting(*arguments: Any, **named: Any) -> Any:
        session = find(*arguments, **named)
        fuse.run(_note, session, [*arguments, *named.values()])
        return session

    setattr(noting, SESSION, True)
    setattr(owner, _FINDS, staticmethod(noting))


def _note(session: object, arguments: list[object]) -> None:
    for argument in arguments:
        scope = getattr(argument, "scope", None)
        if isinstance(scope, dict):
            scope.setdefault("state", {})[SESSION] = session
