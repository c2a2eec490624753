"""How a method looks in every figure: one colour and one shape, on the page and on paper alike."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass


@dataclass(frozen=True)
class Look:
    """How a method is drawn.

    Args:
        colour: `#RRGGBB`; markers and bars have an outline in the colour of the text.
        shape: A key of `SHAPES`.
    """

    colour: str
    shape: str


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

CONTROL = "#9A9A9A"
INK = "#1b1f24"
"""Outlines and text on paper."""

# Blue, orange, green and pink by Okabe and Ito for what stands in most tables, told apart by people who do not see
# all colours; nobody tells twelve colours apart, so each method has a shape of its own as well.
LOOKS = {
    "retrain": Look("#5A5A5A", "star"),
    "sisa": Look("#0072B2", "circle"),
    "grapheraser": Look("#E69F00", "square"),
    "graphrevoker": Look("#009E73", "diamond"),
    "sharded": Look("#CC79A7", "up"),
    "gif": Look("#882255", "down"),
    "gnndelete": Look("#56B4E9", "left"),
    "megu": Look("#D55E00", "right"),
    "scrub": Look("#AA4499", "plus"),
    "idea": Look("#999933", "pentagon"),
    "cgu": Look("#44AA99", "hexagon"),
    "gradient-ascent": Look("#6657B5", "cross"),
    "noop": Look(CONTROL, "circle"),
    "noop-full": Look(CONTROL, "square"),
    "utu": Look(CONTROL, "right"),
    "retrain-leak": Look(CONTROL, "left"),
    "random-init": Look(CONTROL, "down"),
    "over-forget": Look(CONTROL, "cross"),
}
"""The looks of the methods that come with the package."""

MOMENTS = {"clean": "#0072B2", "poisoned": "#D55E00", "unlearned": "#56B4E9", "fresh": "#F0E442"}
"""Colours of the moments of a poison."""

SHADES = {"partition": 1.0, "train": 0.7, "retrain": 0.7, "update": 0.7, "aggregator": 0.45, "other": 0.2}
"""Opacity of each part of a stacked bar, which has its method's colour."""

HEAT = ("#00224E", "#123570", "#3B496C", "#575D6D", "#707173", "#8A8678", "#A59C74", "#C3B369", "#FEE838")
"""Cividis in nine steps, from low to high: the same to people who do not see all colours."""


def look(method: str) -> Look:
    """Give the look of a method.

    One that does not come with the package has the look its name gives, whatever else is drawn beside it.

    Args:
        method: The name of the component.
    """
    if method in LOOKS:
        return LOOKS[method]
    number = int.from_bytes(hashlib.sha256(method.encode()).digest()[:8], "big")
    colours = sorted({one.colour for one in LOOKS.values()} - {CONTROL, LOOKS["retrain"].colour})
    shapes = list(SHAPES)
    return Look(colours[number % len(colours)], shapes[number // len(colours) % len(shapes)])


def luminance(colour: str) -> float:
    """Give the relative luminance of `#RRGGBB` (WCAG 2.2, definition), from 0 (black) to 1 (white)."""
    shares = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    """Give the contrast of two colours (WCAG 2.2), from 1 (none) to 21."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def ink_on(colour: str) -> str:
    """Choose black or white for text on a colour."""
    return max(("#000000", "#ffffff"), key=lambda ink: contrast(ink, colour))
