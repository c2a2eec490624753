"""The bracket notation: `graphrevoker[sem_weight=0]`, `sharded[partitioner=bekm[slack=0]]`.

Grammar: `name`, or `name[key=value, ...]`, where a value is another bracket, plain text
without commas and brackets, or text in double quotes, in which a double quote is written twice.
`file:PATH` is short for `file[path=PATH]`; a path with commas or brackets goes in double quotes.
An outermost bracket may have an alias in front: `mine=sharded[partitioner=bekm]`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from unlearnbench.errors import UsageError

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:/+-]*")
KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")
ALIAS = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")
BARE_VALUE = re.compile(r'[^\[\],="\n\r]+')
FILE = "file"
FILE_PREFIX = f"{FILE}:"
BARE_PATH = re.compile(r'[^\[\],"\n\r]+')
QUOTED = re.compile(r'"((?:[^"\n\r]|"")*)"')
# No component has parts nested this deep: a deeper text is a typing mistake.
DEEPEST = 20


@dataclass(frozen=True)
class Bracket:
    """A name and its arguments as they were written, before any look-up.

    Args:
        name: A component's name, perhaps with its distribution: `dist:name`.
        arguments: Key to text, or to a bracket where the value had one itself.
        alias: What tables show in its place; empty: its label.

    Raises:
        UsageError: A value holds a line break, which the notation cannot express.
    """

    name: str
    arguments: dict[str, str | Bracket] = field(default_factory=dict)
    alias: str = ""

    def __post_init__(self) -> None:
        for key, value in self.arguments.items():
            if isinstance(value, str) and set(value) & set("\n\r"):
                raise UsageError(
                    f"{self.name}: the value {value!r} of {key!r} holds a line break.",
                    "Write a value without one; a file can be given another name.",
                )

    def __str__(self) -> str:
        front = f"{self.alias}={self.name}" if self.alias else self.name
        if not self.arguments:
            return front
        inside = ",".join(f"{key}={_show(value)}" for key, value in self.arguments.items())
        return f"{front}[{inside}]"


def _show(value: str | Bracket) -> str:
    text = str(value)
    plain = isinstance(value, Bracket) or (bool(BARE_VALUE.fullmatch(text)) and text == text.strip())
    return text if plain else '"' + text.replace('"', '""') + '"'


def _unquoted(matched: re.Match[str]) -> str:
    return matched[1].replace('""', '"')


class _Reader:
    """Parses one text from left to right; errors name the character position."""

    def __init__(self, text: str) -> None:
        self.text, self.at, self.depth = text, 0, 0

    def fail(self, wanted: str) -> UsageError:
        character = repr(self.text[self.at]) if self.at < len(self.text) else "the end"
        return UsageError(
            f"Cannot read {self.text!r}: expected {wanted} at character {self.at + 1}, found {character}.",
            "The form is name[key=value,key=other[key=value]].",
        )

    def skip(self) -> None:
        while self.at < len(self.text) and self.text[self.at] in " \t":
            self.at += 1

    def take(self, char: str) -> bool:
        self.skip()
        if self.text[self.at : self.at + 1] == char:
            self.at += 1
            return True
        return False

    def match(self, pattern: re.Pattern[str], wanted: str) -> re.Match[str]:
        self.skip()
        matched = pattern.match(self.text, self.at)
        if matched is None:
            raise self.fail(wanted)
        self.at = matched.end()
        return matched

    def outermost(self) -> Bracket:
        """Read a bracket, perhaps with an alias in front."""
        self.skip()
        start = self.at
        named = None if self.text.startswith(FILE_PREFIX, start) else NAME.match(self.text, start)
        if named is not None:
            self.at = named.end()
            if self.take("="):
                if not ALIAS.fullmatch(named[0]):
                    raise UsageError(
                        f"Cannot read {self.text!r}: {named[0]!r} at character {start + 1} cannot be an alias.",
                        "Use letters, digits, dots, - and _.",
                    )
                return replace(self.bracket(), alias=named[0])
            self.at = start
        return self.bracket()

    def bracket(self) -> Bracket:
        self.skip()
        if self.text.startswith(FILE_PREFIX, self.at):
            return self.file()
        name = self.match(NAME, "a name")[0]
        return Bracket(name, self.arguments() if self.take("[") else {})

    def file(self) -> Bracket:
        self.at += len(FILE_PREFIX)
        quoted = QUOTED.match(self.text, self.at)
        if quoted is not None:
            self.at, path = quoted.end(), _unquoted(quoted)
        else:
            path = self.match(BARE_PATH, "a path")[0].strip()
        arguments = self.arguments() if self.take("[") else {}
        if "path" in arguments:
            raise UsageError(f"{self.text!r} names two paths.", f"Write {FILE_PREFIX}PATH or {FILE}[path=PATH].")
        return Bracket(FILE, {"path": path, **arguments})

    def arguments(self) -> dict[str, str | Bracket]:
        arguments: dict[str, str | Bracket] = {}
        if self.take("]"):
            return arguments
        self.depth += 1
        if self.depth > DEEPEST:
            raise UsageError(
                f"Brackets stand in brackets more than {DEEPEST} deep, at character {self.at + 1}.",
                "Close a bracket before the next one.",
            )
        while True:
            key = self.match(KEY, "a parameter's name")[0]
            if key in arguments:
                raise UsageError(f"Parameter {key!r} is given twice in {self.text!r}.", "Leave one out.")
            if not self.take("="):
                raise self.fail("'='")
            arguments[key] = self.value()
            if self.take("]"):
                self.depth -= 1
                return arguments
            if not self.take(","):
                raise self.fail("',' or ']'")

    def value(self) -> str | Bracket:
        self.skip()
        quoted = QUOTED.match(self.text, self.at)
        if quoted is not None:
            self.at = quoted.end()
            return _unquoted(quoted)
        start = self.at
        text = self.match(BARE_VALUE, "a value")[0].strip()
        if self.text[self.at : self.at + 1] == "[":
            self.at = start
            return self.bracket()
        return text


def parse_bracket(text: str) -> Bracket:
    """Read one component with its arguments, and its alias if there is one.

    Raises:
        UsageError: The text does not follow the grammar; the message names the position.
    """
    reader = _Reader(text)
    bracket = reader.outermost()
    reader.skip()
    if reader.at != len(text):
        raise reader.fail("',' or the end")
    return bracket


def split_names(texts: Sequence[str]) -> list[str]:
    """Split comma-separated lists at the commas outside brackets and quotes."""
    names: list[str] = []
    for text in texts:
        depth, quoted, start = 0, False, 0
        for at, char in enumerate(text):
            quoted ^= char == '"'
            if not quoted:
                depth += (char == "[") - (char == "]")
            if char == "," and depth == 0 and not quoted:
                names.append(text[start:at])
                start = at + 1
        names.append(text[start:])
    return [name.strip() for name in names if name.strip()]
