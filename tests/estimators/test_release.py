"""The release bundle: what is read is what was written, or nothing is read at all."""

import hashlib
import json
import math
import pickle
import random
import subprocess
import sys

import numpy as np
import pytest

from tacit.errors import NotCertified, TacitError, VerificationFailed
from tacit.estimators import release as module
from tacit.estimators.release import read_release, write_release
from tacit.estimators.site import Site
from tacit.privacy import certificate as certificates
from tacit.privacy.certificate import Certificate
from tacit.privacy.events import LaplaceDpEvent, NonPrivateDpEvent
from tacit.privacy.guarantee import Privacy
from tacit.privacy.ledger.ledger import Ledger
from tacit.summary.estimator import PrivateSummary

FILES = {"manifest.json", "certificates.json", "arrays.npz"}
ARRAYS = {
    "mean/age": np.array(41.5),
    "histogram/age/counts": np.arange(6.0),
    "rows/ß": np.array([[1, 2], [3, 4]], np.int64),
    "empty": np.zeros((0, 3), np.float32),
    "odd": np.array([np.nan, np.inf, -0.0]),
}


def certificate(**more):
    return Certificate.issue(Privacy(epsilon=1.0), LaplaceDpEvent(2.0), **more)


@pytest.fixture
def bundle(tmp_path):
    """Return the folder of a release of two sites."""
    certificates = {"Nörth": certificate(holder="Nörth"), "South": certificate(holder="South")}
    settings = {"bounds": {"age": [0, 110]}, "note": "größer"}
    return write_release(tmp_path / "release", "Example", ARRAYS, certificates, settings)


def reseal(folder, change):
    """Let an attacker change the manifest and recompute its seal."""
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text("utf-8").rstrip("\n").rpartition("\n")[0])
    body = json.dumps(change(manifest), ensure_ascii=False, indent=1, sort_keys=True)
    path.write_text(f"{body}\n{hashlib.sha256(body.encode()).hexdigest()}\n", encoding="utf-8")


# -- writing and reading ----------------------------------------------------------------------


def test_a_release_reads_back_as_it_was_written(bundle):
    assert {file.name for file in bundle.iterdir()} == FILES
    release = read_release(bundle)
    assert release.estimator == "Example"
    assert release.manifest["settings"] == {"bounds": {"age": [0, 110]}, "note": "größer"}
    assert set(release.manifest["versions"]) == {"tacit", "numpy", "python"}
    assert release.arrays.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        found = release.arrays[name]
        assert (found.dtype, found.shape, found.tobytes()) == (
            array.dtype, array.shape, array.tobytes(),
        )  # fmt: skip
    assert release.certificates["Nörth"] == certificate(holder="Nörth")


def test_a_fitted_summary_is_released_with_certificates_that_its_ledgers_confirm(tmp_path):
    rng = np.random.default_rng(0)
    sites = [
        Site(name, {"x": rng.random(200)}, Ledger.open(tmp_path / name, epsilon=2.0, delta=1e-5))
        for name in ("North", "South")
    ]
    privacy = Privacy(epsilon=1.0, delta=1e-6, trust="site")
    summary = PrivateSummary({"x": (0, 1)}, privacy=privacy, bins=4).fit(sites)
    summary.release(tmp_path / "release")
    release = read_release(tmp_path / "release")
    assert float(release.arrays["count"]) == summary.count_
    assert float(release.arrays["mean/x"]) == summary.mean_["x"]
    np.testing.assert_array_equal(release.arrays["quantiles/x"], summary.quantiles_["x"])
    np.testing.assert_array_equal(release.arrays["histogram/x/counts"], summary.histogram_["x"][0])
    for site in sites:
        release.certificates[site.name].verify(site.ledger)


def test_equal_releases_are_equal_files(tmp_path):
    """Nothing but the content is in the files: no time of day, no path."""
    for name in ("a", "b"):
        write_release(tmp_path / name, "Example", ARRAYS, {"North": certificate()}, {})
    for name in FILES:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


