"""Cross-validation of naive Bayes classifiers by joblib, which writes the data to files."""

import sys
import time

import joblib
import numpy as np
from sklearn.model_selection import cross_val_score
from sklearn.naive_bayes import GaussianNB


def data(samples, features):
    random = np.random.default_rng(7)
    values = random.random((samples, features))
    return values, (values[:, 0] + values[:, 1] > 1).astype(int)


def main(samples, features):
    values, labels = data(samples, features)
    with joblib.parallel_config(n_jobs=2):
        cross_val_score(GaussianNB(), values[:100], labels[:100])  # the workers have started
        began = time.perf_counter()
        classifiers = [
            GaussianNB(var_smoothing=smoothing) for smoothing in (1e-9, 1e-6, 1e-3, 1e-1)
        ]
        scores = [
            cross_val_score(classifier, values, labels, cv=4).mean() for classifier in classifiers
        ]
        seconds = time.perf_counter() - began
    print(
        f"result {max(scores):.6f} of {samples} samples with {features} features,"
        f" {values.nbytes / 1e6:.0f} MB"
    )
    print(f"seconds {seconds:.4f}")


if __name__ == "__main__":
    main(*((400, 20) if "--small" in sys.argv else (4000, 5000)))
