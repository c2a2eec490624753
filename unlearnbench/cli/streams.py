"""Standard output and standard error of the command line, whatever their encoding is, and where they are broken.

Text that an encoding lacks is written with the characters it has. Standard output that cannot be written ends
the command with one line; standard error is for people alone and ends nothing.
"""

from __future__ import annotations

import codecs
import contextlib
import io
import os
import sys
import unicodedata
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

from typing_extensions import override

from unlearnbench.errors import WriteError

# How tables are written where there is no better character.
_PLAIN = {"±": "+-", "†": "+", "\N{MINUS SIGN}": "-", "…": "..."}
_ERRORS = "unlearnbench.plain"


class _Checked(io.BufferedIOBase):
    """Bytes that go to a stream; `fail` is called with an error of the stream, which is not written to again."""

    def __init__(self, stream: BinaryIO, fail: Callable[[OSError], None]) -> None:
        self._stream, self._fail = stream, fail

    @override
    def writable(self) -> bool:
        return True

    @override
    def write(self, data: Any) -> int:
        self._try(lambda: self._write_whole(memoryview(data)))
        return len(data)

    @override
    def flush(self) -> None:
        self._try(self._stream.flush)

    @override
    def fileno(self) -> int:
        return self._stream.fileno()

    @override
    def isatty(self) -> bool:
        return self._stream.isatty()

    def _write_whole(self, left: memoryview) -> None:
        # Python started without buffers writes to the file itself, which may take a part.
        while left:
            left = left[self._stream.write(left) or 0 :]

    def _try(self, call: Callable[[], object]) -> None:
        try:
            call()
        except OSError as error:
            # What is still held would be tried again when Python ends, and end in a traceback.
            with contextlib.suppress(OSError), open(os.devnull, "wb") as nothing:
                os.dup2(nothing.fileno(), self._stream.fileno())
            self._fail(error)


@contextlib.contextmanager
def standard_streams() -> Iterator[None]:
    """Put streams in place of the standard ones that write what they can, as this module says, and take them back."""
    codecs.register_error(_ERRORS, _plain)
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = _checked(sys.stdout, _end), _checked(sys.stderr, lambda error: None)
    try:
        yield
    finally:
        made, (sys.stdout, sys.stderr) = (sys.stdout, sys.stderr), before
        for stream, old in zip(made, before, strict=True):
            if stream is not old:
                with contextlib.suppress(WriteError):
                    stream.close()


def _checked(stream: Any, fail: Callable[[OSError], None]) -> Any:
    # Python has no stream where the file was closed; a file that cannot be written takes its place and its number.
    inner = open(os.open(os.devnull, os.O_RDONLY), "wb") if stream is None else getattr(stream, "buffer", None)  # noqa: SIM115
    if inner is None:  # text alone, as in a notebook
        return stream
    encoding, by_lines = ("utf-8", False) if stream is None else (stream.encoding, stream.line_buffering)
    return io.TextIOWrapper(_Checked(inner, fail), encoding, _ERRORS, line_buffering=by_lines)


def _end(error: OSError) -> None:
    raise WriteError(f"Standard output cannot be written: {error.strerror}. Cells that are done have their records.")


def _plain(error: UnicodeError) -> tuple[str, int]:
    """Return what stands for the first characters that an encoding lacks, and where to go on."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end]
    return "".join(map(_plain_character, text)), error.end


def _plain_character(char: str) -> str:
    letters = "".join(part for part in unicodedata.normalize("NFKD", char) if part.isascii())
    return _PLAIN.get(char) or letters or ascii(char)[1:-1]