# -- refused ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bad", "match"),
    [
        (
            Certificate.issue(Privacy(epsilon=math.inf), NonPrivateDpEvent()),
            "no finite guarantee",
        ),
        (certificate(assumptions=("seeded noise: not for release",)), "seeded"),
    ],
    ids=["not private", "seeded"],
)
def test_what_has_no_guarantee_is_not_written(tmp_path, bad, match):
    certificates = {"North": certificate(), "South": bad}
    with pytest.raises(NotCertified, match=match):
        write_release(tmp_path / "release", "Example", ARRAYS, certificates, {})
    assert not (tmp_path / "release").exists()


def test_arrays_without_any_certificate_are_not_written(tmp_path):
    with pytest.raises(NotCertified):
        write_release(tmp_path / "release", "Example", ARRAYS, {}, {})
    assert not (tmp_path / "release").exists()


def test_an_existing_release_is_not_overwritten(bundle):
    before = {file.name: file.read_bytes() for file in bundle.iterdir()}
    with pytest.raises(NotCertified, match=r"holds a release already: choose another folder"):
        write_release(bundle, "Other", {"a": np.zeros(1)}, {"North": certificate()}, {})
    assert {file.name: file.read_bytes() for file in bundle.iterdir()} == before


class Bomb:
    """Fails the test if it is ever unpickled."""

    def __reduce__(self):
        return pytest.fail, ("a release was unpickled",)


@pytest.mark.parametrize("array", [np.array([Bomb()]), np.array([{}]), [None, 1.0]])
def test_an_object_array_is_not_written(tmp_path, array):
    with pytest.raises((TacitError, ValueError)):
        write_release(tmp_path / "release", "X", {"a": array}, {"North": certificate()}, {})
    assert not (tmp_path / "release" / "arrays.npz").exists()


def test_a_pickled_array_with_a_true_hash_is_not_opened(bundle):
    np.savez(bundle / "arrays.npz", a=np.array([Bomb()], dtype=object))
    data = (bundle / "arrays.npz").read_bytes()
    reseal(
        bundle,
        lambda m: {**m, "sha256": {**m["sha256"], "arrays.npz": hashlib.sha256(data).hexdigest()}},
    )
    with pytest.raises(VerificationFailed):
        read_release(bundle)


@pytest.mark.parametrize("name", sorted(FILES))
def test_a_pickle_in_place_of_a_file_is_not_opened(bundle, name):
    (bundle / name).write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(VerificationFailed):
        read_release(bundle)


@pytest.mark.parametrize("name", ["file", "allow_pickle", "arr_0", "a.npy", "../up", "a/b"])
def test_an_array_may_have_any_name(tmp_path, name):
    folder = write_release(tmp_path / "r", "X", {name: np.ones(2)}, {"North": certificate()}, {})
    assert read_release(folder).arrays[name].tolist() == [1.0, 1.0]


# -- damaged ----------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.05, pytest.param(1.0, marks=pytest.mark.slow)])
def test_any_flipped_byte_is_found(bundle, share):
    contents = {file: file.read_bytes() for file in bundle.iterdir()}
    places = [(file, at) for file, data in contents.items() for at in range(len(data))]
    rng = random.Random(0)
    assert len(places) > 1000
    for file, at in rng.sample(places, int(share * len(places))):
        broken = bytearray(contents[file])
        broken[at] ^= rng.choice([0x01, 0x10, 0x80, 0xFF])
        file.write_bytes(broken)
        with pytest.raises(VerificationFailed):
            read_release(bundle)
        file.write_bytes(contents[file])
    read_release(bundle)


@pytest.mark.parametrize("extra", ["notes.txt", ".hidden", "manifest.json.bak"])
def test_a_file_that_does_not_belong_is_found(bundle, extra):
    (bundle / extra).write_text("anything", encoding="utf-8")
    with pytest.raises(VerificationFailed, match="no part of the release"):
        read_release(bundle)
    (bundle / extra).unlink()
    (bundle / "folder").mkdir()
    with pytest.raises(VerificationFailed, match="no part of the release"):
        read_release(bundle)


