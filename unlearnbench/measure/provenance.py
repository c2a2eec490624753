"""Where a result comes from: versions of packages, and the commit of the source."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

import unlearnbench

PACKAGES = ("unlearnbench", "torch", "torch-geometric", "numpy", "scipy", "scikit-learn", "pandas")
GIT_SECONDS = 10


def provenance() -> dict[str, Any]:
    """Give the versions and the commit: `{"python", "packages", "git", "dirty"}`.

    A package that is not installed has version None. `git` and `dirty` are None unless the
    package runs from a checkout of its source.
    """
    commit, dirty = git_state(Path(unlearnbench.__file__).resolve().parent)
    return {"python": platform.python_version(), "packages": package_versions(), "git": commit, "dirty": dirty}


def package_versions(names: tuple[str, ...] = PACKAGES) -> dict[str, str | None]:
    """Look up the versions of installed distributions; None where one is not installed."""
    versions: dict[str, str | None] = {}
    for name in names:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = None
    return versions


def git_state(package: Path) -> tuple[str | None, bool | None]:
    """Find the commit a package folder is at, and whether its source differs from it.

    Only source counts: the package and the folder `plugins` beside it. Results written in the
    same checkout do not make it dirty.

    Args:
        package: The folder of an imported package.

    Returns:
        The commit in hexadecimal and the flag; both None where git is absent or the folder is
        not under its control (installed into an environment that lies in someone's checkout,
        say).
    """
    if _git(package, "ls-files", "--error-unmatch", "--", "__init__.py") is None:
        return None, None
    commit = _git(package, "rev-parse", "HEAD")
    folders = [folder for folder in (package, package.parent / "plugins") if folder.is_dir()]
    changes = _git(package, "status", "--porcelain", "--", *map(str, folders), ":(exclude,glob)**/__pycache__/**")
    return (commit.strip() if commit else None), (None if changes is None else bool(changes.strip()))


def _git(folder: Path, *arguments: str) -> str | None:
    # Inside a hook, git sets variables that would point every call at another repository.
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    environment["GIT_OPTIONAL_LOCKS"] = "0"
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments],
            env=environment,
            capture_output=True,
            text=True,
            timeout=GIT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
