"""Settings: one model, filled from a YAML file, the environment and flags, the later over the earlier.

A setting's name is the same everywhere: ``scrape_interval`` in YAML, ``VLLM_OBSERVE_SCRAPE_INTERVAL``
in the environment, ``--scrape-interval`` as a flag. Secrets are named by the file that holds them,
never given themselves: an argument list is open to every user of a machine.
"""

from __future__ import annotations

import difflib
import json
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
)
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from vllm_observe.durations import parse_duration
from vllm_observe.errors import ConfigError
from vllm_observe.model import ServiceClass
from vllm_observe.sizes import parse_size, show_size
from vllm_observe.thresholds import STALL_AFTER_S, TARGETS, Targets

__all__ = ["WITHOUT_FLAG", "FieldRule", "ListenerSecurity", "RequestLog", "Settings", "load_settings"]

PREFIX = "VLLM_OBSERVE_"
#: The settings that few people change: in YAML and in the environment only.
WITHOUT_FLAG = frozenset(
    {
        "scrape_max_bytes",
        "scrape_compression",
        "metrics_security",
        "admin_security",
        "join_max_pending",
        "session_window",
        "max_sessions",
        "max_profiles",
        "max_adapters",
        "store_max_rows",
        "store_max_age",
        "store_max_bytes",
    }
)
# Kubernetes gives every container the addresses of a Service named vllm-observe: no misspelt settings.
_OTHERS_VARIABLES = re.compile(rf"{PREFIX}(SERVICE_(HOST|PORT.*)|PORT(_\d+_.*)?)")


def _seconds(value: Any) -> Any:
    """Read ``5``, ``"5s"``, ``"250ms"`` or ``"10m"`` as seconds; leave other types to pydantic."""
    return parse_duration(value) if isinstance(value, str) else value


Duration = Annotated[float, BeforeValidator(_seconds), Field(allow_inf_nan=False)]


def _bytes(value: Any) -> Any:
    """Read ``33554432``, ``"64MiB"`` or ``"2 GiB"`` as bytes; leave other types to pydantic."""
    return parse_size(value) if isinstance(value, str) else value


def _at_least(least: int) -> Callable[[int], int]:
    def check(value: int) -> int:
        if value < least:
            raise ValueError(f"must be at least {show_size(least)}")
        return value

    return check


