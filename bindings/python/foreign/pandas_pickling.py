"""pandas' own tests of pickling, with shmarray's pickling in the place of pickle's, also in
read_pickle and to_pickle.

    python bindings/python/foreign/pandas_pickling.py [--all]

Without --all, those are left out that do the same with another protocol of pickle: ours has one.
What differs is listed in pandas_pickling.toml; pickling.py says what is run.
"""

import argparse
import sys
from pathlib import Path

import pandas as pd
import pandas.io.pickle
import pickling

NO_PICKLES = r"pytables|test_http_headers|compression"
"""Files about PyTables, servers, and how small a file becomes."""
AGAIN = r"pandas_proto_(highest|\d)"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--all", action="store_true")
    options = parser.parse_args()
    without = NO_PICKLES if options.all else f"{NO_PICKLES}|{AGAIN}"
    suite = pickling.Suite(pd, Path(__file__).with_suffix(".toml"), [pandas.io.pickle], without)
    suite.options = ["--no-strict-data-files"]  # the wheel has none of them
    return pickling.main(suite)


if __name__ == "__main__":
    sys.exit(main())
