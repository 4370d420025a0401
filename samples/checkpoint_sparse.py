"""The twin of checkpoint_often.py: the same model, saved once in 100 steps.

What is left is Adam's update of a large embedding: memory traffic.

fixes: checkpoint_often.py
expect: bottleneck=memory-bound|compute-bound, checkpoint<=0.3
"""

import os
import runpy
from pathlib import Path

os.environ.setdefault("EVERY", "100")
os.environ.setdefault("STEPS", "200")
runpy.run_path(str(Path(__file__).with_name("checkpoint_often.py")), run_name="__main__")
