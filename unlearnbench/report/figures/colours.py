"""How a method looks in every figure: one colour and one shape, on the page and on paper alike."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from unlearnbench.registry.catalogue import Catalogue
from unlearnbench.registry.loading import load_catalogue
from unlearnbench.registry.looks import SHAPES, Look

CONTROL = "#9A9A9A"
INK = "#1b1f24"
"""Outlines and text on paper."""

# Blue, orange, green and pink by Okabe and Ito for what stands in most tables, told apart by people who do not see
# all colours; nobody tells twelve colours apart, so each method has a shape of its own as well.
PALETTE = (
    "#0072B2",
    "#009E73",
    "#44AA99",
    "#56B4E9",
    "#6657B5",
    "#882255",
    "#999933",
    "#AA4499",
    "#CC79A7",
    "#D55E00",
    "#E69F00",
    "#332288",
    "#117733",
    "#661100",
    "#DDCC77",
    "#9955FF",
    "#55DDFF",
    "#335500",
    "#DD00DD",
    "#EE8866",
    "#FFAABB",
    "#004488",
    "#EEDD88",
    "#225522",
    "#7A3B00",
)
"""Colours of methods that announce no look."""

MOMENTS = {"clean": "#0072B2", "poisoned": "#D55E00", "unlearned": "#56B4E9", "fresh": "#F0E442"}
"""Colours of the moments of a poison."""

SHADES = {"partition": 1.0, "train": 0.7, "retrain": 0.7, "update": 0.7, "aggregator": 0.45, "other": 0.2}
"""Opacity of each part of a stacked bar, which has its method's colour."""

HEAT = ("#00224E", "#123570", "#3B496C", "#575D6D", "#707173", "#8A8678", "#A59C74", "#C3B369", "#FEE838")
"""Cividis in nine steps, from low to high: the same to people who do not see all colours."""


@dataclass(frozen=True)
class Looks:
    """How methods are drawn: as they were announced, else as their names give."""

    announced: Mapping[str, Look]

    def of(self, method: str) -> Look:
        """Return the look of a method, whatever else is drawn beside it."""
        if method in self.announced:
            return self.announced[method]
        number = int.from_bytes(hashlib.sha256(method.encode()).digest()[:8], "big")
        shapes = list(SHAPES)
        return Look(PALETTE[number % len(PALETTE)], shapes[number // len(PALETTE) % len(shapes)])


def find_looks(catalogue: Catalogue | None = None) -> Looks:
    """Collect the looks that plugins announce; the looks of a name that two distributions have are not used."""
    entries = (catalogue or load_catalogue()).entries["unlearner"]
    return Looks({name: one[0].look for name, one in entries.items() if len(one) == 1 and one[0].look is not None})


def luminance(colour: str) -> float:
    """Return the relative luminance of `#RRGGBB` (WCAG 2.2, definition), from 0 (black) to 1 (white)."""
    shares = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours (WCAG 2.2), from 1 (none) to 21."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def ink_on(colour: str) -> str:
    """Choose black or white for text on a colour."""
    return max(("#000000", "#ffffff"), key=lambda ink: contrast(ink, colour))
