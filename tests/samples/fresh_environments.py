"""Fresh virtual environments that see the packages of the tests: for what a stranger installs by pip."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import venv
from pathlib import Path

import pytest

needs_pip = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("pip", "setuptools")),
    reason="pip and setuptools must be importable to install a plugin",
)
# Nothing is fetched: what is needed is seen already.
OFFLINE = ("--no-deps", "--no-index", "--no-build-isolation", "--disable-pip-version-check", "--no-cache-dir")
SEEN = "packages_of_the_tests.pth"


def environment() -> dict[str, str]:
    """Give an environment in which nothing but the fresh environment's own folders is found."""
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}


def home_of(package: str) -> str:
    """Find the folder that holds a package, wherever this process has it from."""
    spec = importlib.util.find_spec(package)
    assert spec is not None
    assert spec.origin is not None
    return str(Path(spec.origin).parents[1])


def lines_that_show_packages() -> str:
    """Give what a .pth file must hold so that an environment sees the packages of this one."""
    homes = dict.fromkeys(home_of(name) for name in ("torch", "unlearnbench", "unlearnbench_sisa"))
    return "".join(f"import site; site.addsitedir({home!r})\n" for home in homes)


def fresh_environment(folder: Path) -> Path:
    """Make a virtual environment that sees the packages of this one; gives its Python."""
    venv.create(folder, with_pip=False, symlinks=os.name != "nt")
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    asked = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        check=True, capture_output=True, text=True, env=environment(),
    )  # fmt: skip
    (Path(asked.stdout.strip()) / SEEN).write_text(lines_that_show_packages())
    return python


def run(*command: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a command as a stranger would, and let no traceback pass."""
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, cwd=cwd, env=environment(), timeout=500
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done
