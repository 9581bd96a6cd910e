"""A data set of records that workers read, kept in one way; times or weighs it for each line.

    python lists.py WAY CASE COUNT

The ways are `ours`; `in a file`, ours, opened there; `plain`, a list of Python; `serialised`, one
array of pickles and their offsets, as PyTorch's users copy it from project to project; `datasets`,
of Hugging Face, on disk; `manager`, a list of multiprocessing.Manager.
"""

import json
import multiprocessing
import os
import pathlib
import pickle
import random
import sys
import tempfile
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))
import memory
import numpy as np
import shmarray

ITEMS = 20_000
WORKERS = 8
WORDS = ["the", "quick", "brown", "fox", "jumps", "over", "a", "lazy", "dog", "and", "runs", "away"]


def records(count):
    """A label, three strings and 100 floats each."""
    values = np.random.default_rng(0).random(100).astype("f4")
    for number in range(count):
        yield {
            "label": number % 1000,
            "name": f"sample-{number:08}",
            "caption": " ".join(WORDS[number % 7 :]),
            "path": f"/data/training/{number // 1000:04}/{number:08}.png",
            "values": values + np.float32(number % 97),
        }


def ragged(count):
    lengths = np.random.default_rng(0).integers(1, 40, count)
    source = np.arange(40.0)
    return [source[:length].copy() for length in lengths]


class Serialised:
    """Items as pickles in one array, which nobody's reference counts touch."""

    def __init__(self, items):
        pickles = [np.frombuffer(pickle.dumps(item, -1), "u1") for item in items]
        self.ends = np.cumsum([len(one) for one in pickles])
        self.bytes = np.concatenate(pickles)

    def __len__(self):
        return len(self.ends)

    def __getitem__(self, index):
        start = 0 if index == 0 else self.ends[index - 1]
        return pickle.loads(memoryview(self.bytes[start : self.ends[index]]))


def kept(way, items, folder, count):
    match way:
        case "ours":
            return shmarray.List(items)
        case "in a file":
            shmarray.List(items).save(folder / "items")
            return shmarray.List.open(folder / "items")
        case "plain":
            return list(items)
        case "serialised":
            return Serialised(items)
        case "datasets":
            import datasets

            datasets.disable_progress_bars()
            cache = str(folder / "cache")
            made = datasets.Dataset.from_generator(
                records, gen_kwargs={"count": count}, cache_dir=cache
            )
            made.save_to_disk(folder / "items")
            return datasets.load_from_disk(folder / "items").with_format("numpy")
        case "manager":
            kept.manager = multiprocessing.Manager()
            return kept.manager.list(items)


def random_items(items):
    """The seconds for an item, at random."""
    places = random.Random(0).choices(range(len(items)), k=min(ITEMS, len(items)))

    def run():
        began = time.perf_counter()
        for place in places:
            items[place]
        return (time.perf_counter() - began) / len(places)

    return run


def building(way, source):
    def run():
        began = time.perf_counter()
        made = kept(way, source, None, len(source))
        seconds = time.perf_counter() - began
        del made
        return seconds / len(source)

    return run


def opening(folder, items):
    path = folder / "items"
    items.save(path)

    def run():
        began = time.perf_counter()
        shmarray.List.open(path)
        return time.perf_counter() - began

    return run


def attaching(items):
    text = str(shmarray.handle(items))

    def run():
        began = time.perf_counter()
        shmarray.attach(text)
        return time.perf_counter() - began

    run.items = items
    return run


def work(items, ready, go, done, stay):
    """Touches all items, and waits to be weighed."""
    ready.release()
    go.wait()
    if items is not None:
        total = 0
        for item in items:
            total += item["label"] + float(item["values"][0])
    done.release()
    stay.wait()


def with_workers(items):
    """The seconds until the workers run, and the bytes of all when each has touched all items."""
    context = multiprocessing.get_context("fork")

    def run():
        ready, done = context.Semaphore(0), context.Semaphore(0)
        go, stay = context.Event(), context.Event()
        began = time.perf_counter()
        workers = [
            context.Process(target=work, args=(items, ready, go, done, stay))
            for _ in range(WORKERS)
        ]
        for worker in workers:
            worker.start()
        for _ in workers:
            ready.acquire()
        seconds = time.perf_counter() - began
        go.set()
        for _ in workers:
            done.acquire()
        pids = [os.getpid(), *(worker.pid for worker in workers)]
        weight = sum(memory.of_process(pid)["pss"] for pid in pids)
        stay.set()
        for worker in workers:
            worker.join()
        return {"start": seconds, "memory": weight}

    return run


def runner(way, case, count, folder):
    match case:
        case "record":
            return random_items(kept(way, list(records(count)), folder, count))
        case "ragged":
            return random_items(kept(way, ragged(count), folder, count))
        case "build ragged":
            return building(way, ragged(count))
        case "build records":
            return building(way, list(records(count)))
        case "open":
            return opening(folder, shmarray.List(records(count)))
        case "attach":
            return attaching(shmarray.List(records(count)))
        case "workers":
            return with_workers(
                None if way == "nothing" else kept(way, records(count), folder, count)
            )


def main():
    way, case, count = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        run = runner(way, case, int(count), pathlib.Path(folder))
        if case != "workers":
            run()
        for _ in sys.stdin:
            print(json.dumps({"seconds": run()}), flush=True)
    for child in multiprocessing.active_children():
        child.kill()
    os._exit(0)


if __name__ == "__main__":
    main()
