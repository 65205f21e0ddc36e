#!/usr/bin/env python3
"""check_snippet.py README EXAMPLE: README holds the example's lines between `// [README` and `// README]`."""
import re
import sys
import textwrap

readme, example = (open(path).read() for path in sys.argv[1:])
snippet = textwrap.dedent(re.search(r"// \[README\n(.*?)[ \t]*// README\]", example, re.DOTALL).group(1)).strip()
if snippet not in readme:
    sys.exit(f"{sys.argv[1]} does not hold this snippet of {sys.argv[2]}; copy it there:\n\n{snippet}")
