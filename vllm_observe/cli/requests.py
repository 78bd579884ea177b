"""``vllm-observe requests | sessions | explain``: which request, whose, and why."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vllm_observe.errors import ConfigError, VllmObserveError

if TYPE_CHECKING:
    from vllm_observe.cli.asking import RequestSource

__all__ = ["explain", "requests", "sessions"]

_SIDECAR = "http://127.0.0.1:9810"

_Text = str | None
_Sidecar = Annotated[str, typer.Option(help="A sidecar's --admin-listen address.")]
_Store = Annotated[
    Path | None,
    typer.Option(help="A sidecar's store file: ask it without a sidecar.", exists=True, dir_okay=False),
]
_TokenFile = Annotated[
    Path | None, typer.Option(help="Holds the sidecar's bearer token.", exists=True, dir_okay=False)
]
_CaFile = Annotated[
    Path | None,
    typer.Option(help="Certificates to trust when the sidecar speaks TLS.", exists=True, dir_okay=False),
]
_Json = Annotated[bool, typer.Option("--json", help="Print the admin API's JSON document.")]
_Session = Annotated[_Text, typer.Option("--session", help="Only of this session.")]
_Profile = Annotated[_Text, typer.Option(help="Only of this profile.")]
_Client = Annotated[_Text, typer.Option(help="Only of this client.")]
_Model = Annotated[_Text, typer.Option(help="Only served by this model.")]
_Outcome = Annotated[_Text, typer.Option(help="Only that ended so: ok, error, abort, timeout, rejected.")]
_Cause = Annotated[_Text, typer.Option(help="Only slow or failed for this cause, such as queue_slots.")]
_Slower = Annotated[
    _Text, typer.Option(help="Only that took longer than so: seconds, or a duration such as 100ms or 2m.")
]
_Since = Annotated[
    _Text, typer.Option(help="Only that ended since then: RFC 3339, epoch seconds, or an age such as 15m.")
]
_Until = Annotated[_Text, typer.Option(help="Only that ended before then.")]
_Limit = Annotated[int, typer.Option(min=1, help="How many at most.")]
_Cursor = Annotated[_Text, typer.Option(help="Go on behind a page: its next_cursor.")]


def requests(
    context: typer.Context,
    session_id: _Session = None,
    profile: _Profile = None,
    client: _Client = None,
    model: _Model = None,
    outcome: _Outcome = None,
    cause: _Cause = None,
    slower_than: _Slower = None,
    since: _Since = None,
    until: _Until = None,
    limit: _Limit = 20,
    cursor: _Cursor = None,
    sidecar: _Sidecar = _SIDECAR,
    store: _Store = None,
    token_file: _TokenFile = None,
    ca_file: _CaFile = None,
    as_json: _Json = False,
) -> None:
    """List requests, the newest first: when, whose, how long, how they ended and why."""
    from vllm_observe.cli.look import as_document, as_text
    from vllm_observe.cli.output import write
    from vllm_observe.cli.request_tables import WHOLE_LINE, requests_table

    listed = _asked(context).list_requests(_parameters(context))
    write(as_document(listed, indent=2) if as_json else as_text(requests_table(listed), piped=WHOLE_LINE))


def sessions(
    context: typer.Context,
    session_id: _Session = None,
    profile: _Profile = None,
    client: _Client = None,
    model: _Model = None,
    outcome: _Outcome = None,
    cause: _Cause = None,
    slower_than: _Slower = None,
    since: _Since = None,
    until: _Until = None,
    limit: _Limit = 20,
    cursor: _Cursor = None,
    sidecar: _Sidecar = _SIDECAR,
    store: _Store = None,
    token_file: _TokenFile = None,
    ca_file: _CaFile = None,
    as_json: _Json = False,
) -> None:
    """Sum up sessions, that of the newest request first: requests, tokens, the slowest, the causes."""
    from vllm_observe.cli.look import as_document, as_text
    from vllm_observe.cli.output import write
    from vllm_observe.cli.request_tables import WHOLE_LINE, sessions_table

    listed = _asked(context).list_sessions(_parameters(context))
    write(as_document(listed, indent=2) if as_json else as_text(sessions_table(listed), piped=WHOLE_LINE))


def explain(
    context: typer.Context,
    request_id: Annotated[str, typer.Argument(metavar="ID", help="The X-Request-Id, or vLLM's own id.")],
    sidecar: _Sidecar = _SIDECAR,
    store: _Store = None,
    token_file: _TokenFile = None,
    ca_file: _CaFile = None,
    as_json: _Json = False,
) -> None:
    """Say why a request was slow or failed, and where its time went."""
    from vllm_observe.cli.explanation import explanation
    from vllm_observe.cli.look import as_document, as_text
    from vllm_observe.cli.output import write
    from vllm_observe.cli.words import printable

    found = _asked(context).attempts_of(request_id)
    if found is None:
        raise VllmObserveError(
            f"request {printable(request_id)} is not known: not seen, still in the join (--join-window), "
            "or older than what the store keeps"
        )
    write(as_document(found, indent=2) if as_json else as_text(explanation(found)))


_PARAMETERS = (
    *("session_id", "profile", "client", "model", "outcome", "cause", "slower_than"),
    *("since", "until", "limit", "cursor"),
)


def _parameters(context: typer.Context) -> Mapping[str, str]:
    """What was asked for, by the admin API's names."""
    given = context.params
    return {name: str(given[name]) for name in _PARAMETERS if given[name] is not None}


def _asked(context: typer.Context) -> RequestSource:
    from vllm_observe.cli.asking import SidecarAccess, SidecarRequests, StoreRequests
    from vllm_observe.clock import SystemClock
    from vllm_observe.store.sqlite_reader import SqliteReader

    options = context.params
    source = context.get_parameter_source("sidecar")
    if options["store"] is None:
        access = SidecarAccess(options["sidecar"], options["token_file"], options["ca_file"])
        return SidecarRequests(access, SystemClock())
    if source is not None and source.name == "COMMANDLINE":
        raise ConfigError("--sidecar asks a sidecar and --store a file: give one of the two")
    return StoreRequests(SqliteReader(options["store"]), SystemClock())
