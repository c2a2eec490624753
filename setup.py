"""Writes the commit into what is built, so that records made by an installed package can name it."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

ROOT = Path(__file__).resolve().parent
NAME = Path("unlearnbench") / "commit.json"


def write_commit(folder: Path) -> None:
    """Write the commit and whether the source differs from it; without git, take over what a source archive says."""
    git = ["git", "-C", str(ROOT)]
    try:
        # A folder inside of another checkout has no commit of its own.
        subprocess.run([*git, "ls-files", "--error-unmatch", "pyproject.toml"], check=True, capture_output=True)
        commit = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
        changes = subprocess.run(
            [*git, "status", "--porcelain", "--", "unlearnbench", "plugins"], check=True, capture_output=True, text=True
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        if (ROOT / NAME).is_file():
            shutil.copyfile(ROOT / NAME, folder / NAME)
        return
    (folder / NAME).write_text(json.dumps({"git": commit, "dirty": bool(changes.strip())}) + "\n", encoding="utf-8")


class BuildWithCommit(build_py):
    """Builds the package with its commit beside; an editable install asks git itself."""

    def run(self) -> None:
        """Build, then write the commit."""
        super().run()
        if not self.editable_mode:
            write_commit(Path(self.build_lib))


class SdistWithCommit(sdist):
    """Makes a source archive with its commit inside."""

    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        """Copy the files, then write the commit."""
        super().make_release_tree(base_dir, files)
        write_commit(Path(base_dir))


setup(cmdclass={"build_py": BuildWithCommit, "sdist": SdistWithCommit})
