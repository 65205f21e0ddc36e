"""What attune raises, and where."""
import functools
import itertools
import linecache
import os
import sys
import types

_LIBRARIES = (os.path.dirname(os.path.abspath(__file__)) + os.sep,)  # whose frames are never the user's


def library(folder):
    """Frames of files in this folder are not the user's either."""
    global _LIBRARIES
    _LIBRARIES += (os.path.join(os.path.abspath(folder), ""),)


def here():
    """File, line and column of the innermost caller outside this package and the libraries below it; the column is 0 before Python 3.11."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_LIBRARIES):
        frame = frame.f_back
    if frame is None:
        return ("", 0, 0)
    code, column = frame.f_code, 0
    if frame.f_lasti >= 0 and hasattr(code, "co_positions"):
        positions = next(itertools.islice(code.co_positions(), frame.f_lasti // 2, None), (None,) * 4)
        if positions[0] == frame.f_lineno and positions[2] is not None:
            line = _source_bytes(code.co_filename, frame.f_lineno)
            column = len(line[:positions[2]].decode("utf-8", "replace")) + 1  # positions count bytes of UTF-8
    return (code.co_filename, frame.f_lineno, column)


def _source_line(file, line):
    """"" where the file is a device, which may have no end."""
    return "" if os.path.exists(file) and not os.path.isfile(file) else linecache.getline(file, line)


def _source_bytes(file, line):
    return _source_line(file, line).encode() or b" " * 4096


def users(traceback):
    """The traceback without the frames of this package and of the libraries below it."""
    entries = []
    while traceback is not None:
        entries.append(traceback)
        traceback = traceback.tb_next
    kept = None
    for entry in reversed(entries):
        if not entry.tb_frame.f_code.co_filename.startswith(_LIBRARIES):
            kept = types.TracebackType(kept, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return kept


def _is_users(error):
    """Whether the user's code raised it, or attune did because of it: of any other error this package's frames are what helps."""
    traceback = error.__traceback__
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    return isinstance(error, Error) or not traceback.tb_frame.f_code.co_filename.startswith(_LIBRARIES)


def public(function):
    """The function, whose errors have the user's frames alone in their tracebacks, and between them one of this package: that of the call."""

    @functools.wraps(function)
    def call(*arguments, **named):
        __tracebackhide__ = True  # of pytest
        try:
            return function(*arguments, **named)
        except Exception as error:
            if not _is_users(error):
                raise
            raise error.with_traceback(users(error.__traceback__))

    return call


class Error(RuntimeError):
    """A mistake, or what went wrong; a RuntimeError, as most of PyTorch's errors are.

    `message` says subject, actual against required, and the remedy. `file`, `line` and `column` (from 1; 0 is unknown) are the place in the user's
    source: of the expression, else of the call. str() is "file:line:column: error: message", with the line and a caret below it.
    """

    def __init__(self, message, file=None, line=0, column=0, excerpt=""):
        if not line:
            file, line, column = here()
        self.message = message
        self.file, self.line, self.column = file, line, column
        self.excerpt = excerpt or self._source()
        super().__init__(self._text())

    def again(self):
        """The same mistake, to raise another time."""
        return type(self)(self.message, self.file, self.line, self.column, self.excerpt)

    def _source(self):
        if not self.file:
            return ""
        source = _source_line(self.file, self.line).rstrip("\n")
        if not source.strip():
            return ""
        return source + (f"\n{' ' * (self.column - 1)}^" if self.column else "")

    def _text(self):
        place = f"{self.file}:{self.line}" + (f":{self.column}" if self.column else "") + ": " if self.file else ""
        return f"{place}error: {self.message}" + (f"\n{self.excerpt}" if self.excerpt else "")
