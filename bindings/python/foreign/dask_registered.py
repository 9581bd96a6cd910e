"""A plugin of pytest: registers `shmarray.dask` before tests are collected.

With a minimum size of 10 kB, so that the arrays of tests go by handle.
"""

import dask.config

import shmarray.dask

dask.config.set({"distributed.shmarray.min-size": 10_000})
shmarray.dask.register()
