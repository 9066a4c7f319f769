"""`python -m barnabas` is `barnabas`."""

import sys

from barnabas.cli.main import main

sys.exit(main())
