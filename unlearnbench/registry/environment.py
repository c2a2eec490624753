"""Switches in the environment: variables that are on or off."""

from __future__ import annotations

import os

from unlearnbench.errors import UsageError

OFFLINE = "UNLEARNBENCH_OFFLINE"
STRICT_PLUGINS = "UNLEARNBENCH_STRICT_PLUGINS"

_ON, _OFF = ("1", "true", "yes", "on"), ("", "0", "false", "no", "off")


def switch(name: str) -> bool:
    """Whether a variable of the environment is switched on; one that is not set is off.

    Raises:
        UsageError: Its value is neither on nor off.
    """
    value = os.environ.get(name, "")
    word = value.strip().lower()
    if word not in _ON + _OFF:
        raise UsageError(f"The variable {name} is {value!r}, neither on nor off: use 1 or 0, or unset it.")
    return word in _ON
