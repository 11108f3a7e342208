"""Randomness is counted: every draw in the source is behind the gate or for inference only.

The test reads every file of tacit, lists each call that draws random numbers or makes a
generator, and fails for one that is neither

- privacy noise: inside `draw`, `_noise` or a private helper of `tacit.mechanisms` (which only
  `privatize` reaches), or in the three files that make such noise; nor
- inference: on a generator named ``rng``, ``rng_…``, or made by `tacit._core.rng` nearby.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from inspect import signature
from pathlib import Path
from typing import NamedTuple

import pytest

import tacit
from tacit.mechanisms.gaussian_share import GaussianShare

SOURCE = Path(tacit.__file__).parent

# Files whose business is to draw: nothing in them sees private data.
NOISE_FILES = {
    "_core/rng.py",
    "_core/exact.py",
    "_core/choice.py",
    "_core/discrete_gaussian.py",
    "mechanisms/noise.py",
}
# Functions of mechanisms/* in which privacy noise is drawn, besides their private helpers.
NOISE_FUNCTIONS = {"draw", "_noise"}

NUMPY_DRAWS = {
    "beta", "binomial", "chisquare", "choice", "dirichlet", "exponential", "gamma",
    "geometric", "gumbel", "hypergeometric", "integers", "laplace", "logistic", "lognormal",
    "logseries", "multinomial", "multivariate_hypergeometric", "multivariate_normal",
    "negative_binomial", "noncentral_chisquare", "noncentral_f", "normal", "pareto",
    "permutation", "permuted", "poisson", "rand", "randint", "randn", "random",
    "random_raw", "random_sample", "rayleigh", "shuffle", "standard_cauchy",
    "standard_exponential", "standard_gamma", "standard_normal", "standard_t", "triangular",
    "uniform", "vonmises", "wald", "weibull", "wishart", "zipf",
}  # fmt: skip
OWN_DRAWS = {"words", "word", "bits", "below", "gaussian", "fixed_point", "half_normal"}
OTHER_DRAWS = {"rvs", "urandom", "getrandbits", "token_bytes", "randbelow", "bernoulli"}
DRAWS = NUMPY_DRAWS | OWN_DRAWS | OTHER_DRAWS
GENERATORS = {
    "default_rng", "Generator", "RandomState", "SeedSequence", "PCG64", "PCG64DXSM", "MT19937",
    "Philox", "SFC64", "ChaCha20", "AESCounter", "WordStream", "SystemRandom", "Random", "seed",
    "manual_seed",
}  # fmt: skip
RANDOM_MODULES = {"random", "secrets", "numpy.random", "cryptography"}
# Functions of the same name that compute and do not draw.
MATHEMATICS = {"math", "special", "scipy.special", "mpmath", "np", "numpy", "stats.beta"}
MAKERS = {"generator", "streams"}  # of tacit._core.rng
INFERENCE_NAME = re.compile(r"_?rng(_\w+)?$")


class Draw(NamedTuple):
    """A call that draws random numbers, and where it stands."""

    path: str
    line: int
    function: str
    call: str

    def __str__(self) -> str:
        return f"src/tacit/{self.path}:{self.line}: {self.call}(…) in {self.function}"


def dotted(node: ast.expr) -> str:
    """Return ``a.b.c`` of an expression, with calls and subscripts left out."""
    match node:
        case ast.Name(name):
            return name
        case ast.Attribute(value, attribute):
            return f"{dotted(value)}.{attribute}"
        case ast.Call(function):
            return dotted(function)
        case ast.Subscript(value):
            return dotted(value)
    return "?"


class Scanner(ast.NodeVisitor):
    """Collects the draws of one file."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.functions: list[str] = []
        self.inference: list[set[str]] = [set()]
        self.draws: list[Draw] = []

    def scan(self, tree: ast.Module) -> list[Draw]:
        self.visit(tree)
        return self.draws

    def _found(self, node: ast.AST, call: str) -> None:
        where = self.functions[0] if self.functions else "the module"
        self.draws.append(Draw(self.path, node.lineno, where, call))

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self.functions.append(node.name)
        self.inference.append(set(self.inference[-1]))
        self.generic_visit(node)
        self.inference.pop()
        self.functions.pop()

    visit_AsyncFunctionDef = visit_FunctionDef  # type: ignore[assignment]

    def visit_Assign(self, node: ast.Assign) -> None:
        self.generic_visit(node)
        made = dotted(node.value).split(".")[-1] if isinstance(node.value, ast.Call) else ""
        if made in MAKERS:
            for target in node.targets:
                names = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
                self.inference[-1] |= {dotted(name) for name in names}

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            if alias.name in RANDOM_MODULES:
                self._found(node, f"import {alias.name}")

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        certificates = node.module == "cryptography" and [a.name for a in node.names] == ["x509"]
        if node.module in RANDOM_MODULES and not certificates:
            self._found(node, f"from {node.module} import")

    def visit_Call(self, node: ast.Call) -> None:
        self.generic_visit(node)
        name = dotted(node.func)
        receiver, _, method = name.rpartition(".")
        if method in GENERATORS or (receiver and method in DRAWS and not self._harmless(receiver)):
            self._found(node, name)

    def _harmless(self, receiver: str) -> bool:
        if receiver in MATHEMATICS or receiver in self.inference[-1]:
            return True
        last = receiver.split(".")[-1]
        return bool(INFERENCE_NAME.match(last)) or last in MAKERS


