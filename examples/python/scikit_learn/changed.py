"""Cross-validation of a nearest-neighbour classifier by joblib: the data goes to the workers by handle."""

import sys
import time

import joblib
import numpy as np
import shmarray.joblib
from sklearn.model_selection import cross_val_score
from sklearn.neighbors import KNeighborsClassifier


def data(samples, features):
    random = np.random.default_rng(7)
    values = random.random((samples, features))
    return values, (values[:, 0] + values[:, 1] > 1).astype(int)


def main(samples, features):
    values, labels = data(samples, features)
    shmarray.joblib.register()
    with joblib.parallel_config(backend="shmarray", n_jobs=2):
        cross_val_score(KNeighborsClassifier(), values[:100], labels[:100])  # the workers have started
        began = time.perf_counter()
        scores = cross_val_score(KNeighborsClassifier(algorithm="brute"), values, labels, cv=4)
        seconds = time.perf_counter() - began
    print(f"result {scores.mean():.6f} of {samples} samples with {features} features, {values.nbytes / 1e6:.0f} MB")
    print(f"seconds {seconds:.4f}")


if __name__ == "__main__":
    main(*((400, 20) if "--small" in sys.argv else (4000, 5000)))
