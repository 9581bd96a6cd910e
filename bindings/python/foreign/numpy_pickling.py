"""NumPy's own tests of pickling, with shmarray's pickling in the place of pickle's.

    python bindings/python/foreign/numpy_pickling.py

What differs is listed in numpy_pickling.toml; pickling.py says what is run.
"""

import sys
from pathlib import Path

import numpy as np
import pickling

if __name__ == "__main__":
    sys.exit(pickling.main(pickling.Suite(np, Path(__file__).with_suffix(".toml"))))