# hide replies and cancel in a sum: no privacy noise
MASKS = ("federation/secure/keys.py", "stream")
# which of a person's rows count, whatever they hold: no privacy noise
CHOICE = ("data/rows.py", "bounded")
# where people stand who are told apart by their names: no privacy noise
ORDER = ("data/rows.py", "shuffled")
# which shard a person's rows are brought to, and the key of that choice and order there
SHARDS = (("data/spooling.py", "by_unit"), ("estimators/loading.py", "_loaded"))


def allowed(draw: Draw) -> bool:
    """Whether a draw of privacy noise stands where only `privatize` can reach it."""
    if draw.path in NOISE_FILES or (draw.path, draw.function) in (MASKS, CHOICE, ORDER, *SHARDS):
        return True
    private_helper = draw.function.startswith("_") and not draw.function.startswith("__")
    return draw.path.startswith("mechanisms/") and (
        draw.function in NOISE_FUNCTIONS or private_helper
    )


@cache
def source_trees() -> dict[str, ast.Module]:
    """Return every file of tacit, parsed."""
    return {
        path.relative_to(SOURCE).as_posix(): ast.parse(path.read_text())
        for path in sorted(SOURCE.rglob("*.py"))
    }


@cache
def all_draws() -> list[Draw]:
    return [draw for path, tree in source_trees().items() for draw in Scanner(path).scan(tree)]


def test_every_draw_is_behind_the_gate_or_for_inference():
    stray = [draw for draw in all_draws() if not allowed(draw)]
    assert not stray, (
        "these calls draw random numbers outside the gate; draw privacy noise in a mechanism, "
        "and name inference generators rng or rng_…:\n" + "\n".join(map(str, stray))
    )


def test_the_scanner_sees_the_draws_that_exist():
    seen = {(draw.path, draw.call.rpartition(".")[2]) for draw in all_draws()}
    assert {
        ("_core/rng.py", "ChaCha20"),
        ("_core/exact.py", "words"),
        ("mechanisms/noise.py", "WordStream"),
        ("mechanisms/gaussian.py", "gaussian"),
        ("mechanisms/geometric.py", "geometric"),
        ("mechanisms/local.py", "words"),
        ("mechanisms/exponential.py", "below"),
        ("mechanisms/smooth_quantile.py", "laplace"),
        ("mechanisms/knorm.py", "fixed_point"),
    } <= seen


