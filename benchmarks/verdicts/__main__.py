"""`python benchmarks/verdicts`: truth against verdict of every sample, labelled job and trace."""

import sys
from pathlib import Path

if not __package__:  # run as a folder: make it a package, so that its modules import each other
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from verdicts.run import main

if __name__ == "__main__":
    raise SystemExit(main())
