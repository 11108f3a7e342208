"""A rogue server asks a live engine for files: it runs the commands, and finds nothing to read.

``python -m experiments hostile`` plays this with the best sandbox and with a control that has
none; here it is played with each sandbox that there is.
"""

import pytest

from experiments._hostile import messages
from experiments._hostile.engine import Federation
from tacit.federation.engine import isolation

from .engine.support import need, processes_of, way_named

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", ["namespaces", "bubblewrap"])
def test_a_rogue_server_reads_nothing_of_a_site(tmp_path, monkeypatch, name):
    way = way_named(name)
    need(way)
    monkeypatch.setattr(isolation, "WAYS", (way,))
    with Federation(tmp_path, ("A",), ()) as federation:
        assert federation.running["A"].isolation == name
        assert federation.session
        got = messages.play(federation, federation.server, "A", long=False)
    assert got.attempts > 80 and got.won == 0
    assert not processes_of(tmp_path)