@pytest.mark.parametrize(
    "code",
    [
        "import random",
        "from secrets import token_bytes",
        "from numpy.random import default_rng",
        "def fit(x):\n    return x + np.random.normal(size=3)",
        "def fit(x):\n    return np.random.default_rng(0).normal()",
        "def fit(x, noise):\n    return x + noise.gaussian(3, 1.0)",
        "def fit(self, x):\n    return x + self._noise.stream.words(3)",
        "def fit(x, stream):\n    return stream.below(3)",
        "def fit(x, law):\n    return law.integers(x, 3, 1.0)",
        "def fit(x, random_state):\n    return random_state.permutation(x)",
        "def fit(x):\n    return stats.norm.rvs(size=3)",
        "key = os.urandom(32)",
        "def fit(x):\n    return WordStream().word()",
    ],
)
def test_a_stray_draw_is_found(code):
    draws = Scanner("estimators/somewhere.py").scan(ast.parse(code))
    assert draws
    assert not any(allowed(draw) for draw in draws)


@pytest.mark.parametrize(
    "code",
    [
        "def step(rng, state):\n    return rng.normal()",
        "def step(rng_proposal, state):\n    return rng_proposal.gamma(2.0)",
        "def step(self):\n    return self._rng.standard_normal()",
        "def fit(seed):\n    split, order = streams(seed, 'split', 'order')\n"
        "    return split.random(), order.permutation(3)",
        "def fit(seed):\n    walk = generator(seed, 'proposal')\n    return walk.choice(3)",
        "def fit(seed):\n    return generator(seed, 'proposal').choice(3)",
        "def log_density(x):\n    return special.gamma(x) + math.gamma(x) + np.power(x, 2)",
    ],
)
def test_inference_generators_and_mathematics_are_not_strays(code):
    assert not Scanner("regression/numerics/somewhere.py").scan(ast.parse(code))


def test_a_public_function_of_a_mechanism_file_may_not_draw_noise():
    code = "def helpful(noise):\n    return noise.gaussian(1, 2.0)"
    assert not allowed(Scanner("mechanisms/new.py").scan(ast.parse(code))[0])


# --- one gate ---------------------------------------------------------------------------------


def callers_of(name: str) -> set[tuple[str, str]]:
    """Return (path, function) of every call of a function or method with this name."""
    return {
        (path, function.name)
        for path, tree in source_trees().items()
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.Call) and dotted(node.func).split(".")[-1] == name
    }


def test_privatize_is_the_only_caller_of_draw():
    assert callers_of("draw") == {
        ("mechanisms/base.py", "privatize"),
        # attacks, on canaries that are no secret
        ("audit/transcript.py", "drawn"),
        # mechanisms that hand over to what they wrap or are made of
        ("mechanisms/sampled.py", "draw"),
        ("mechanisms/sampled_fixed.py", "draw"),
        ("mechanisms/hybrid.py", "draw"),
        ("mechanisms/item_responses.py", "draw"),
        ("mechanisms/shuffled.py", "draw"),
        # a share of noise alone, on zeros that it makes itself: it takes no value
        ("mechanisms/gaussian_share.py", "unasked"),
    }
    assert list(signature(GaussianShare.unasked).parameters) == ["self", "noise"]


def test_private_helpers_that_draw_are_reached_through_draw_only():
    helpers = {
        draw.function
        for draw in all_draws()
        if draw.path.startswith("mechanisms/")
        and draw.path not in NOISE_FILES
        and draw.function not in NOISE_FUNCTIONS
    }
    assert "_coins" in helpers
    for helper in helpers:
        for path, caller in callers_of(helper):
            assert path.startswith("mechanisms/"), f"{path}: {caller} calls {helper}"
            assert caller in NOISE_FUNCTIONS | helpers, f"{path}: {caller} calls {helper}"
