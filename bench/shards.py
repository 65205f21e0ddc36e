"""Work in shares: --shard 2/3 is every third item, from the second."""


def add_shard(parser, what):
    """The option --shard I/N of a program whose items are called `what`."""
    parser.add_argument("--shard", type=_slice, default=slice(None), metavar="I/N", help=f"every Nth {what} from the Ith")


def _slice(text):
    index, count = map(int, text.split("/"))
    return slice(index - 1, None, count)
