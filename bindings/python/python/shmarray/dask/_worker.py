"""What a worker needs beside what applies to its whole process."""

import numpy as np
from distributed import Worker

from .. import is_shared
from . import _pool
from ._counters import counters
from ._results import Results, shared_first

METRIC = "shmarray"
"""The key of a worker's metric."""
_MARK = "_shmarray_results"


def attend(worker: Worker) -> None:
    """Attends to a worker of this process. A second call does nothing."""
    if hasattr(worker, _MARK):
        return
    results = Results(worker.data)
    setattr(worker, _MARK, results)
    worker.handlers["get_data"] = shared_first(worker.get_data, results)
    worker.metrics[METRIC] = _metric
    # A comm of before has no identity in its handshake.
    worker.rpc.collect()


async def _metric(worker: Worker) -> dict[str, int]:
    """Returns what the dashboard and the scheduler show of a worker. Dask asks every second."""
    _pool.tend()
    arrays = [
        value
        for value in list(getattr(worker.data, "fast", worker.data).values())
        if type(value) is np.ndarray and value.base is not None and is_shared(value)
    ]
    held = {"arrays": len(arrays), "bytes": sum(array.nbytes for array in arrays)}
    return {**held, **counters()._asdict()}
