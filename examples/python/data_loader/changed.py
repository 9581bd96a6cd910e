"""A data loader like PyTorch's: workers make batches of arrays, the trainer takes them in order."""

import sys
import time

import numpy as np
import shmarray.multiprocessing as mp


class Images:
    """A data set: `images[i]` is a picture and its label."""

    def __init__(self, count, side):
        self.count = count
        self.side = side

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return np.full((3, self.side, self.side), index % 256, dtype=np.uint8), index % 10


def make_batches(dataset, batch_size, tasks, results):
    for number, first in iter(tasks.get, None):
        samples = [dataset[index] for index in range(first, min(first + batch_size, len(dataset)))]
        pictures, labels = zip(*samples, strict=True)
        results.put((number, (np.stack(pictures), np.array(labels))))


class Loader:
    """Batches in order; each worker is at most `prefetch` of them ahead."""

    def __init__(self, dataset, batch_size, workers=2, prefetch=2):
        self.dataset = dataset
        self.batch_size = batch_size
        self.workers = workers
        self.prefetch = prefetch

    def __len__(self):
        return -(-len(self.dataset) // self.batch_size)

    def __iter__(self):
        tasks = mp.Queue()
        results = mp.Queue()
        arguments = (self.dataset, self.batch_size, tasks, results)
        processes = [
            mp.Process(target=make_batches, args=arguments, daemon=True)
            for _ in range(self.workers)
        ]
        for process in processes:
            process.start()
        for number in range(min(len(self), self.workers * self.prefetch)):
            tasks.put((number, number * self.batch_size))
        early = {}
        for wanted in range(len(self)):
            while wanted not in early:
                number, batch = results.get()
                early[number] = batch
            following = wanted + self.workers * self.prefetch
            if following < len(self):
                tasks.put((following, following * self.batch_size))
            yield early.pop(wanted)
        for _ in processes:
            tasks.put(None)
        for process in processes:
            process.join()


def main(count, side, batch_size):
    began = time.perf_counter()
    brightness = sum(
        float(pictures[:, 0, 0, 0].mean()) + float(labels.mean())
        for pictures, labels in Loader(Images(count, side), batch_size)
    )
    print(
        f"result {brightness:.1f} of {count} pictures of 3 × {side} × {side},"
        f" {batch_size} in a batch"
    )
    print(f"seconds {time.perf_counter() - began:.4f}")


if __name__ == "__main__":
    main(*((64, 16, 8) if "--small" in sys.argv else (4096, 224, 64)))
