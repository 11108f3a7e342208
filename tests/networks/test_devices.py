"""The name of a device: what torch has is accepted, and anything else is refused by name."""

import pytest

from tacit._core.check import check
from tacit.errors import ParameterError

Device = pytest.importorskip("tacit.networks.devices").Device


@pytest.mark.parametrize("name", ["auto", "cpu", "mps", "cuda", "cuda:0", "cuda:11"])
def test_names_that_torch_knows_are_accepted(name):
    assert Device().accepts(name)
    check("device", name, Device())


@pytest.mark.parametrize("name", [*Device().bad_values(), "CPU", "cuda:x", "cpu ", None])
def test_other_names_are_refused_with_name_and_remedy(name):
    with pytest.raises(ParameterError, match=r"device must be 'auto'"):
        check("device", name, Device())
