"""The twin of checkpoint_often.py: the same model, saved once in 200 steps.

fixes: checkpoint_often.py
expect: bottleneck=compute-bound|memory-bound, checkpoint<=0.3
"""

import os
import runpy
from pathlib import Path

os.environ.setdefault("EVERY", "200")
os.environ.setdefault("STEPS", "400")
runpy.run_path(str(Path(__file__).with_name("checkpoint_often.py")), run_name="__main__")
