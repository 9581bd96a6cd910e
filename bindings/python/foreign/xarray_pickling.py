"""xarray's own tests of pickling, with shmarray's pickling in the place of pickle's.

    python bindings/python/foreign/xarray_pickling.py

What differs is listed in xarray_pickling.toml; pickling.py says what is run.
"""

import sys
from pathlib import Path

import pickling
import xarray as xr

if __name__ == "__main__":
    sys.exit(pickling.main(pickling.Suite(xr, Path(__file__).with_suffix(".toml"))))