def test_reading_runs_no_code_of_the_release(bundle):
    """Reading needs no pickle at all."""
    code = (
        "import pickle\n"
        "from tacit.estimators.release import read_release\n"
        "def refuse(*a, **k): raise SystemExit('code was run')\n"
        "pickle.loads = pickle.load = pickle.Unpickler = refuse\n"
        f"read_release({str(bundle)!r})\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_changed_line_end_is_found(bundle):
    path = bundle / "manifest.json"
    content = path.read_bytes()
    for broken in (
        content.replace(b"\n", b"\r", 1),
        content.replace(b"\n", b"\r\n"),
        content[:-1] + b"\r",
        content + b"\n",
    ):
        path.write_bytes(broken)
        with pytest.raises(VerificationFailed):
            read_release(bundle)


@pytest.mark.parametrize("name", sorted(FILES))
def test_a_missing_file_is_found(bundle, name):
    (bundle / name).unlink()
    with pytest.raises(VerificationFailed, match="not a whole release"):
        read_release(bundle)


@pytest.mark.parametrize("name", sorted(FILES))
def test_a_truncated_file_is_found(bundle, name):
    content = (bundle / name).read_bytes()
    for length in (0, 1, len(content) // 2, len(content) - 2):
        (bundle / name).write_bytes(content[:length])
        with pytest.raises(VerificationFailed):
            read_release(bundle)


def test_a_folder_without_a_release_is_refused(tmp_path):
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(VerificationFailed, match="not a whole release"):
            read_release(folder)


def test_exchanged_certificates_are_found(bundle, tmp_path):
    other = write_release(tmp_path / "b", "X", ARRAYS, {"North": certificate(holder="B")}, {})
    (bundle / "certificates.json").write_bytes((other / "certificates.json").read_bytes())
    with pytest.raises(VerificationFailed, match="was changed after the release"):
        read_release(bundle)


@pytest.mark.parametrize(
    ("forger", "match"),
    [(False, "certificate was changed"), (True, "states epsilon=0.01, but its events give 0.5")],
    ids=["careless", "careful"],
)
def test_a_certificate_that_does_not_follow_from_its_events_is_found(bundle, forger, match):
    path = bundle / "certificates.json"
    data = json.loads(path.read_text("utf-8"))
    data["South"]["epsilon"] = 0.01
    if forger:
        del data["South"]["digest"]
        data["South"]["digest"] = certificates._digest(data["South"])
    path.write_text(json.dumps(data), encoding="utf-8")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    reseal(bundle, lambda m: {**m, "sha256": {**m["sha256"], "certificates.json": digest}})
    with pytest.raises(VerificationFailed, match=match):
        read_release(bundle)


@pytest.mark.parametrize(
    "change",
    [
        lambda m: {k: v for k, v in m.items() if k != "schema"},
        lambda m: {k: v for k, v in m.items() if k != "sha256"},
        lambda m: {k: v for k, v in m.items() if k != "estimator"},
        lambda m: {**m, "schema": "first"},
        lambda m: {**m, "sha256": {}},
        lambda m: [],
    ],
    ids=["schema", "sha256", "estimator", "text", "no hashes", "list"],
)
def test_a_sealed_manifest_that_makes_no_sense_is_refused(bundle, change):
    reseal(bundle, change)
    with pytest.raises(VerificationFailed):
        read_release(bundle)


# -- schemas ----------------------------------------------------------------------------------


def test_a_newer_schema_is_refused(bundle):
    reseal(bundle, lambda m: {**m, "schema": 2})
    with pytest.raises(VerificationFailed, match="release schema 2 is unknown here: update tacit"):
        read_release(bundle)


def test_an_older_release_is_upgraded(bundle, monkeypatch):
    upgrades = []

    def upgrade(manifest):
        upgrades.append(manifest["schema"])
        return {**manifest, "schema": 2, "estimator": "Renamed" + manifest["estimator"]}

    monkeypatch.setattr(module, "SCHEMA", 2)
    monkeypatch.setitem(module.UPGRADES, 1, upgrade)
    release = read_release(bundle)
    assert upgrades == [1]
    assert release.estimator == "RenamedExample"
    assert release.arrays.keys() == ARRAYS.keys()


def test_an_older_release_without_an_upgrade_is_refused(bundle, monkeypatch):
    monkeypatch.setattr(module, "SCHEMA", 3)
    monkeypatch.setitem(module.UPGRADES, 2, lambda manifest: {**manifest, "schema": 3})
    with pytest.raises(VerificationFailed, match="schema 1 is unknown"):
        read_release(bundle)
