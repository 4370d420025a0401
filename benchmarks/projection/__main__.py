"""`python benchmarks/projection FILE.csv`: how well projections hold against published figures."""

import sys
from pathlib import Path

if not __package__:  # run as a folder: make it a package, so that its modules import each other
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

try:
    from projection.score import main
except ImportError as error:
    raise SystemExit(f"projection: {error}; install accelprof[projection]") from None

if __name__ == "__main__":
    raise SystemExit(main())
