"""python -m attune: the command line."""
import sys

from . import _core


def main():
    return _core.main(["attune", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
