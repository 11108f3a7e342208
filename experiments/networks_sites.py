"""Networks over sites: MNIST at 1, 5 and 10 sites, each with its own rows, noise and ledger.

Source: Ermiş (2020), chapter 9. The images are dealt out evenly; a linear layer behind fixed
filters (`tacit.networks.Scattering`) learns by the defaults of `tacit.networks.training`, at
δ = 1e-5. Trust ``site``: every site adds all of the noise to its own sum. Trust ``aggregator``:
only the sum is seen, and the noise comes in t − c shares: of all sites with nobody on the
coordinator's side, and of 7 of 10 with one. There every site builds its own side from the proposal
and answers messages.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from experiments._dropout import CLASSES, mnist
from experiments.runner import Outcome
from tacit.estimators.site import Site
from tacit.federation.computation import Computation
from tacit.federation.proposal import Proposal
from tacit.networks import PrivateDropoutClassifier, Scattering, Training
from tacit.privacy.guarantee import Privacy
from tacit.privacy.ledger.ledger import Ledger
from tacit.rounds.aggregate import PlainAggregator, SumAggregator
from tacit.rounds.run import run as run_rounds

EPSILONS = (1.0, 3.0)
DELTA = 1e-5
NEAR = 0.005  # of one holder's accuracy


@cache
def filtered(rows: int, tests: int) -> Any:
    """Return (train, test) behind the fixed filters."""
    import torch

    filters, found = Scattering(), []
    for kind, count in (("train", rows), ("t10k", tests)):
        images, labels = mnist(kind)
        parts = torch.from_numpy(images[:count].astype(np.float32) / 255.0).split(1000)
        with torch.no_grad():
            found.append((torch.cat([filters(part) for part in parts]).numpy(), labels[:count]))
    return found


def dealt(train: Any, sites: int) -> list[Site]:
    """Return the sites with every so-many-th image."""
    inputs, labels = train
    return [Site(f"site {k}", (inputs[k::sites], labels[k::sites])) for k in range(sites)]


def model_of(
    rows: int, privacy: Privacy, seed: int, steps: int | None
) -> PrivateDropoutClassifier:
    return PrivateDropoutClassifier(
        (), bounds=(-1, 1), normalize="none", classes=CLASSES, rows=rows, privacy=privacy,
        training=Training(steps=steps), random_state=seed,
    )  # fmt: skip


def federated(
    train: Any, sites: int, privacy: dict[str, Any], threshold: int | None, colluding: int,
    seed: int, steps: int | None,
) -> Any:  # fmt: skip
    """Return the model of a proposal whose sides are built apart, and one certificate."""
    width = train[0].shape[1]
    names = [f"x{k}" for k in range(width)]
    held = {site.name: site.data for site in dealt(train, sites)}
    proposal = Proposal(
        "network-classifier",
        {
            "inputs": names, "target": "y", "hidden": [], "bounds": [-1, 1], "normalize": "none",
            "classes": list(CLASSES), "rows": len(train[0]),
            "training": {} if steps is None else {"steps": steps},
        },
        privacy, tuple(held), "run", threshold, seed, colluding=colluding,
    )  # fmt: skip
    ours = Computation(proposal)
    sides = {}
    for name, pair in held.items():
        theirs = Computation(Proposal.from_json(proposal.to_json()))
        data = theirs.model._read(pair, theirs.agreement)
        paper = Ledger.memory(epsilon=privacy["epsilon"], delta=privacy["delta"])
        sides[name] = theirs.answering(name, data, paper)
    asking = ours.coordinator()
    masked = privacy["trust"] == "aggregator"
    aggregator = SumAggregator(threshold or sites) if masked else PlainAggregator()
    record = run_rounds(asking, [s.participant for s in sides.values()], aggregator=aggregator)
    return ours.conclude(asking, record, {n: side.certificate() for n, side in sides.items()})


def run(quick: bool) -> Outcome:
    """Fit with every number of sites and every trust."""
    outcome = Outcome()
    rows, tests, steps, seeds = (1000, 500, 20, 1) if quick else (60_000, 10_000, None, 3)
    counts = (1, 2, 3) if quick else (1, 5, 10)
    train, test = filtered(rows, tests)

    def row(found: list[Any], sites: int, trust: str, epsilon: float, how: str) -> float:
        accuracies = [model.score(*test) for model in found]
        certified = max(c.epsilon for model in found for c in model.certificates_.values())
        outcome.add({
            "sites": sites, "trust": trust, "ε": epsilon, "certified ε": certified, "how": how,
            "accuracy": float(np.mean(accuracies)), "sd": float(np.std(accuracies)),
            "seeds": len(found), "noise over one holder's": found[0].training_.noise
            / (found[0].training_.noise_multiplier * found[0].training_.norm),
        })  # fmt: skip
        return float(np.mean(accuracies))

    for epsilon in EPSILONS:
        alone = 0.0
        for sites in counts:
            for trust in ("site", "aggregator") if sites > 1 else ("central",):
                privacy = Privacy(epsilon, DELTA, trust=trust)
                found = [
                    model_of(rows, privacy, seed, steps).fit(dealt(train, sites))
                    for seed in range(seeds)
                ]
                right = row(found, sites, trust, epsilon, "t = n, c = 0")
                if sites == 1:
                    alone = right
                elif trust == "aggregator":
                    outcome.check(
                        f"aggregator, {sites} sites, t = n, c = 0, ε = {epsilon:g}", right,
                        f"within 0.5 % of one holder, {alone:.4f}", right >= alone - NEAR,
                    )  # fmt: skip
        most = counts[-1]
        fewest = 7 if most == 10 else most
        asked = {"epsilon": epsilon, "delta": DELTA, "trust": "aggregator"}
        weaker = [federated(train, most, asked, fewest, 1, s, steps) for s in range(seeds)]
        row(weaker, most, "aggregator", epsilon, f"t = {fewest}, c = 1")
    _same_bits(outcome, train, counts[1], steps)
    return outcome


def _same_bits(outcome: Outcome, train: Any, sites: int, steps: int | None) -> None:
    """Check that a federation learns the bits of one process, for both trusts."""
    for trust in ("site", "aggregator"):
        privacy = {"epsilon": 1.0, "delta": DELTA, "trust": trust}
        threshold = sites if trust == "aggregator" else None
        short = min(steps or 20, 20)
        there = federated(train, sites, privacy, threshold, 0, 7, short)
        here = model_of(len(train[0]), Privacy(**privacy), 7, short).fit(dealt(train, sites))
        same = all(np.array_equal(there.shared_[n], array) for n, array in here.shared_.items())
        outcome.check(f"a federation's bits, trust {trust}", "equal" if same else "different",
                      "bit for bit as in one process", same)  # fmt: skip
