"""A worker of somebody's processes that changes an array and makes another: says whether both were
shared.

Arguments: whose processes, by which start method, and "on" for `shmarray.pickle_by_handle`.
"""

import concurrent.futures
import json
import multiprocessing
import sys

import numpy as np

import shmarray


def work(array):
    array += 1
    return shmarray.is_shared(array), shmarray.full(4, 3.0), np.full(4, 2.0)


def by_dask(array, _):
    import dask

    return dask.compute(dask.delayed(work)(array), scheduler="processes", num_workers=1)[0]


def by_futures(array, method):
    context = multiprocessing.get_context(method)
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as executor:
        return executor.submit(work, array).result()


def by_loky(array, _):
    from joblib.externals import loky

    executor = loky.get_reusable_executor(1)
    result = executor.submit(work, array).result()
    executor.shutdown()
    return result


def by_mpire(array, method):
    import mpire

    with mpire.WorkerPool(n_jobs=1, start_method=method, use_dill=True) as pool:
        return pool.map(work, [(array,)], concatenate_numpy_output=False)[0]


def by_p_tqdm(array, _):
    from p_tqdm import p_map

    return p_map(work, [array], num_cpus=1, disable=True)[0]


def by_pathos(array, _):
    from pathos.multiprocessing import ProcessPool

    pool = ProcessPool(1)
    result = pool.map(work, [array])[0]
    pool.close()
    pool.join()
    pool.clear()
    return result


def by_pool(array, method):
    with multiprocessing.get_context(method).Pool(1) as pool:
        return pool.map(work, [array])[0]


def put(array, queue):
    queue.put(work(array))


def by_queue(array, method):
    """Puts into a standard queue in a process of ours, which ends before the message is
    received.
    """
    import shmarray.multiprocessing as mp

    queue = multiprocessing.get_context(method).Queue()
    process = mp.get_context(method).Process(target=put, args=(array, queue))
    process.start()
    process.join()
    return queue.get()


def main():
    way, method, switch = sys.argv[1:]
    array = shmarray.zeros(3)
    if way == "queue":  # a server of ours runs before the switch is on
        import shmarray.multiprocessing as mp

        first = mp.get_context(method).Process(target=shmarray.sweep)
        first.start()
        first.join()
    if switch == "on":
        shmarray.pickle_by_handle()
    was_shared, made, private = globals()[f"by_{way}"](array, method)
    said = [was_shared, array.tolist(), shmarray.is_shared(made), made.tolist(), private.tolist()]
    del made
    print(
        json.dumps([*said, [info.tickets for info in shmarray.segments() if info.kind == "array"]])
    )


if __name__ == "__main__":
    main()
