"""Rule files as they lie on disk: Prometheus's own and the Operator's objects, with their lines."""

from __future__ import annotations

import glob
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import yaml

from vllm_observe.errors import ConfigError

__all__ = ["Rule", "read_rules"]

_MAX_BYTES = 4 * 1024 * 1024
#: Aliases can make many rules of few lines.
_MAX_RULES = 20_000
_SUFFIXES = frozenset({".yaml", ".yml"})
_WILDCARD = re.compile(r"[*?\[]")
_DISABLED = re.compile(r"#\s*check-rules:\s*disable\s+([\w, -]+)")
_OF_RULES = ("for", "keep_firing_for")
_OF_GROUPS = ("interval", "query_offset")
_COMMENT = re.compile(r"\s*#")


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One rule.

    ``hold`` is its ``for`` as written, ``disabled`` the checks that a comment on it turns off, and
    ``durations`` are all durations of it as written, those of its group with the group's first rule.
    """

    file: str
    line: int
    group: str
    name: str
    alerts: bool
    expr: str
    hold: str | None
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    disabled: frozenset[str]
    durations: Mapping[str, str] = field(default_factory=dict)


class _Place(NamedTuple):
    """Where one stands in a file, for messages and for comments."""

    file: str
    lines: list[str]

    def wrong(self, node: yaml.Node | None, problem: str) -> ConfigError:
        line = f", line {node.start_mark.line + 1}" if node is not None else ""
        return ConfigError(f"{self.file}{line}: {problem}")


def read_rules(named: Iterable[str]) -> list[Rule]:
    """Read rules.

    Args:
        named: files, folders (all YAML within them) and patterns such as ``rules/*.yaml``.

    Raises:
        ConfigError: one cannot be read, is no YAML or holds something else than rules. Files that a
            folder or a pattern brings may hold something else, if one of them holds rules.
    """
    rules: list[Rule] = []
    for name in named:
        found, searched = _files(name)
        read = [rule for path in found for rule in _read_file(path, must_hold_rules=not searched)]
        if not read:
            raise ConfigError(
                f"{name}: no rules there: it takes a rule file with `groups`, or a PrometheusRule"
            )
        rules += read
        if len(rules) > _MAX_RULES:
            raise ConfigError(f"{name}: more than {_MAX_RULES} rules: check fewer files at once")
    return rules


def _files(name: str) -> tuple[list[Path], bool]:
    path = Path(name)
    try:
        if path.is_dir():
            inside = path.rglob("*")
            return sorted(file for file in inside if file.suffix in _SUFFIXES and file.is_file()), True
        if _WILDCARD.search(name) and not path.exists():
            return sorted(file for file in map(Path, glob.glob(name, recursive=True)) if file.is_file()), True  # noqa: PTH207  # Path.glob takes no absolute pattern
    except (OSError, ValueError) as error:
        raise ConfigError(f"{name}: cannot be read: {error}") from None
    return [path], False


def _read_file(path: Path, *, must_hold_rules: bool) -> list[Rule]:
    text = _text(path)
    place = _Place(str(path), text.split("\n"))
    rules: list[Rule] = []
    try:
        for document in yaml.compose_all(text, Loader=yaml.SafeLoader):
            for groups in _groups(document, place, must_hold_rules=must_hold_rules):
                for rule in _rules(groups, place):
                    rules.append(rule)
                    if len(rules) > _MAX_RULES:
                        raise ConfigError(f"{path}: more than {_MAX_RULES} rules: check fewer files at once")
    except yaml.MarkedYAMLError as error:
        line = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise ConfigError(f"{path}{line}: it is not YAML: {error.problem or error.context}") from None
    except (yaml.YAMLError, RecursionError, ValueError):
        raise ConfigError(f"{path}: it is not YAML that can be read") from None
    return rules


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        raise ConfigError(f"{path}: cannot be read: {reason or 'its name is no path'}") from None
    if len(content) > _MAX_BYTES:
        raise ConfigError(f"{path}: larger than {_MAX_BYTES // 1024 // 1024} MiB: no rule file is")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: it is not UTF-8 text") from None


# --- The shape of a rule file --------------------------------------------------------------------


def _groups(document: yaml.Node | None, place: _Place, *, must_hold_rules: bool) -> Iterator[yaml.Node]:
    """Give each list of groups in a document: the file's own, or that of each object in it."""
    fields = _fields(document)
    kind = _scalar(fields.get("kind"))
    objects = [fields] if kind == "PrometheusRule" else []
    if kind == "List":
        objects = [_fields(item) for item in _items(fields.get("items"), place, "items")]
    if kind in {"List", "PrometheusRule"}:
        specs = (
            _fields(item.get("spec")) for item in objects if _scalar(item.get("kind")) == "PrometheusRule"
        )
        yield from (spec["groups"] for spec in specs if "groups" in spec)
    elif "groups" in fields:
        yield fields["groups"]
    elif must_hold_rules and kind is None and not _is_null(document):
        raise place.wrong(document, "no rule file: it has no `groups`")


def _rules(groups: yaml.Node, place: _Place) -> Iterator[Rule]:
    for group in _items(groups, place, "groups"):
        fields = _fields(group)
        if not fields:
            raise place.wrong(group, "a group must be a mapping with `name` and `rules`")
        name = _scalar(fields.get("name")) or ""
        if fields.get("rules") is None:
            continue
        rules = _items(fields["rules"], place, "rules")
        for index, node in enumerate(rules):
            after = rules[index + 1] if index + 1 < len(rules) else None
            durations = _durations(_fields(node), _OF_RULES, place)
            if index == 0:
                durations |= _durations(fields, _OF_GROUPS, place)
            yield _rule(node, after, name, place, durations)


def _durations(fields: dict[str, yaml.Node], names: Iterable[str], place: _Place) -> dict[str, str]:
    found = {}
    for name in names:
        node = fields.get(name)
        if node is None or _is_null(node):
            continue
        text = _scalar(node)
        if text is None:
            raise place.wrong(node, f"`{name}` must be a duration such as 5m")
        found[name] = text
    return found


def _rule(
    node: yaml.Node, after: yaml.Node | None, group: str, place: _Place, durations: Mapping[str, str]
) -> Rule:
    fields = _fields(node)
    name = _scalar(fields.get("alert")) or _scalar(fields.get("record"))
    expr = _scalar(fields.get("expr"))
    if not name or expr is None:
        raise place.wrong(node, "a rule must be a mapping with `alert` or `record`, and `expr`")
    return Rule(
        file=place.file,
        line=node.start_mark.line + 1,
        group=group,
        name=name,
        alerts="alert" in fields,
        expr=expr,
        hold=durations.get("for"),
        labels=_texts(fields.get("labels"), place),
        annotations=_texts(fields.get("annotations"), place),
        disabled=_disabled(node, after, place.lines),
        durations=durations,
    )


def _disabled(node: yaml.Node, after: yaml.Node | None, lines: list[str]) -> frozenset[str]:
    """Read the comments on a rule: within it, and directly above it."""
    first = _above(node.start_mark.line, lines)
    last = node.end_mark.line + 1
    # The comments above the next rule are the next rule's.
    if after is not None and after.start_mark.line > node.start_mark.line:
        last = min(last, _above(after.start_mark.line, lines))
    found = _DISABLED.findall("\n".join(lines[first:last]))
    return frozenset(check for text in found for check in re.split(r"[\s,]+", text) if check)


def _above(line: int, lines: list[str]) -> int:
    while line > 0 and _COMMENT.match(lines[line - 1]):
        line -= 1
    return line


# --- YAML's nodes --------------------------------------------------------------------------------


def _fields(node: yaml.Node | None) -> dict[str, yaml.Node]:
    if not isinstance(node, yaml.MappingNode):
        return {}
    return {key.value: value for key, value in node.value if isinstance(key, yaml.ScalarNode)}


def _items(node: yaml.Node | None, place: _Place, what: str) -> list[yaml.Node]:
    if isinstance(node, yaml.SequenceNode):
        items: list[yaml.Node] = node.value
        return items
    if _is_null(node):
        return []
    raise place.wrong(node, f"`{what}` must be a list")


def _is_null(node: yaml.Node | None) -> bool:
    return node is None or (isinstance(node, yaml.ScalarNode) and node.tag.endswith(":null"))


def _scalar(node: yaml.Node | None) -> str | None:
    if not isinstance(node, yaml.ScalarNode) or _is_null(node):
        return None
    text: str = node.value
    return text


def _texts(node: yaml.Node | None, place: _Place) -> dict[str, str]:
    """Read labels or annotations."""
    texts = {}
    for name, value in _fields(node).items():
        text = _scalar(value)
        if text is None and not isinstance(value, yaml.ScalarNode):
            raise place.wrong(value, f"{name!r} must be a text")
        texts[name] = text or ""
    return texts
