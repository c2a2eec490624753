"""The origin of a result: versions of packages, the processor's instructions, and the commit of the source."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

import unlearnbench

PACKAGES = ("unlearnbench", "torch", "torch-geometric", "numpy", "scipy", "scikit-learn", "pandas")
GIT_SECONDS = 10


def provenance() -> dict[str, Any]:
    """Return the versions and the commit: `{"python", "packages", "instructions", "git", "dirty"}`.

    `instructions` are the vector instructions that torch uses on this processor, such as AVX2: with others, sums are
    taken in another order, and a network's bits may differ on processors that call themselves the same.
    A package that is not installed has version None. `git` and `dirty` are of the checkout that the package runs
    from, or that it was built in; None where neither is known.
    """
    package = Path(unlearnbench.__file__).resolve().parent
    commit, dirty = git_state(package)
    if commit is None:
        commit, dirty = built_from(package)
    return {
        "python": platform.python_version(),
        "packages": package_versions(),
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "git": commit,
        "dirty": dirty,
    }


def built_from(package: Path) -> tuple[str | None, bool | None]:
    """Return the commit that an installed package was built from, and whether its source differed from it.

    `setup.py` writes it beside the package; both are None where it knew of none.
    """
    try:
        found = json.loads((package / "commit.json").read_text("utf-8"))
        return str(found["git"]), bool(found["dirty"])
    except (OSError, ValueError, KeyError, TypeError):
        return None, None


def package_versions(names: tuple[str, ...] = PACKAGES) -> dict[str, str | None]:
    """Return the versions of distributions; None for one that is not installed."""
    versions: dict[str, str | None] = {}
    for name in names:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = None
    return versions


def git_state(package: Path) -> tuple[str | None, bool | None]:
    """Return the commit of a package folder, and whether its source differs from it.

    Only the package and the folder `plugins` beside it count: results written into the same checkout do
    not make it dirty. Both are None without git, or if the folder is not under its control (for example,
    installed into an environment inside another checkout).
    """
    if _git(package, "ls-files", "--error-unmatch", "--", "__init__.py") is None:
        return None, None
    commit = _git(package, "rev-parse", "HEAD")
    folders = [folder for folder in (package, package.parent / "plugins") if folder.is_dir()]
    changes = _git(package, "status", "--porcelain", "--", *map(str, folders), ":(exclude,glob)**/__pycache__/**")
    return (commit.strip() if commit else None), (None if changes is None else bool(changes.strip()))


def _git(folder: Path, *arguments: str) -> str | None:
    # Git hooks set variables that would point every call at another repository.
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    environment["GIT_OPTIONAL_LOCKS"] = "0"
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments],
            env=environment,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=GIT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
