"""What the tests of the package share."""
import shlex
import subprocess
import sys


def run(command, **options):
    """Standard output of a command that has to succeed; of one that fails the last 20,000 characters of each stream are the exit's message."""
    command = list(map(str, command))
    done = subprocess.run(command, capture_output=True, text=True, **options)
    if done.returncode != 0:
        sys.exit(f"{shlex.join(command)}: exit code {done.returncode}\n{done.stdout[-20000:]}{done.stderr[-20000:]}")
    return done.stdout
