"""`python -m weft`: the same program as `weft`."""

import sys

from weft.cli import main

sys.exit(main())