Size = Annotated[int, BeforeValidator(_bytes)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class FieldRule(_Part):
    """Where a field of record format 1 stands in somebody else's JSON."""

    source: str = Field(alias="from", min_length=1)  # a key, or a dotted path to one
    scale: float = Field(default=1.0, gt=0, allow_inf_nan=False)  # what a number there is multiplied by


class RequestLog(_Part):
    """One request log to follow: a path or a glob, and how its lines are to be read."""

    path: str = Field(min_length=1)
    format: Literal["jsonl", "nginx", "envoy", "litellm", "vllm"] = "jsonl"
    wrapper: Literal["auto", "none", "cri", "docker"] = "auto"
    start: Literal["beginning", "end"] = "beginning"
    fields: dict[str, FieldRule | None] = {}  # None: that field is left out, whatever the log holds

    @field_validator("fields", mode="before")
    @classmethod
    def _short_form(cls, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        return {name: {"from": rule} if isinstance(rule, str) else rule for name, rule in value.items()}


class ListenerSecurity(_Part):
    """Who may ask a listener, and how: everything by the name of the file that holds it."""

    token_file: Path | None = None  # a bearer token
    basic_auth_file: Path | None = None  # lines of user:password
    tls_cert_file: Path | None = None
    tls_key_file: Path | None = None


def _paths(value: Any) -> Any:
    """Read a comma-separated list of paths, as the environment gives it, and bare paths in a list."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        value = json.loads(value)  # a ValueError of it is pydantic's to tell
    if isinstance(value, str):
        value = [path for path in (part.strip() for part in value.split(",")) if path]
    if isinstance(value, list | tuple):
        return [{"path": entry} if isinstance(entry, str) else entry for entry in value]
    raise ValueError("must be a list of paths or globs")


class Settings(BaseSettings):
    """Everything that a sidecar can be told. Durations are seconds, in YAML also ``5s`` or ``10m``."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_nested_delimiter="__", extra="forbid", frozen=True, validate_default=False
    )

    vllm_url: str = "http://127.0.0.1:8000"
    metrics_path: str = "/metrics"
    # vLLM renders /metrics on the event loop that serves requests: scraping often costs latency.
    scrape_interval: Duration = Field(default=5.0, ge=1.0)
    scrape_timeout: Duration = Field(default=4.0, gt=0)
    scrape_max_bytes: Size = Field(default=32 * 1024 * 1024, gt=0)
    scrape_compression: bool = False
    scrape_token_file: Path | None = None
    scrape_ca_file: Path | None = None

    request_logs: Annotated[tuple[RequestLog, ...], NoDecode, BeforeValidator(_paths)] = ()
    engine_log: Path | None = None
    checkpoint_file: Path | None = None  # how far the request logs were read; a store holds that itself

    store: Path | None = None  # the requests, in one SQLite file; the oldest of too many go
    store_max_rows: int = Field(default=1_000_000, gt=0)
    store_max_age: Duration = Field(default=7 * 86_400.0, gt=0)
    # Under it there would be no room for requests beside the write-ahead log.
    store_max_bytes: Annotated[Size, AfterValidator(_at_least(32 * 1024**2))] = 2 * 1024**3

    listen: str = "0.0.0.0:9809"  # Prometheus is most often on another host
    admin_listen: str = "127.0.0.1:9810"
    metrics_security: ListenerSecurity = ListenerSecurity()
    admin_security: ListenerSecurity = ListenerSecurity()

    join_window: Duration = Field(default=60.0, gt=0)
    join_max_pending: int = Field(default=50_000, gt=0)
    session_window: Duration = Field(default=300.0, gt=0)
    max_sessions: int = Field(default=10_000, gt=0)
    max_profiles: int = Field(default=50, gt=0)
    max_adapters: int = Field(default=50, gt=0)

    stall_after: Duration = Field(default=STALL_AFTER_S, gt=0)
    max_num_seqs: int | None = Field(default=None, gt=0)
    service_class: ServiceClass = ServiceClass.INTERACTIVE
    target_ttft: Duration | None = Field(default=None, gt=0)
    target_tpot: Duration | None = Field(default=None, gt=0)
    target_e2e: Duration | None = Field(default=None, gt=0)

    log_format: Literal["auto", "json", "text"] = "auto"
    log_level: Literal["debug", "info", "warning", "error"] = "info"

    @property
    def targets(self) -> Targets:
        """What this server promises: the service class's targets, where no setting says otherwise."""
        usual = TARGETS[self.service_class]
        return Targets(
            ttft=self.target_ttft or usual.ttft,
            tpot=self.target_tpot or usual.tpot,
            e2e=self.target_e2e or usual.e2e,
        )


def load_settings(*, config: Path | None = None, flags: Mapping[str, object] | None = None) -> Settings:
    """Fill the settings from a YAML file, the environment and flags, the later over the earlier.

    Args:
        config: the YAML file, if there is one.
        flags: by setting; ``None`` means that the flag was not given.

    Raises:
        ConfigError: in one line, which setting is wrong and how to mend it.
    """
    in_file = _read(config) if config else {}
    given = {name: value for name, value in (flags or {}).items() if value is not None}
    _refuse_unknown_variables()

    class Layered(Settings):
        @classmethod
        def settings_customise_sources(
            cls,
            settings_cls: type[BaseSettings],
            init_settings: PydanticBaseSettingsSource,
            env_settings: PydanticBaseSettingsSource,
            dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003  # pydantic-settings passes it
            file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003  # the same
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            return init_settings, env_settings, InitSettingsSource(settings_cls, in_file)

    try:
        return Layered(**given)  # type: ignore[arg-type]  # pydantic checks them
    except ValidationError as error:
        raise ConfigError(_one_line(error)) from None
    except ValueError as error:  # pydantic-settings: a variable that should hold JSON does not
        raise ConfigError(f"environment: {_unreadable(error)}") from None


def _read(config: Path) -> dict[str, Any]:
    try:
        content = yaml.safe_load(config.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"--config: cannot read {config}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"--config: {config} is not UTF-8 text") from None
    except yaml.MarkedYAMLError as error:
        line = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise ConfigError(f"--config: {config}{line} is not YAML: {error.problem}") from None
    except Exception as error:  # noqa: BLE001  # see below
        # PyYAML lets out whatever a constructor of its own raises: for a date such as 2026-13-45,
        # a wrong tag, or brackets without end.
        raise ConfigError(f"--config: {config} holds a value that YAML cannot read: {error}") from None
    if content is None:
        return {}
    if not isinstance(content, dict) or not all(isinstance(key, str) for key in content):
        raise ConfigError(f"--config: {config} must hold settings, one `name: value` a line")
    return content


def _refuse_unknown_variables() -> None:
    for variable in sorted(os.environ):
        if not variable.startswith(PREFIX) or _OTHERS_VARIABLES.fullmatch(variable):
            continue
        name = variable[len(PREFIX) :].lower().split("__")[0]
        if name not in Settings.model_fields:
            raise ConfigError(f"environment: {variable} is no setting{_near(name, Settings.model_fields)}")


def _unreadable(error: ValueError) -> str:
    """Say of which variable pydantic-settings speaks, where it wanted JSON and found none."""
    field = re.search(r'field "(\w+)"', str(error))
    if field is None:
        return str(error).splitlines()[0]
    variable = PREFIX + field[1].upper()
    return f"{variable} must be JSON; or give its parts, such as {variable}__TOKEN_FILE"


def _near(name: str, known: Mapping[str, object]) -> str:
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    return f"; did you mean {close[0]}?" if close else f"; known are {', '.join(sorted(known))}"


def _one_line(error: ValidationError) -> str:
    details = error.errors(include_url=False, include_context=False)
    # A misspelt name is told first: the field that it leaves missing only follows from it.
    details.sort(key=lambda detail: detail["type"] != "extra_forbidden")
    problems = [_problem(detail) for detail in details]
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return problems[0] + more


def _problem(detail: Any) -> str:
    path = [str(step) for step in detail["loc"]]
    where = ".".join(path)
    if detail["type"] == "extra_forbidden":
        return f"{where} is no setting{_near(path[-1], _fields_beside(path))}"
    flag = f" ({_flag(path[0])})" if len(path) == 1 and path[0] not in WITHOUT_FLAG else ""
    # The input itself stays out of the message: it can hold a URL with a password.
    message = detail["msg"].removeprefix("Value error, ")
    return f"{where}{flag}: {message[0].lower()}{message[1:]}{_near_choice(detail)}"


def _near_choice(detail: Any) -> str:
    """Name the choice that a misspelt one comes near to, where a setting has only so many."""
    if detail["type"] != "literal_error" or not isinstance(detail["input"], str):
        return ""
    close = difflib.get_close_matches(detail["input"].lower(), re.findall(r"'([^']*)'", detail["msg"]), n=1)
    return f"; did you mean {close[0]}?" if close else ""


def _flag(setting: str) -> str:
    return "--request-log" if setting == "request_logs" else "--" + setting.replace("_", "-")


def _fields_beside(path: list[str]) -> Mapping[str, object]:
    """The known names at the place where an unknown one stands."""
    parts: dict[str, Mapping[str, object]] = {
        "request_logs": RequestLog.model_fields,
        "metrics_security": ListenerSecurity.model_fields,
        "admin_security": ListenerSecurity.model_fields,
    }
    if len(path) == 1:
        return Settings.model_fields
    if "fields" in path[:-1]:
        return {"from": None, "scale": None}
    return parts.get(path[0], {})
