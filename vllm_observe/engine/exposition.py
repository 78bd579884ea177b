"""Read a /metrics page: text 0.0.4, text 1.0.0 and OpenMetrics, fast from the second scrape on.

Between two scrapes of a server little but the numbers of its page changes. What stays, the page's
form, is kept: a page of the same form is split, compared with it and filled with its own numbers.
Any other page is read line by line, and its form kept in turn. Both ways give the same result, and
both give the same series objects as before.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from vllm_observe.engine.form import Form, FormFamily, FormSample, Rule
from vllm_observe.engine.lines import Head, Tail, read_description, read_head, read_tail, unescape
from vllm_observe.engine.naming import Naming, Place
from vllm_observe.errors import Drop, ScrapeError, ScrapeFailure
from vllm_observe.model import Family, Kind, Sample, Series

__all__ = ["Exposition", "ExpositionParser"]

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_EOF = "# EOF"
_UNTYPED = "untyped"
_KINDS = {kind.value: kind for kind in Kind} | {_UNTYPED: Kind.UNKNOWN}
#: A line may be as long as this many label values of the greatest length: with the usual one the
#: 256 KiB above which VictoriaMetrics refuses a line.
_VALUES_IN_A_LINE = 32
_MAX_BYTES_OF_A_CHARACTER = 4
#: Numbers that may be the beginning of a longer one: 12 of 123.0, 12. of 12.5, 1.5e+0 of 1.5e+09.
_PERHAPS_CUT = re.compile(r"[+-]?\d+\.?|\S*e[+-]?\d", re.IGNORECASE)


class Exposition(NamedTuple):
    """A page: its families in the order of their first appearance, and how much of it was dropped."""

    families: tuple[Family, ...]
    dropped: Mapping[Drop, int]


class ExpositionParser:
    """Reads the pages of one server, one after the other.

    Args:
        max_value_bytes: the greatest length of a label's value, in bytes of UTF-8.
        max_lines: the greatest number of lines of a page that are read. It bounds what a page can
            cost, and what is kept of it until the next.
    """

    def __init__(self, *, max_value_bytes: int = 8192, max_lines: int = 100_000) -> None:
        self._max_value_bytes = max_value_bytes
        self._max_lines = max_lines
        self._series: Mapping[str, Series] = {}
        self._form: Form | None = None
        self._content_type: str | None = None

    def parse(self, body: bytes, content_type: str | None) -> Exposition:
        """Read a page.

        Args:
            body: the page, decompressed. What is not UTF-8 in it becomes U+FFFD.
            content_type: the header; where it and the page disagree, the page is believed.

        Raises:
            ScrapeError: MALFORMED where no line is an exposition's, TRUNCATED where OpenMetrics
                does not end in its ``# EOF``.
        """
        text = body.removeprefix(_BYTE_ORDER_MARK).decode("utf-8", "replace")
        if self._form is not None and content_type == self._content_type:
            families = self._form.fill(text)
            if families is not None:
                return Exposition(families, {})
        page = _Page(text, self._series, self._max_value_bytes)
        page.read(self._max_lines)
        page.check(content_type or "")
        gathered = page.gather()
        self._series, self._form, self._content_type = page.series, page.form(gathered), content_type
        return Exposition(tuple(map(_family, gathered)), +page.dropped)


class _About:
    """What a page says of a family; of several words on one thing the first counts."""

    def __init__(self) -> None:
        self.kind: Kind | None = None
        self.help: str | None = None
        self.unit: str | None = None


class _Row(NamedTuple):
    """A line that holds a sample."""

    line: int
    series: Series
    tail: Tail


class _Gathered(NamedTuple):
    """A family with its samples from all over the page: their places in it, and what they say there."""

    family: FormFamily
    tails: list[Tail]


class _Page:
    """A page that is read line by line.

    ``series`` holds its series by their text in it: the objects of ``known``, the page before, where
    they are the same. ``dropped`` counts what is left out.
    """

    def __init__(self, text: str, known: Mapping[str, Series], max_value_bytes: int) -> None:
        self.series: dict[str, Series] = {}
        self.dropped: Counter[Drop] = Counter()
        self._text = text
        self._known = known
        self._max_value_bytes = max_value_bytes
        self._about: dict[str, _About] = {}
        self._rows: list[_Row] = []
        # The names in the order of their first appearance, and whether that was in a sample.
        self._mentions: dict[tuple[str, bool], None] = {}
        self._plain = text.endswith("\n")
        self._openmetrics = False
        self._untyped_seen = False
        self._short_numbers_seen = False

    def read(self, max_lines: int) -> None:
        """Read the lines, up to so many."""
        start = 0
        for index in range(max_lines):
            end = self._text.find("\n", start)
            if end < 0:
                self._read_line(index, self._text[start:], finished=False)
                return
            self._read_line(index, self._text[start:end], finished=True)
            start = end + 1
        if start < len(self._text):
            self.dropped[Drop.TOO_MANY] += self._text.count("\n", start, -1) + 1

    def check(self, content_type: str) -> None:
        """Find out the format, and whether the page is one and is whole.

        Raises:
            ScrapeError: MALFORMED or TRUNCATED.
        """
        page = self._text.rstrip()
        ended = page == _EOF or page.endswith("\n" + _EOF)
        if not (ended or self._about or self._rows):
            raise ScrapeError(ScrapeFailure.MALFORMED, _nothing_like_an_exposition(page))
        declared = content_type.lower()
        self._openmetrics = ended or ("openmetrics" in declared and not self._is_classic(declared))
        if self._openmetrics and not ended:
            raise ScrapeError(
                ScrapeFailure.TRUNCATED,
                "the page is OpenMetrics and does not end in '# EOF': the answer was cut off on its way",
            )

    def gather(self) -> list[_Gathered]:
        """Bring together the families, in the order of their first appearance."""
        written = {row.series.name for row in self._rows}
        naming = Naming({name: about.kind or Kind.UNKNOWN for name, about in self._about.items()}, written)
        places = {name: naming.place(name) for name in written}
        families: dict[str, _Gathered] = {}
        for name, in_sample in self._mentions:
            place = places[name] if in_sample else naming.described(name)
            if place and place.family not in families:
                families[place.family] = self._empty(place)
        seen: set[Series] = set()
        for row in self._rows:
            place = places[row.series.name]
            if place is None:
                continue
            family, tails = families[place.family]
            series = self._spelled(row.series, place.name)
            rule = _rule(family.kind, place)
            if rule is None:
                self.dropped[Drop.MALFORMED_LINE] += 1
            elif series in seen:
                self.dropped[Drop.DUPLICATE] += 1
            elif not rule.allows(row.tail.value):
                self.dropped[Drop.BAD_VALUE] += 1
            else:
                seen.add(series)
                family.samples.append(FormSample(row.line, series, rule))
                tails.append(row.tail)
        return list(families.values())

    def form(self, gathered: list[_Gathered]) -> Form | None:
        """Return the page's form; ``None`` where it is not plain, or something of it was dropped."""
        if not self._plain or self.dropped:
            return None
        values = [tail.value for _, tails in gathered for tail in tails]
        return Form(self._text.split("\n"), [family for family, _ in gathered], values)

    def _read_line(self, index: int, written: str, *, finished: bool) -> None:
        line = written.strip(" \t\r")
        drop = None
        if len(line) > _VALUES_IN_A_LINE * self._max_value_bytes:
            drop = Drop.VALUE_TOO_LONG
        elif line.startswith("#"):
            drop = self._describe(line)
        elif line:
            drop = self._read_sample(index, line, finished=finished)
            self._plain = self._plain and written.rpartition(" ")[0] in self.series
        if drop:
            self.dropped[drop] += 1

    def _describe(self, line: str) -> Drop | None:
        description = read_description(line)
        if description is None:
            return None
        word, name, text = description
        type_ = text.strip().lower() if word == "TYPE" else ""
        if word == "TYPE" and type_ not in _KINDS:
            return Drop.MALFORMED_LINE
        self._mentions.setdefault((name, False))
        about = self._about.setdefault(name, _About())
        if word == "TYPE":
            about.kind = about.kind or _KINDS[type_]
            self._untyped_seen = self._untyped_seen or type_ == _UNTYPED
        elif word == "HELP":
            about.help = text[: self._max_value_bytes] if about.help is None else about.help
        else:
            about.unit = about.unit or text.strip()
        return None

    def _read_sample(self, index: int, line: str, *, finished: bool) -> Drop | None:
        head, _, rest = line.rpartition(" ")
        series = self._find(head)
        if series is None:
            read = read_head(line)
            if read is None:
                return Drop.MALFORMED_LINE
            if self._too_long(read):
                return Drop.VALUE_TOO_LONG
            head, rest = line[: read.end], line[read.end :]
            series = self._find(head) or Series(read.name, read.labels)
        tail = read_tail(rest)
        short = _PERHAPS_CUT.fullmatch(rest.strip()) is not None
        if tail is None or (short and not finished and self._rows and not self._short_numbers_seen):
            return Drop.MALFORMED_LINE
        self._short_numbers_seen = self._short_numbers_seen or short
        self.series[head] = series
        self._mentions.setdefault((series.name, True))
        self._rows.append(_Row(index, series, tail))
        return None

    def _find(self, text: str) -> Series | None:
        return self.series.get(text) or self._known.get(text)

    def _spelled(self, series: Series, name: str) -> Series:
        """Return the series with its name as the page's metadata spell it."""
        if series.name == name:
            return series
        key = f"{name}\n{series.text}"  # no line has this text
        return self.series.setdefault(key, self._find(key) or Series(name, series.labels))

    def _too_long(self, head: Head) -> bool:
        if head.end * _MAX_BYTES_OF_A_CHARACTER <= self._max_value_bytes:
            return False
        texts = (head.name, *(text for label in head.labels for text in label))
        return any(len(text.encode()) > self._max_value_bytes for text in texts)

    def _is_classic(self, declared: str) -> bool:
        """Say whether a page without ``# EOF`` is text 0.0.4 whatever its header says."""
        # In OpenMetrics 1.0 no counter is described with its _total; in 2.0 each is.
        described_as_text = any(
            about.kind is Kind.COUNTER and name.endswith("_total") for name, about in self._about.items()
        )
        return self._untyped_seen or (described_as_text and "version=2" not in declared)

    def _empty(self, place: Place) -> _Gathered:
        about = self._about.get(place.described) or _About()
        help_ = unescape(about.help or "", quotes=self._openmetrics)
        return _Gathered(
            FormFamily(place.family, about.kind or Kind.UNKNOWN, help_, about.unit or "", []), []
        )


def _family(gathered: _Gathered) -> Family:
    """Return a family with the values that its page gives it."""
    (name, kind, help_, unit, places), tails = gathered
    samples = (
        Sample(place.series, tail.value, tail.exemplar) for place, tail in zip(places, tails, strict=True)
    )
    return Family(name, kind, help_, tuple(samples), unit)


def _rule(kind: Kind, place: Place) -> Rule | None:
    """Return which numbers a sample can have; ``None`` for a name that its type has no sample of."""
    bare = place.name == place.described
    if bare and kind in {Kind.HISTOGRAM, Kind.GAUGEHISTOGRAM}:
        return None
    if kind is Kind.SUMMARY and bare:
        return Rule.QUANTILE
    return Rule.COUNT if kind in {Kind.COUNTER, Kind.HISTOGRAM, Kind.SUMMARY} else Rule.ANY


def _nothing_like_an_exposition(page: str) -> str:
    if not page:
        return "the answer is empty: is this the /metrics page of a vLLM?"
    looks = {"<": "HTML", "{": "JSON", "[": "JSON"}.get(page.lstrip()[0], "something else")
    return f"the answer is no exposition but {looks}: is this the /metrics page of a vLLM?"
