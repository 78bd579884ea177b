"""Request ids: which client ids an engine's id may stand for.

vLLM makes ``0_cmpl-abc-1-9be01f77`` of a client's ``abc``, in part or in whole, by endpoint and by
release. Undoing that blindly is wrong: a UUID ends in hexadecimal digits and a client may itself
send ``cmpl-7-0``. So nothing is cut here; `candidates` lists what could be meant, and only an id
that an edge record brought makes one of them true. Where an endpoint takes several prompts vLLM
adds the prompt's index: most such endpoints always do, so that ``cmpl-abc-0`` never stands for a
client's ``abc-0``; of the others some releases do, and among known ids `indexed` is the one that is meant.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import blake2b

from vllm_observe.model import EdgeRecord, JoinedRequest
from vllm_observe.plugin.names import HEAD, MOST_CHARACTERS, TAIL, is_bounded

__all__ = ["candidates", "indexed", "key", "keys", "uid"]

# What vLLM puts at either end of an id has less characters. Ids beyond a length are shortened in their middle:
# up to that length less both ends an id is whole in all its forms.
_AROUND = 30
_WHOLE = MOST_CHARACTERS - 2 * _AROUND

_NUMBERED = "cmpl|embd|pool|classify"  # these number each prompt, also the only one
_MAY_NUMBER = "score|rerank"
_OTHERS = "chatcmpl|transcribe|translate|trsc|tokn|tokenize|generate-tokens|decision|resp"
_INDEX = "-[0-9]{1,7}"  # of a prompt; eight digits are no index but a random suffix


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text, re.DOTALL)


# What vLLM may put around all that follows; the group is what remains without it.
_CHILD = _pattern(r"[0-9]+_(.*)")  # where n > 1
_RANDOM = _pattern(r"(.*)-[0-9a-f]{8}")  # since 0.14.0, where the engine core speaks
_TURN = _pattern(r"(.*)_[0-9]+")  # of /v1/responses, which puts no word before an id
# The words that other endpoints put before it, the first that fits; the groups are what may have been the
# client's: what it sent, and what it read in the response.
_WORDS = (
    _pattern(r"(?:chat)?cmpl-(.*)-[0-9a-f]{8,32}-beam-[0-9]+"),  # a step of a beam search
    _pattern(rf"((?:{_NUMBERED})-(.*)){_INDEX}"),
    _pattern(rf"(?=[a-z]+-(.*))((?:{_MAY_NUMBER})-(.*)){_INDEX}"),
    _pattern(rf"(?:{_NUMBERED}|{_MAY_NUMBER}|{_OTHERS})-(.*)"),
)
_INDEXED = _pattern(rf"(?:[0-9]+_)?(?:{_NUMBERED}|{_MAY_NUMBER})-(.*){_INDEX}(?:-[0-9a-f]{{8}})?")


def key(request_id: str) -> str:
    """By what an id is told from others: itself, or its ends where that was shortened."""
    return _ends(request_id) if is_bounded(request_id) else request_id


def keys(client_id: str) -> Sequence[str]:
    """List the keys by which a client's id may be meant: its own, and its ends where an engine's id is too long."""
    return (
        [client_id] if len(client_id) <= _WHOLE else list(dict.fromkeys([key(client_id), _ends(client_id)]))
    )


def _ends(text: str) -> str:
    return f"{text[: HEAD - _AROUND]}…{text[_AROUND - TAIL :]}"


def candidates(engine_id: str) -> Sequence[str]:
    """List the ids that an engine's id may stand for, in order of belief.

    The longest comes first, so the id itself: of two ids that are known the one with less cut off is
    meant. Each is given as its `key`.
    """
    stems = [engine_id]
    for around in (_CHILD, _RANDOM):
        stems += [match[1] for match in map(around.fullmatch, stems) if match]
    for stem in list(stems):
        worded = next(filter(None, (word.fullmatch(stem) for word in _WORDS)), None)
        for match in filter(None, (worded, _TURN.fullmatch(stem))):
            stems += match.groups()
    stems.sort(key=len, reverse=True)
    return list(dict.fromkeys(map(_ends, stems) if is_bounded(engine_id) else stems))


def indexed(engine_id: str) -> str | None:
    """Return the id that remains of a prompt's without its index, as its `key`; ``None`` for any other."""
    match = _INDEXED.fullmatch(engine_id)
    return match and (_ends(match[1]) if is_bounded(engine_id) else match[1])


def uid(request: JoinedRequest) -> str:
    """Name one attempt for good, by the record that leads it as its source wrote it.

    An id is no such name: it is sent again, and it may be the engine's until the client's is known.
    """
    lead = (request.edges or request.engines)[0]
    at, common = lead.ts, (lead.request_id, lead.completion_tokens)
    if isinstance(lead, EdgeRecord):
        at += lead.skew_s or 0.0
        name = ascii((*common, round(at, 3), lead.duration_s, lead.ttft_s, lead.status))
    else:
        name = ascii((*common, round(at, 3), lead.e2e_s, lead.queue_s, lead.finish_reason))
    return blake2b(name.encode(), digest_size=12).hexdigest()
