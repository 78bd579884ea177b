"""What ``check-rules`` does, from its arguments to its report."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import NamedTuple

from vllm_observe.alerts.lint.checks import CHECKS, SYNTAX
from vllm_observe.alerts.lint.linter import lint
from vllm_observe.alerts.lint.pages import of_pages
from vllm_observe.alerts.lint.problem import Level
from vllm_observe.alerts.lint.report import as_json, as_text, failing
from vllm_observe.alerts.lint.rulefiles import read_rules
from vllm_observe.alerts.lint.subject import near
from vllm_observe.alerts.lint.tables import of_release, release
from vllm_observe.alerts.lint.vocabulary import Vocabulary
from vllm_observe.clock import SystemClock
from vllm_observe.durations import parse_duration
from vllm_observe.engine.exposition import Exposition, ExpositionParser
from vllm_observe.engine.fetch import Fetcher
from vllm_observe.errors import ConfigError, ScrapeError
from vllm_observe.signals import NEWEST, OLDEST, PREFIXES

__all__ = ["Asked", "Checked", "run"]

_TIMEOUT_S = 5.0
_OURS = "vllm_observe_"
_NO_VLLM = f"no page given holds metrics of vLLM (is it down?): its names are taken to be those of {NEWEST}"
_MAX_PAGE_BYTES = 32 * 1024 * 1024


#: What the sidecar says of a page that it cannot read is told in its own settings: here they are other words.
_IN_OUR_WORDS = (
    ("check --vllm-url and --metrics-path", "check the path of --exposition"),
    (
        "give it the right token in scrape_token_file (--scrape-token-file)",
        "save the page, and give its file",
    ),
    (
        "name the certificates to trust in scrape_ca_file (--scrape-ca-file)",
        "save the page, and give its file",
    ),
    (", and is scrape_ca_file right?", "?"),
    (" (scrape_max_bytes)", ""),
    ("--vllm-url", "--exposition"),
)


class Asked(NamedTuple):
    """The arguments of the command."""

    files: Sequence[str]
    expositions: Sequence[str] = ()
    vllm_version: str | None = None
    scrape_interval: str = "15s"
    disabled: Collection[str] = ()
    strict: bool = False
    least: str = Level.INFO.value
    json: bool = False


class Checked(NamedTuple):
    """What the command says: its report, its exit code and, where need be, what it took instead of a page.

    The code is 1 where something is wrong enough, else 0.
    """

    report: str
    code: int
    notice: str = ""


def run(asked: Asked) -> Checked:
    """Check rules.

    Raises:
        ConfigError: an argument is wrong, or a file or page cannot be read.
    """
    _check_ids(asked.disabled)
    interval, least = _interval(asked.scrape_interval), _level(asked.least)
    rules = read_rules(asked.files)
    vocabulary, notice = _vocabulary(asked)
    problems = lint(rules, vocabulary, scrape_interval=interval, disabled=asked.disabled)
    report = as_json if asked.json else as_text
    return Checked(
        report(problems, len(rules), least=least), int(failing(problems, strict=asked.strict)), notice
    )


def _interval(text: str) -> float:
    try:
        interval = parse_duration(text)
    except ValueError as error:
        raise ConfigError(f"--scrape-interval {error}") from None
    if interval <= 0:
        raise ConfigError("--scrape-interval must be above 0")
    return interval


def _level(name: str) -> Level:
    levels = [level.value for level in Level]
    if name not in levels:
        raise ConfigError(f"--level {name}: there is no such level; they are {', '.join(levels)}")
    return Level(name)


def _check_ids(ids: Collection[str]) -> None:
    known = {SYNTAX, *(check.id for check in CHECKS)}
    for id_ in ids:
        if id_ not in known:
            meant = near(id_, known, cutoff=0.6)
            hint = f"did you mean {meant}?" if meant else f"known are {', '.join(sorted(known))}"
            raise ConfigError(f"--disable {id_}: there is no such check; {hint}")


def _vocabulary(asked: Asked) -> tuple[Vocabulary, str]:
    if asked.expositions and asked.vllm_version is not None:
        raise ConfigError("--vllm-version and --exposition exclude each other: a page says what it exposes")
    if asked.expositions:
        pages = of_pages(map(_page, asked.expositions))
        if any(name.startswith(PREFIXES) and not name.startswith(_OURS) for name in pages.metrics):
            return pages, ""
        # A sidecar's, whose vLLM is down: that is no fault of the rules.
        return Vocabulary({**of_release().metrics, **pages.metrics}, pages=False), _NO_VLLM
    version = asked.vllm_version or NEWEST
    numbers = release(version)
    if numbers is None or numbers < (release(OLDEST) or ()):
        raise ConfigError(
            f"--vllm-version {version}: names are known from {OLDEST} on; write it like {NEWEST}"
        )
    return of_release(version), ""


def _page(named: str) -> Exposition:
    live = named.startswith(("http://", "https://"))
    body, content_type = _fetched(named) if live else (_saved(named), None)
    # A URL can hold a password, and is not repeated.
    shown = "--exposition" if live else f"--exposition {named}"
    try:
        page = ExpositionParser().parse(body, content_type)
    except ScrapeError as error:
        raise ConfigError(f"{shown}: {error}") from None
    if not page.families:
        raise ConfigError(f"{shown}: there are no metrics on it")
    return page


def _fetched(url: str) -> tuple[bytes, str | None]:
    """Fetch a page by its own address or by its server's, where it is /metrics."""
    server, slashes, rest = url.partition("://")
    host, _, path = rest.partition("/")
    try:
        fetcher = Fetcher(
            url=f"{server}{slashes}{host}",
            metrics_path=path.rstrip("/") or "/metrics",
            timeout=_TIMEOUT_S,
            clock=SystemClock(),
        )
    except ConfigError:
        raise ConfigError(
            "--exposition is no address of a page: write it like http://127.0.0.1:8000"
        ) from None
    try:
        fetched = fetcher.fetch()
    except ScrapeError as error:
        raise ConfigError(f"--exposition: {_in_our_words(str(error))}") from None
    finally:
        fetcher.close()
    return fetched.body, fetched.content_type


def _in_our_words(told: str) -> str:
    for theirs, ours in _IN_OUR_WORDS:
        told = told.replace(theirs, ours)
    return told


def _saved(name: str) -> bytes:
    try:
        with Path(name).open("rb") as file:
            body = file.read(_MAX_PAGE_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        raise ConfigError(f"--exposition {name}: cannot be read: {reason or 'its name is no path'}") from None
    if len(body) > _MAX_PAGE_BYTES:
        raise ConfigError(f"--exposition {name}: larger than {_MAX_PAGE_BYTES // 1024 // 1024} MiB")
    return body
