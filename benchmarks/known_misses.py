"""Bars that are missed for now: experiment or benchmark → bar → why.

A bar that is missed and not listed fails the tests. For the house and for planted mistakes a
listed bar that is met fails them too, so that the list only shrinks; quick forms of experiments,
which have fewer runs, may meet what is listed.
"""

from __future__ import annotations

KNOWN_MISSES: dict[str, dict[str, str]] = {
    "house": {
        "lines of the source": (
            "worst cases, examples, releases that are read back and published methods as "
            "agreements of their own came, then the wall between institutions (5,000 lines); "
            "3,400 lines of twins went"
        ),
    },
    "mutants": {},
    "cold-start": {
        "factorization: sgld: first − second, s": "5.8 s: kernels over members' cells",
        "factorization: sgld, counts: first − second, s": (
            "5.5 s: four kernels over members' cells, of about a second each"
        ),
        "network: first − second, s": "5.8 s",
        "all in one cache: first − second, s": "23.6 s",
    },
    "sampler-defaults": {
        "largest error of maximum likelihood, over a constant's": (
            "without a prior it overfits a few cells per member: that is what it is"
        ),
        "largest error of a Bayesian default, over the best known setting's": (
            "two of 33, vb and gibbs on one Gaussian tensor, start in a poor optimum, which "
            "R-hat tells of the chain; the others are within 3 %"
        ),
    },
    "sites-uclaf": {
        f"Model-{k}, ε = 10: below own cells alone": (
            "the best free predictor knows a user's own cells; all cells of all sites, without "
            "any privacy, bring 0.031 more, and the bar is 0.15"
        )
        for k in (1, 2, 3)
    },
    "sites-movielens": {
        "user, ten sites, each its own, against only the best site": (
            "the quick form takes one split, in which the two are 0.0002 apart: with everything "
            "about users protected, both are hardly better than own means (1.036 and 1.038)"
        ),
    },
    "statistic-selection": {
        "Figure 6.5: widths at which adaptive selection has the smaller error": (
            "the quick form has too few runs to tell the errors apart"
        ),
    },
    "topic-recovery": {
        "order of AGN, AVN, DP-TPM, random at ε = 0.01": (
            "ten runs do not tell: DP-TPM learns nothing there, its vectors have the law of "
            "random ones, and AVN (0.421 over 60 runs) is hardly ahead of these (0.441)"
        ),
        "topics 50/10, N = 10000, ε = 1.0: against the mean": (
            "noise hides the topics, all of them are the one private word distribution, and the "
            "bar is that of the mean without noise (0.1807 against 0.1804)"
        ),
    },
    "uclaf-links": {
        "RMSE, CP, euclidean, 50% for training: single minus coupled": (
            "they differ in the fourth digit, and the quick form takes one split"
        ),
        "variational: rank 2 minus rank 20": (
            "eighteen more columns than links need cost the thesis nothing; here they lose AUC"
        ),
        "maximum likelihood: rank 2 minus rank 20": (
            "the thesis's maximum likelihood overfits at rank 20; here it gains AUC on one split"
        ),
    },
}
