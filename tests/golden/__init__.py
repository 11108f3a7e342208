"""Golden records of everything that is released with seeded noise, for refactorings.

    python -m tests.golden list
    python -m tests.golden record OUT.json [--only 'regression/*'] [--jobs 2]
    python -m tests.golden compare BASE [--only 'regression/*'] [--jobs 2]

``compare`` records this tree and the worktree BASE, one after the other on this machine, and holds
this one to the other: counts, texts, everything that passed the gate and every reply of a site to
the last bit, other floats to 1e-9. BASE needs this package too.

Cases are found in the modules that `cases.FAMILIES` names; what reaches into tacit to record
replies and releases is in `hooks` alone.
"""
