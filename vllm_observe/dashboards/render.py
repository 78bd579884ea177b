"""All boards under one set of options: as JSON, and as the files that operators take away."""

from __future__ import annotations

import json
from typing import Any

import yaml

from vllm_observe.dashboards.boards import BOARDS
from vllm_observe.dashboards.grafana import dashboard
from vllm_observe.dashboards.options import Options

__all__ = ["config_maps", "files", "render"]

_DEFAULT = Options()


class _Readable(yaml.SafeDumper):
    """Writes text of several lines as it is."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Readable.add_representer(str, _text)


def render(options: Options = _DEFAULT) -> dict[str, dict[str, Any]]:
    """Return each board's JSON by the board's name, in the order in which people open them.

    Boards about what only a sidecar knows are left out where there can be none.
    """
    boards = [board for board in BOARDS if options.behind_sidecar or not board.of_sidecar]
    return {board.name: dashboard(board, options, boards) for board in boards}


def files(options: Options = _DEFAULT) -> dict[str, str]:
    """Return the JSON files by name, as Grafana imports and provisions them."""
    return {
        f"{name}.json": json.dumps(board, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
        for name, board in render(options).items()
    }


def config_maps(options: Options = _DEFAULT) -> dict[str, str]:
    """Return Kubernetes manifests by file name: ConfigMaps, as the sidecar of Grafana's chart loads them."""
    return {
        f"{name.removesuffix('.json')}.yaml": yaml.dump(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {
                    "name": f"vllm-observe-dashboard-{name.removesuffix('.json')}",
                    "labels": {"grafana_dashboard": "1"},
                    "annotations": {"grafana_folder": "vLLM"},
                },
                "data": {f"vllm-observe-{name}": text},
            },
            Dumper=_Readable,
            sort_keys=False,
        )
        for name, text in files(options).items()
    }
