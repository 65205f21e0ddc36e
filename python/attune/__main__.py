"""python -m attune: the command line."""
import signal
import sys

from . import _core


def main():
    # As of any other command: Python ignores the first, so that `attune list | head` would end in an error, and keeps the second for itself while
    # attune compiles.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _core.main(["attune", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
