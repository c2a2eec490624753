"""What an extra brings: modules that the page, the figures and tuning need; and a folder to go to."""

from importlib import import_module
from pathlib import Path
from typing import Any

from unlearnbench.errors import UsageError
from unlearnbench.registry.requirements import require_module


def check_folder(folder: Path, what: str) -> None:
    """Refuse a file where a folder for the page or the figures is to be made."""
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is no folder.", f"Name a folder for {what}; it is made if it is not there.")


def import_extra(module: str, need: str, extra: str = "report") -> Any:
    """Import a module, or refuse with what needs it.

    Raises:
        UsageError: It is not installed or cannot be imported.
    """
    installed = require_module(module, f"unlearnbench[{extra}]")
    if not installed.is_met:
        why = f"cannot be imported: {installed.reason}" if installed.reason else "is not installed"
        raise UsageError(f"{need}, which {why}.", f"Install it: {installed.remedy}")
    return import_module(module)
