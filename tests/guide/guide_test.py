#!/usr/bin/env python3
"""Runs the commands of a guide and compares what they print with what the guide shows.

    guide_test.py docs/guide/masks.md build/bin/attune [--update]

In an indented block a line `$ COMMAND` is a command (a `\\` at its end continues it), and what follows, to the next one or the end of the
block, is what it prints. They run in order, in one folder that is empty at first and is the home folder, ~; $CHECKOUT is the repository. In the output shown

    ...              on a line of its own stands for any lines, within a line for any text
    two spaces // x  at the end of a line is a remark

White space counts as one space. Numbers beside times and rates, errors, registers and sizes of binaries are not compared: they are the
machine's and NVRTC's. --update replaces each line shown by the line that is most like it, in place; new lines are the author's.
"""
import difflib
import os
import re
import subprocess
import sys
import tempfile

INDENT = "    "
SKIPPED = 77
NVRTC = "13.0"  # plans follow from the registers that it takes
VARIES = re.compile(r"\b(ms|rms|GFLOP/s)\b|^ *(registers|binary) ")
NUMBER = re.compile(r"\d+(\.\d+)?(e[+-]\d+)?")
REMARK = re.compile(r"  +// .*$")


def same(shown, printed):
    """Whether a line of the guide is that line of the output."""
    def words(line):
        return " ".join((NUMBER.sub("#", line) if VARIES.search(line) else line).split())

    for text in {shown, REMARK.sub("", shown)}:
        pattern = ".*".join(re.escape(part.strip()) for part in words(text).split("..."))
        if re.fullmatch(pattern, words(printed)):
            return True
    return False


def difference(shown, printed):
    """The first line shown that is not printed where it should be, or None."""
    at, anywhere = 0, False
    for line in shown:
        if line.strip() == "...":
            anywhere = True
            continue
        end = len(printed) if anywhere else min(at + 1, len(printed))
        found = next((i for i in range(at, end) if same(line, printed[i])), None)
        if found is None:
            return line
        at, anywhere = found + 1, False
    if not anywhere and at < len(printed):
        return "(the end; printed is: " + printed[at] + ")"
    return None


def updated(shown, printed):
    """`shown` with each line replaced by the most similar of those that can stand there."""
    result, at = [], 0
    for line in shown:
        if line.strip() != "..." and at < len(printed):
            remark = REMARK.search(line)
            text = line[: remark.start()] if remark else line
            likeness = [difflib.SequenceMatcher(None, text.split(), each.split()).ratio() for each in printed[at:]]
            best = max(range(len(likeness)), key=likeness.__getitem__)
            at += best + 1
            if not same(line, printed[at - 1]):
                text = printed[at - 1] if not text.endswith("...") else printed[at - 1][: len(text) - 3] + "..."
                line = text + (remark.group() if remark else "")
        result.append(line)
    return result


def read_guide(text):
    """Pieces of the text: strings, and [command, lines shown] of commands."""
    pieces, lines, inside = [], text.split("\n"), False
    i = 0
    while i < len(lines):
        if lines[i].startswith(INDENT + "$ "):
            begin = i
            while lines[i].endswith("\\"):
                i += 1
            pieces.append(["\n".join(line[len(INDENT):] for line in lines[begin : i + 1])[2:], []])
            inside = True
        elif inside and lines[i].startswith(INDENT):
            pieces[-1][1].append(lines[i][len(INDENT):])
        else:
            inside = False
            pieces.append(lines[i])
        i += 1
    return pieces


def write_guide(pieces):
    lines = []
    for piece in pieces:
        lines += [piece] if isinstance(piece, str) else [INDENT + "$ " + piece[0].replace("\n", "\n" + INDENT)] + [INDENT + line for line in piece[1]]
    return "\n".join(lines)


def run(command, folder, environment):
    done = subprocess.run(["bash", "-c", command], cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=120)
    return done.stdout.decode(errors="replace").replace(folder, "~").splitlines()


def main():
    guide, attune, *flags = sys.argv[1:]
    with open(guide) as file:
        pieces = read_guide(file.read())
    faults, commands = [], [piece for piece in pieces if not isinstance(piece, str)]
    with tempfile.TemporaryDirectory() as folder:
        tools = os.path.dirname(os.path.abspath(attune))
        environment = dict(os.environ, PATH=tools + os.pathsep + os.environ["PATH"], HOME=folder,
                           CHECKOUT=os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
        for variable in ("ATTUNE_CACHE_DIR", "ATTUNE_LOG", "XDG_CACHE_HOME"):
            environment.pop(variable, None)
        probe = "\n".join(run("ATTUNE_LOG=debug attune compile --arch sm_90 --head-dim 16 --no-cache", folder, environment))
        version = re.search(r"NVRTC ([0-9.]+) is ", probe)
        if not version or version.group(1) != NVRTC:
            print(f"skipped: the guide shows what NVRTC {NVRTC} makes; this is {version.group(1) if version else 'none'}")
            sys.exit(SKIPPED)
        for piece in commands:
            command, shown = piece
            printed = run(command, folder, environment)
            fault = difference(shown, printed)
            if fault is not None and "--update" in flags:
                piece[1] = updated(shown, printed)
                fault = difference(piece[1], printed)
            if fault is not None:
                faults.append(f"$ {command}\nthe guide shows    {fault}\nprinted is\n  " + "\n  ".join(printed[:60]))
    if "--update" in flags:
        with open(guide, "w") as file:
            file.write(write_guide(pieces))
    print("\n\n".join(faults) if faults else f"{len(commands)} commands print what the guide shows")
    sys.exit(1 if faults or not commands else 0)


if __name__ == "__main__":
    main()
