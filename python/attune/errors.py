"""What attune raises."""
import linecache


class Error(Exception):
    """A mistake, or what went wrong.

    `message` says subject, actual against required, and the remedy. `file`, `line` and `column` are the place in the user's source, None, 0 and 0
    where it has none. str() is "file:line:column: error: message", with the line and a caret below it.
    """

    def __init__(self, message, file=None, line=0, column=0, excerpt=""):
        self.message = message
        self.file = (file or None) if line else None
        self.line = line
        self.column = column
        self.excerpt = excerpt or self._source()
        super().__init__(self._text())

    def _source(self):
        if not self.file:
            return ""
        source = linecache.getline(self.file, self.line).rstrip("\n")
        if not source.strip():
            return ""
        return source + (f"\n{' ' * (self.column - 1)}^" if self.column else "")

    def _text(self):
        place = f"{self.file}:{self.line}" + (f":{self.column}" if self.column else "") + ": " if self.file else ""
        return f"{place}error: {self.message}" + (f"\n{self.excerpt}" if self.excerpt else "")
