"""Walkthroughs: what stands alone is told from what still needs the data."""

import pytest

from experiments._walkthroughs import walked

RELEASES = """
```{code-cell}
import tacit as tc
from pathlib import Path
Path("data.csv").write_text("x\\n0.25\\n0.75\\n")
model = tc.PrivateSummary({"x": (0, 1)}, statistics=("mean",), privacy=tc.Privacy(1))
model.fit("data.csv").release("mean");
```

```{code-cell}
:alt: a line
:tags: [release-only]
import matplotlib.pyplot as plt
import tacit as tc
table = tc.PrivateSummary.from_release("mean")
MORE
plt.plot([0, table.mean_["x"]]);
```
"""


@pytest.fixture
def story(tmp_path):
    """Return a function that writes a story and walks through it."""
    page = tmp_path / "gallery" / "01-story.md"
    page.parent.mkdir()

    def walk(text):
        page.write_text(text, encoding="utf-8")
        return walked(page)

    return walk


def test_a_release_that_stands_alone_answers(story):
    found = story(RELEASES.replace("MORE", "table.count = 1"))
    assert (found["verifies"], found["answers"], found["why"]) == (True, True, "")
    assert (found["lines"], found["pictures"]) == (10, 1)


def test_cells_that_still_read_the_data_do_not_pass_for_a_release(story):
    found = story(RELEASES.replace("MORE", 'open("data.csv").close()'))
    assert (found["verifies"], found["answers"]) == (True, False)
    assert "data.csv" in found["why"]


def test_a_story_that_leaves_nothing_or_fails_is_said(story):
    found = story("```{code-cell}\n1 + 1\n```\n")
    assert (found["verifies"], found["answers"]) == (False, False)
    assert found["why"] == "it leaves no whole release"
    assert "ZeroDivisionError" in story("```{code-cell}\n1 / 0\n```\n")["why"]
