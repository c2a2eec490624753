"""How a method is drawn: a colour and a shape, which a plugin announces with it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from unlearnbench.errors import UsageError

SHAPES = {
    "circle": "o",
    "square": "s",
    "diamond": "D",
    "up": "^",
    "down": "v",
    "left": "<",
    "right": ">",
    "plus": "P",
    "cross": "X",
    "star": "*",
    "pentagon": "p",
    "hexagon": "h",
}
"""Shape to the marker that matplotlib has for it."""

_COLOUR = re.compile(r"#[0-9A-Fa-f]{6}")


@dataclass(frozen=True)
class Look:
    """How a method is drawn: in `#RRGGBB`, outlined in the colour of the text, with a key of `SHAPES`."""

    colour: str
    shape: str


def read_look(value: Any) -> Look | None:
    """Read a look as plugins announce it: `("#0072B2", "circle")`, or None.

    Raises:
        UsageError: It is neither.
    """
    if value is None:
        return None
    if isinstance(value, tuple | list) and len(value) == 2 and all(isinstance(part, str) for part in value):
        colour, shape = value
        if _COLOUR.fullmatch(colour) and shape in SHAPES:
            return Look(colour, shape)
    raise UsageError(
        f"look={value!r}: expected a colour and a shape, such as ('#0072B2', 'circle').",
        f"Shapes: {', '.join(SHAPES)}.",
    )
