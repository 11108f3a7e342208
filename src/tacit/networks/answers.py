"""What a network says to a person: its layers, how much of them is noise, which inputs count.

Only released weights and public settings enter. How well it does is not among them: a score on
private rows is data, and is asked for with `score` on rows that may be looked at.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tacit._core.answers import SPREAD, Answer, Table
from tacit._core.draws import draws_table
from tacit._core.estimates import few, intervals, texts
from tacit._core.pictures import Bars

__all__ = ["network_answer"]

_MOSTLY = 0.5  # a dropout rate from which on a layer is mostly noise
_SCORES = "no accuracy is shown: a score on private rows is data; score(…) takes public ones"
_INPUTS = (
    "the length of an input's weights in the first layer, over the samples that were kept of one "
    "trajectory: neighbouring ones are alike, so that intervals may be too short"
)


def network_answer(model: Any, level: float) -> Answer:
    """Return the layers and inputs of a fitted private network."""
    layers = model.layer_dropout()
    shapes = {n: p for n, p in model.module_.named_parameters() if p.requires_grad}
    sizes = [shapes[layer.name].numel() for layer in layers]
    rates = [100.0 * float(layer.rate) for layer in layers]
    table = Table(
        "layers",
        "Layers, and the dropout that their noise amounts to",
        {
            "layer": texts(layer.name for layer in layers),
            "shape": [" × ".join(map(str, shapes[layer.name].shape)) for layer in layers],
            "weights": sizes,
            "noise to signal": [float(np.sqrt(layer.alpha)) for layer in layers],
            "dropout, %": rates,
        },
        (_SCORES,),
    )
    total = sum(sizes)
    noisy = [layer.name for layer in layers if layer.rate > _MOSTLY]
    whole = float(np.average(rates, weights=sizes)) if total else 0.0
    inputs = _inputs(model, shapes, level)
    names, what = _targets(model)
    seen = f" from {few(inputs.columns['input'])}" if inputs is not None else ""
    tables = [table] if inputs is None else [inputs, table]
    pictures: dict[str, Any] = {
        "layers": Bars(table.caption, "dropout, %", table.columns["layer"], rates)
    }
    if inputs is not None:
        shown = intervals("Inputs by their weights", "length", inputs, "mean")
        pictures = {"inputs": shown} | pictures
    if len(names) > 1:
        labels: dict[str, list[Any]] = {"class": names, "number": list(range(len(names)))}
        tables.append(Table("classes", "Classes, as they were stated", labels))
    return Answer(
        f"A network of {total:,} weights by {model.training_.method}",
        f"It tells {what}{seen}; the noise of a step amounts to a dropout of {whole:.2g} % of "
        "the weights.",
        tuple(tables),
        tuple([f"{few(noisy)}: more noise than weights."] if noisy else []),
        pictures=pictures,
    )


def _targets(model: Any) -> tuple[list[str], str]:
    """Return the public labels, and what is predicted in words."""
    classes = vars(model).get("classes_")
    if classes is not None:
        names = texts(np.asarray(classes).tolist())
        return names, f"{len(names)} classes ({few(names)}) apart"
    return [], "a number" if model.target is None else str(model.target)


def _inputs(model: Any, shapes: Any, level: float) -> Table | None:
    """Return how much each input counts; None where the first layer does not see them as such."""
    first = next(iter(shapes.values()), None)
    count = int(np.prod(model._width))
    if first is None or first.ndim != 2 or first.shape[1] != count or model.features is not None:
        return None
    names = texts(model._names) or [f"input {k}" for k in range(1, count + 1)]
    if len(names) != count:
        return None
    samples = np.asarray(model.result_.samples, np.float64)[:, : first.numel()]
    if model.training_.method == "dp-sgd" or not len(samples):
        samples = first.detach().cpu().numpy().astype(np.float64).reshape(1, -1)
    lengths = np.linalg.norm(samples.reshape(-1, *first.shape), axis=1)
    order = np.argsort(-lengths.mean(axis=0), kind="stable")
    drawn = draws_table([names[k] for k in order], lengths[None][..., order], level, what="input")
    keep = ("input", "mean") if len(lengths) < 2 else ("input", "mean", SPREAD, "low", "high")
    columns = {heading: drawn.columns[heading] for heading in keep}
    return Table("inputs", "Inputs by their weights", columns, (_INPUTS,))
