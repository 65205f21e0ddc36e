"""What the generators of reference pages share: prose wrapped, tables, the note at the top."""
import re
import textwrap

WIDTH = 120


def note(source):
    return f"<!-- Generated from {source} by `ninja -C build update-docs`; do not edit. -->\n\n"


def wrapped(text, indent=""):
    """Prose of Markdown in lines of at most WIDTH characters; `indent` stands before all lines but the first."""
    lines = textwrap.wrap(" ".join(text.split()), WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    # A line that began with one of these would be a list item, a heading or a table.
    return "\n".join(re.sub(r"^(\s*)([-+*#|>]|\d+\.)(?=\s)", r"\1\\\2", line) if i else line for i, line in enumerate(lines))


def escaped(text):
    """`text` outside of code: no HTML, no emphasis by accident."""
    return re.sub(r"(<|(?<!\w)_(?=\w)|(?<=\w)_(?!\w)|\*(?! ))", r"\\\1", text)


def cell(text):
    return text.replace("|", "\\|")


def write(path, text):
    with open(path, "w") as out:
        out.write(re.sub(r"\n{3,}", "\n\n", text).rstrip("\n") + "\n")
