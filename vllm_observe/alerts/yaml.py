"""YAML as a person writes it: keys in their order, texts of several lines as blocks."""

from __future__ import annotations

from typing import Any

import yaml

__all__ = ["document"]

_HEADER = "# Rendered by `vllm-observe render-alerts`. Change it there.\n"


class _Dumper(yaml.SafeDumper):
    """Writes lists indented under their keys, and long texts unbroken."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002
        super().increase_indent(flow, indentless=False)


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def document(value: Any) -> str:
    """Return a rendered document, with a first line that says whose it is."""
    text = yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=1_000_000)
    return _HEADER + text
