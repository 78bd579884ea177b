"""The rendered JSON through Grafana's own typed models of it: what they do not know, Grafana does not read."""

from __future__ import annotations

import json
import warnings

import pytest
from grafana_foundation_sdk.cog import plugins
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.runtime import panelcfg_config

from support.boards import RENDERED, panels

with warnings.catch_warnings():
    warnings.simplefilter(
        "ignore", DeprecationWarning
    )  # it would rather have the next schema, for Grafana 13
    from grafana_foundation_sdk.models.dashboard import Dashboard

plugins.register_default_plugins()
pytestmark = pytest.mark.parametrize("board", RENDERED.values(), ids=RENDERED)


def missing(ours, theirs, path="board"):
    """Name what of ours is not in theirs."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key, value in ours.items():
            yield from missing(value, theirs[key], f"{path}.{key}") if key in theirs else [f"{path}.{key}"]
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for place, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
            yield from missing(mine, other, f"{path}[{place}]")
    elif ours != theirs:
        yield f"{path}: {ours!r} became {theirs!r}"


def test_grafanas_models_know_every_key_and_lose_none(board):
    back = json.loads(JSONEncoder().encode(Dashboard.from_json(json.loads(json.dumps(board)))))

    assert list(missing(board, back)) == []


def test_every_kind_of_panel_is_one_that_the_models_look_into(board):
    kinds = {panel["type"] for panel in panels(board)}

    assert kinds
    assert all(panelcfg_config(kind) is not None for kind in kinds)
